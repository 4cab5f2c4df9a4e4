//! Parquet: a record for each row of a table, and for each tensor of the dense part.
//!
//! - **How.** A part of a row with one number is a column of numbers; one with several is a column
//!   of lists without nulls; one with none has no column. Rows are collected into a row group,
//!   which is then written column by column.
//! - **Bounds.** A row group of [`GROUP_BYTES`] and a copy of its longest column; a copy of the
//!   dense part.
//! - **Cost.** Neither keys nor weights compress, so nothing is compressed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArrayType, DataType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::sink::{About, Sink};
use super::tensors::{Kind, Tensor};

/// Least bytes of values in a row group, except the last one.
const GROUP_BYTES: usize = 32 << 20;
/// Values passed to the library at once.
const VALUES_AT_ONCE: usize = 64 << 10;

type Writer = SerializedFileWriter<File>;
type Outcome<T> = Result<T, ParquetError>;

/// A table that is being written.
pub(crate) struct Records {
    writer: Writer,
    columns: Vec<Column>,
}

/// A column with values for the next row group.
struct Column {
    kind: Kind,
    /// Values per record.
    lanes: usize,
    /// Whether the values of a record are a list, even if it has only one.
    is_list: bool,
    waiting: Vec<u8>,
}

impl Records {
    /// Begins a file of records with these parts.
    pub(crate) fn create(path: &Path, tensors: &[Tensor], about: &About<'_>) -> io::Result<Self> {
        let column = |tensor: &Tensor| {
            let lanes = tensor.shape.get(1).copied().unwrap_or(1) as usize;
            // An embedding is a list even if it has one lane.
            let is_list = lanes > 1 || tensor.name == "embedding";
            Column { kind: tensor.kind, lanes, is_list, waiting: Vec::new() }
        };
        let columns: Vec<Column> = tensors.iter().map(column).collect();
        let shown = tensors.iter().zip(&columns).filter(|(_, column)| column.lanes > 0);
        let fields = shown.map(|(tensor, column)| field(&tensor.name, column));
        let fields = fields.collect::<Outcome<Vec<_>>>().map_err(plain)?;
        let writer = writer(path, "table", fields, about).map_err(plain)?;
        Ok(Self { writer, columns })
    }

    /// Writes the collected rows as a row group.
    fn write_group(&mut self) -> Outcome<()> {
        let mut group = self.writer.next_row_group()?;
        for column in self.columns.iter_mut().filter(|column| column.lanes > 0) {
            let Some(mut to) = group.next_column()? else { break };
            column.write(&mut to)?;
            to.close()?;
            column.waiting.clear();
        }
        group.close().map(drop)
    }

    fn waiting(&self) -> usize {
        self.columns.iter().map(|column| column.waiting.len()).sum()
    }
}

impl Sink for Records {
    fn put(&mut self, tensor: usize, bytes: &[u8]) -> io::Result<()> {
        self.columns[tensor].waiting.extend_from_slice(bytes);
        let is_whole = tensor + 1 == self.columns.len();
        if is_whole && self.waiting() >= GROUP_BYTES {
            self.write_group().map_err(plain)
        } else {
            Ok(())
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.waiting() > 0 {
            self.write_group().map_err(plain)?;
        }
        end(self.writer)
    }
}

impl Column {
    fn write(&self, to: &mut SerializedColumnWriter<'_>) -> Outcome<()> {
        let lanes = self.is_list.then_some(self.lanes);
        let fours = || self.waiting.as_chunks::<4>().0.iter();
        match self.kind {
            Kind::F32 => {
                let values: Vec<f32> = fours().map(|four| f32::from_le_bytes(*four)).collect();
                write::<FloatType>(to, &values, lanes)
            }
            Kind::U32 => {
                let values: Vec<i32> = fours().map(|four| i32::from_le_bytes(*four)).collect();
                write::<Int32Type>(to, &values, lanes)
            }
            Kind::U64 => {
                let eights = self.waiting.as_chunks::<8>().0.iter();
                let values: Vec<i64> = eights.map(|eight| i64::from_le_bytes(*eight)).collect();
                write::<Int64Type>(to, &values, lanes)
            }
        }
    }
}

/// Writes values; with `lanes`, as lists of this length.
fn write<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    lanes: Option<usize>,
) -> Outcome<()> {
    let Some(lanes) = lanes else {
        return to.typed::<T>().write_batch(values, None, None).map(drop);
    };
    // Only whole records, and at least one.
    let at_once = (VALUES_AT_ONCE / lanes).max(1) * lanes;
    let defined = vec![1; at_once];
    let repeated: Vec<i16> = (0..at_once).map(|at| i16::from(at % lanes > 0)).collect();
    for values in values.chunks(at_once) {
        let levels = (&defined[..values.len()], &repeated[..values.len()]);
        to.typed::<T>().write_batch(values, Some(levels.0), Some(levels.1))?;
    }
    Ok(())
}

