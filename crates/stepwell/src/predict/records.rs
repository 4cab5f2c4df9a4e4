//! Scores as Parquet: a record for each, with the column that names it, if one does.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// Records of a row group, which wait in memory until they are so many.
const GROUP_RECORDS: usize = 128 << 10;

/// Writes records.
pub(super) struct Records<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    names: Option<Vec<ByteArray>>,
    /// Of each column.
    scores: Vec<Vec<f32>>,
}

impl<W: Write + Send> Records<W> {
    /// Begins a file of these columns of scores, whose records `column` names, if one does.
    pub(super) fn begin(to: W, column: Option<&str>, scores: &[String]) -> io::Result<Self> {
        let mut fields = Vec::new();
        let text = column.map(|column| {
            Type::primitive_type_builder(column, Physical::BYTE_ARRAY)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::String))
                .build()
        });
        fields.extend(text.transpose().map_err(plain)?.map(Arc::new));
        for name in scores {
            let score = Type::primitive_type_builder(name, Physical::FLOAT)
                .with_repetition(Repetition::REQUIRED)
                .build();
            fields.push(Arc::new(score.map_err(plain)?));
        }
        let schema = Type::group_type_builder("scores").with_fields(fields).build();
        let schema = Arc::new(schema.map_err(plain)?);
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(to, schema, properties).map_err(plain)?;
        let scores = scores.iter().map(|_| Vec::new()).collect();
        Ok(Self { writer, names: column.map(|_| Vec::new()), scores })
    }

    /// One more record.
    pub(super) fn put(
        &mut self,
        name: Option<String>,
        scores: impl Iterator<Item = f32>,
    ) -> io::Result<()> {
        if let (Some(names), Some(name)) = (&mut self.names, name) {
            names.push(ByteArray::from(name.into_bytes()));
        }
        self.scores.iter_mut().zip(scores).for_each(|(column, score)| column.push(score));
        if self.waiting() < GROUP_RECORDS { Ok(()) } else { self.write_group().map_err(plain) }
    }

    /// Records that are not written yet.
    fn waiting(&self) -> usize {
        self.scores.first().map_or(0, Vec::len)
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        if let Some(names) = &mut self.names
            && let Some(mut column) = group.next_column()?
        {
            column.typed::<ByteArrayType>().write_batch(names, None, None)?;
            column.close()?;
            names.clear();
        }
        for scores in &mut self.scores {
            if let Some(mut column) = group.next_column()? {
                column.typed::<FloatType>().write_batch(scores, None, None)?;
                column.close()?;
            }
            scores.clear();
        }
        group.close().map(drop)
    }

    /// Writes what waits, and the end of the file.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.waiting() > 0 {
            self.write_group().map_err(plain)?;
        }
        self.writer.into_inner().map_err(plain)
    }
}

/// An error of the library as one of the system, which it wraps.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other.to_string()),
    }
}
