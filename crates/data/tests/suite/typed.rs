//! Parquet files with a column of one type, and the same records as text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Repetition, Type as Stored};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{PrimitiveTypeBuilder, Type};
use stepwell_data::{
    ColumnKind, DataError, DenseRule, IdRule, LabelRule, Layout, LayoutOptions, ReadOptions,
};

use self::Values::*;
use crate::common::*;
use crate::rows::{column, made_of, options_of, read};

/// Values as stored.
pub(crate) enum Values {
    Bool(Vec<bool>),
    Small(Vec<i32>),
    Whole(Vec<i64>),
    Days(Vec<[u32; 3]>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<Vec<u8>>),
    Fixed(Vec<Vec<u8>>),
}
impl Values {
    fn stored(&self) -> Stored {
        match self {
            Bool(_) => Stored::BOOLEAN,
            Small(_) => Stored::INT32,
            Whole(_) => Stored::INT64,
            Days(_) => Stored::INT96,
            Float(_) => Stored::FLOAT,
            Double(_) => Stored::DOUBLE,
            Bytes(_) => Stored::BYTE_ARRAY,
            Fixed(_) => Stored::FIXED_LEN_BYTE_ARRAY,
        }
    }
}

/// A logical type for stored values.
pub(crate) type Meaning = fn(PrimitiveTypeBuilder<'static>) -> PrimitiveTypeBuilder<'static>;

pub(crate) fn plain(builder: PrimitiveTypeBuilder<'static>) -> PrimitiveTypeBuilder<'static> {
    builder
}

/// Writes a file with a label, the column `c`, whose second row has no value, and `same`, which has
/// the same values without nulls.
pub(crate) fn parquet(
    path: &Path,
    meaning: Meaning,
    values: &Values,
    pages: WriterPropertiesBuilder,
) {
    let stored = values.stored();
    let of = |name: &'static str, repetition| {
        let length = if let Fixed(values) = values { values[0].len() as i32 } else { -1 };
        let builder = Type::primitive_type_builder(name, stored).with_length(length);
        Arc::new(meaning(builder).with_repetition(repetition).build().unwrap())
    };
    let label = Type::primitive_type_builder("y", Stored::INT32)
        .with_repetition(Repetition::REQUIRED)
        .build()
        .unwrap();
    let fields =
        vec![Arc::new(label), of("c", Repetition::OPTIONAL), of("same", Repetition::REQUIRED)];
    let schema = Type::group_type_builder("rows").with_fields(fields).build().unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(pages.build())).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    let count = count_of(values);
    let mut label = rows.next_column().unwrap().unwrap();
    label.typed::<Int32Type>().write_batch(&vec![1; count + 1], None, None).unwrap();
    label.close().unwrap();
    let bytes = |values: &[Vec<u8>]| -> Vec<ByteArray> {
        values.iter().map(|value| ByteArray::from(value.clone())).collect()
    };
    match values {
        Bool(values) => put::<BoolType>(&mut rows, values),
        Small(values) => put::<Int32Type>(&mut rows, values),
        Whole(values) => put::<Int64Type>(&mut rows, values),
        Days(values) => {
            let day = |value: &[u32; 3]| Int96::from(value.to_vec());
            put::<Int96Type>(&mut rows, &values.iter().map(day).collect::<Vec<_>>());
        }
        Float(values) => put::<FloatType>(&mut rows, values),
        Double(values) => put::<DoubleType>(&mut rows, values),
        Bytes(values) => put::<ByteArrayType>(&mut rows, &bytes(values)),
        Fixed(values) => {
            let fixed: Vec<FixedLenByteArray> =
                bytes(values).into_iter().map(FixedLenByteArray::from).collect();
            put::<FixedLenByteArrayType>(&mut rows, &fixed);
        }
    }
    rows.close().unwrap();
    writer.close().unwrap();
}

fn count_of(values: &Values) -> usize {
    match values {
        Bool(values) => values.len(),
        Small(values) => values.len(),
        Whole(values) => values.len(),
        Days(values) => values.len(),
        Float(values) => values.len(),
        Double(values) => values.len(),
        Bytes(values) | Fixed(values) => values.len(),
    }
}

/// Writes the columns `c` and `same`.
fn put<T: DataType>(
    rows: &mut parquet::file::writer::SerializedRowGroupWriter<'_, std::fs::File>,
    values: &[T::T],
) {
    let mut levels = vec![1; values.len() + 1];
    levels[1] = 0;
    let mut column = rows.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, Some(&levels), None).unwrap();
    column.close().unwrap();
    let twice = [values, &values[values.len() - 1..]].concat();
    let mut column = rows.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(&twice, None, None).unwrap();
    column.close().unwrap();
}

/// Writes the same records as text.
pub(crate) fn csv(folder: &Path, texts: &[&str]) -> PathBuf {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut c: Vec<String> = texts.iter().copied().map(quoted).collect();
    let mut same = c.clone();
    same.extend(c.last().cloned());
    c.insert(1, String::new());
    let rows: String = c.iter().zip(&same).map(|(c, same)| format!("1,{c},{same}\n")).collect();
    write(folder, "same.csv", format!("y,c,same\n{rows}"))
}

pub(crate) fn id() -> ColumnKind {
    ColumnKind::Id(IdRule::default())
}

pub(crate) fn layout(columns: Vec<stepwell_data::Column>, missing: &[&str]) -> Arc<Layout> {
    let missing = missing.iter().map(|text| (*text).to_owned()).collect();
    let options = LayoutOptions { missing, ..Default::default() };
    let label = column("y", ColumnKind::Label(LabelRule::default()));
    Arc::new(Layout::new(options, [vec![label], columns].concat()).unwrap())
}

/// A layout with both columns as ids, and crossed.
pub(crate) fn ids() -> Arc<Layout> {
    let columns =
        vec![column("c", id()), column("same", id()), made_of("both", &["c", "same"], id())];
    layout(columns, &[])
}

/// A layout with both columns as numbers, and in buckets.
fn numbers() -> Arc<Layout> {
    let dense = || ColumnKind::Dense(DenseRule { indicator: true, ..Default::default() });
    let buckets = IdRule { buckets: vec![0.0, 7.0, 1e9], ..Default::default() };
    layout(
        vec![
            column("c", dense()),
            column("same", dense()),
            made_of("b", &["c"], ColumnKind::Id(buckets)),
        ],
        &[],
    )
}

/// Examples, number of malformed lines, and the reason for the first.
pub(crate) fn outcome(path: &Path, layout: &Arc<Layout>) -> (Vec<Row>, u64, Option<String>) {
    let options = options_of(layout, 1 << 16);
    let (rows, skipped) =
        read(path, layout, &ReadOptions { skip_max: u64::MAX, ..options }).unwrap();
    let why = read(path, layout, &options).err().map(|error| match error {
        DataError::Malformed { why, .. } => why,
        other => other.to_string(),
    });
    (rows, skipped, why)
}

pub(crate) fn check(name: &str, meaning: Meaning, values: &Values, texts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for dictionary in [true, false] {
            let pages = WriterProperties::builder().set_writer_version(version);
            let pages = pages.set_dictionary_enabled(dictionary);
            parquet(&path, meaning, values, pages);
            let csv = csv(folder.path(), texts);
            for layout in [ids(), numbers()] {
                let (found, expected) = (outcome(&path, &layout), outcome(&csv, &layout));
                assert_eq!(found, expected, "{name} {version:?} {dictionary}");
            }
        }
    }
}