/// The field of a column: required, or a required list of required elements.
fn field(name: &str, column: &Column) -> Outcome<TypePtr> {
    let unsigned = |bits| Some(LogicalType::integer(bits, false));
    let (physical, logical) = match column.kind {
        Kind::F32 => (Physical::FLOAT, None),
        Kind::U32 => (Physical::INT32, unsigned(32)),
        Kind::U64 => (Physical::INT64, unsigned(64)),
    };
    match column.is_list {
        true => list(name, physical, logical),
        false => single(name, physical, logical),
    }
}

fn single(name: &str, physical: Physical, logical: Option<LogicalType>) -> Outcome<TypePtr> {
    let built = Type::primitive_type_builder(name, physical);
    let built = built.with_repetition(Repetition::REQUIRED).with_logical_type(logical);
    Ok(Arc::new(built.build()?))
}

fn list(name: &str, physical: Physical, logical: Option<LogicalType>) -> Outcome<TypePtr> {
    let elements = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![single("element", physical, logical)?])
        .build()?;
    let built = Type::group_type_builder(name)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(elements)])
        .build()?;
    Ok(Arc::new(built))
}

fn writer(path: &Path, name: &str, fields: Vec<TypePtr>, about: &About<'_>) -> Outcome<Writer> {
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let texts = about.iter().map(|(name, text)| KeyValue::new((*name).to_owned(), text.clone()));
    let properties = WriterProperties::builder()
        .set_created_by(format!("stepwell {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(texts.collect()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build();
    let file = File::create_new(path)?;
    SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
}

/// Ends and syncs a file.
fn end(writer: Writer) -> io::Result<()> {
    writer.into_inner().map_err(plain)?.sync_all()
}

/// The I/O error that an error of the library wraps.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(why) => match why.downcast::<io::Error>() {
            Ok(why) => *why,
            Err(why) => io::Error::other(why),
        },
        other => io::Error::other(other),
    }
}

/// The dense part that is being written: name, shape and values of each tensor.
pub(crate) struct Lists {
    writer: Writer,
    tensors: Vec<Tensor>,
    values: Vec<Vec<f32>>,
}

impl Lists {
    /// Begins a file with these tensors.
    pub(crate) fn create(path: &Path, tensors: &[Tensor], about: &About<'_>) -> io::Result<Self> {
        let fields = [
            single("name", Physical::BYTE_ARRAY, Some(LogicalType::String)),
            list("shape", Physical::INT64, None),
            list("values", Physical::FLOAT, None),
        ];
        let fields = fields.into_iter().collect::<Outcome<Vec<_>>>().map_err(plain)?;
        let writer = writer(path, "dense", fields, about).map_err(plain)?;
        let values = vec![Vec::new(); tensors.len()];
        Ok(Self { writer, tensors: tensors.to_vec(), values })
    }

    fn write_all(&mut self) -> Outcome<()> {
        let mut group = self.writer.next_row_group()?;
        if let Some(mut to) = group.next_column()? {
            let names: Vec<_> = self.tensors.iter().map(|tensor| tensor.name[..].into()).collect();
            write::<ByteArrayType>(&mut to, &names, None)?;
            to.close()?;
        }
        if let Some(mut to) = group.next_column()? {
            let shapes = self.tensors.iter().map(|tensor| {
                tensor.shape.iter().map(|extent| *extent as i64).collect::<Vec<i64>>()
            });
            shapes.into_iter().try_for_each(|shape| write_one::<Int64Type>(&mut to, &shape))?;
            to.close()?;
        }
        if let Some(mut to) = group.next_column()? {
            let mut values = self.values.iter();
            values.try_for_each(|values| write_one::<FloatType>(&mut to, values))?;
            to.close()?;
        }
        group.close().map(drop)
    }
}

/// Writes one list, which may be empty.
fn write_one<T: DataType>(to: &mut SerializedColumnWriter<'_>, values: &[T::T]) -> Outcome<()> {
    let levels = values.len().max(1);
    let defined = vec![i16::from(!values.is_empty()); levels];
    let repeated: Vec<i16> = (0..levels).map(|at| i16::from(at > 0)).collect();
    to.typed::<T>().write_batch(values, Some(&defined), Some(&repeated)).map(drop)
}

impl Sink for Lists {
    fn put(&mut self, tensor: usize, bytes: &[u8]) -> io::Result<()> {
        let fours = bytes.as_chunks::<4>().0.iter();
        self.values[tensor].extend(fours.map(|four| f32::from_le_bytes(*four)));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write_all().map_err(plain)?;
        end(self.writer)
    }
}
