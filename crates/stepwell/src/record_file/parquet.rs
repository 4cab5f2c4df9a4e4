//! Records as Parquet: columns of texts followed by columns of numbers.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// Records of a row group, which are collected in memory.
const GROUP_RECORDS: usize = 128 << 10;

/// Writes records.
pub(super) struct Records<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Values that are not written yet, for each column of texts.
    names: Vec<Vec<ByteArray>>,
    /// Values that are not written yet, for each column of numbers.
    numbers: Vec<Vec<f32>>,
}

impl<W: Write + Send> Records<W> {
    /// Begins a file with columns of texts followed by columns of numbers.
    pub(super) fn begin(to: W, texts: &[String], numbers: &[String]) -> io::Result<Self> {
        let text = |name: &String| {
            Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::String))
                .build()
        };
        let number = |name: &String| {
            Type::primitive_type_builder(name, Physical::FLOAT)
                .with_repetition(Repetition::REQUIRED)
                .build()
        };
        let fields = texts.iter().map(text).chain(numbers.iter().map(number));
        let fields = fields.map(|field| field.map(Arc::new)).collect::<Result<_, _>>();
        let schema =
            Type::group_type_builder("records").with_fields(fields.map_err(plain)?).build();
        let schema = Arc::new(schema.map_err(plain)?);
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(to, schema, properties).map_err(plain)?;
        let names = texts.iter().map(|_| Vec::new()).collect();
        let numbers = numbers.iter().map(|_| Vec::new()).collect();
        Ok(Self { writer, names, numbers })
    }

    /// Adds a record.
    pub(super) fn put(
        &mut self,
        texts: Vec<Vec<u8>>,
        numbers: impl Iterator<Item = f32>,
    ) -> io::Result<()> {
        self.names.iter_mut().zip(texts).for_each(|(column, text)| column.push(text.into()));
        self.numbers.iter_mut().zip(numbers).for_each(|(column, number)| column.push(number));
        if self.waiting() < GROUP_RECORDS { Ok(()) } else { self.write_group().map_err(plain) }
    }

    /// Number of records that are not written yet.
    fn waiting(&self) -> usize {
        self.numbers.first().map_or(0, Vec::len)
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for texts in &mut self.names {
            if let Some(mut column) = group.next_column()? {
                column.typed::<ByteArrayType>().write_batch(texts, None, None)?;
                column.close()?;
            }
            texts.clear();
        }
        for numbers in &mut self.numbers {
            if let Some(mut column) = group.next_column()? {
                column.typed::<FloatType>().write_batch(numbers, None, None)?;
                column.close()?;
            }
            numbers.clear();
        }
        group.close().map(drop)
    }

    /// Writes the last records and the end of the file.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.waiting() > 0 {
            self.write_group().map_err(plain)?;
        }
        self.writer.into_inner().map_err(plain)
    }
}

/// The I/O error that an error of the library wraps.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other.to_string()),
    }
}
