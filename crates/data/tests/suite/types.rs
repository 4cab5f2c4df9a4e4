//! Values of every type of Parquet are the ids and the numbers that CSV has of the same records.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, GzipLevel, LogicalType, Repetition, TimeUnit,
    Type as Stored, ZstdLevel,
};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{PrimitiveTypeBuilder, Type};
use stepwell_data::{
    ColumnKind, DataError, DenseRule, Guessed, IdRule, LabelRule, Layout, LayoutOptions, Part,
    ReadOptions, SplitBy, SplitRule, guess,
};

use crate::common::*;
use crate::rows::{column, made_of, options_of, read};

/// Values as they are stored.
enum Values {
    Bool(Vec<bool>),
    Small(Vec<i32>),
    Whole(Vec<i64>),
    Days(Vec<[u32; 3]>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<Vec<u8>>),
    Fixed(Vec<Vec<u8>>),
}
use Values::*;

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

/// A type that says what values mean.
type Meaning = fn(PrimitiveTypeBuilder<'static>) -> PrimitiveTypeBuilder<'static>;

fn plain(builder: PrimitiveTypeBuilder<'static>) -> PrimitiveTypeBuilder<'static> {
    builder
}

/// Declares a meaning by a logical type, and by a converted type alone.
macro_rules! logical {
    ($kind:expr) => {
        |builder: PrimitiveTypeBuilder<'static>| builder.with_logical_type(Some($kind))
    };
}
macro_rules! converted {
    ($kind:ident) => {
        |builder: PrimitiveTypeBuilder<'static>| builder.with_converted_type(ConvertedType::$kind)
    };
}

/// A file with a label, the column `c`, whose second row has no value, and `same`, which has the
/// same values without gaps.
fn parquet(path: &Path, meaning: Meaning, values: &Values, pages: WriterPropertiesBuilder) {
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

/// The columns `c` and `same`.
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

/// The same records as text.
fn csv(folder: &Path, texts: &[&str]) -> PathBuf {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut c: Vec<String> = texts.iter().copied().map(quoted).collect();
    let mut same = c.clone();
    same.extend(c.last().cloned());
    c.insert(1, String::new());
    let rows: String = c.iter().zip(&same).map(|(c, same)| format!("1,{c},{same}\n")).collect();
    write(folder, "same.csv", format!("y,c,same\n{rows}"))
}

fn id() -> ColumnKind {
    ColumnKind::Id(IdRule::default())
}

fn layout(columns: Vec<stepwell_data::Column>, missing: &[&str]) -> Arc<Layout> {
    let missing = missing.iter().map(|text| (*text).to_owned()).collect();
    let options = LayoutOptions { missing, ..Default::default() };
    let label = column("y", ColumnKind::Label(LabelRule::default()));
    Arc::new(Layout::new(options, [vec![label], columns].concat()).unwrap())
}

/// Both columns as ids, one of them crossed with itself.
fn ids() -> Arc<Layout> {
    let columns =
        vec![column("c", id()), column("same", id()), made_of("both", &["c", "same"], id())];
    layout(columns, &[])
}

/// Both columns as numbers, and in buckets.
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

/// Examples, lines that are refused, and what is wrong with the first.
fn outcome(path: &Path, layout: &Arc<Layout>) -> (Vec<Row>, u64, Option<String>) {
    let options = options_of(layout, 1 << 16);
    let (rows, skipped) =
        read(path, layout, &ReadOptions { skip_max: u64::MAX, ..options }).unwrap();
    let why = read(path, layout, &options).err().map(|error| match error {
        DataError::Malformed { why, .. } => why,
        other => other.to_string(),
    });
    (rows, skipped, why)
}

fn check(name: &str, meaning: Meaning, values: &Values, texts: &[&str]) {
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

fn big_endian(number: i128, bytes: usize) -> Vec<u8> {
    number.to_be_bytes()[16 - bytes..].to_vec()
}

#[test]
fn whole_numbers_of_every_width_are_their_digits() {
    let small = || Small(vec![0, -7, 107, i32::MIN, i32::MAX]);
    let texts = ["0", "-7", "107", "-2147483648", "2147483647"];
    check("int32", plain, &small(), &texts);
    check("int_8", logical!(LogicalType::integer(8, true)), &Small(vec![-8, 7]), &["-8", "7"]);
    check("INT_16", converted!(INT_16), &Small(vec![-8, 7]), &["-8", "7"]);
    let unsigned = ["0", "4294967289", "107", "2147483648", "2147483647"];
    check("uint32", logical!(LogicalType::integer(32, false)), &small(), &unsigned);
    check("UINT_32", converted!(UINT_32), &small(), &unsigned);
    check("UINT_8", converted!(UINT_8), &Small(vec![200, 7]), &["200", "7"]);
    check("UINT_16", converted!(UINT_16), &Small(vec![65_535, 7]), &["65535", "7"]);
    let whole = || Whole(vec![1 << 53 | 1, -1, i64::MIN, 5 | i64::MIN]);
    let texts = ["9007199254740993", "-1", "-9223372036854775808", "-9223372036854775803"];
    check("int64", plain, &whole(), &texts);
    check("INT_64", converted!(INT_64), &whole(), &texts);
    let texts =
        ["9007199254740993", "18446744073709551615", "9223372036854775808", "9223372036854775813"];
    check("uint64", logical!(LogicalType::integer(64, false)), &whole(), &texts);
    check("UINT_64", converted!(UINT_64), &whole(), &texts);
}

#[test]
fn numbers_with_a_point_are_their_shortest_text_and_whole_ones_have_no_point() {
    let texts = ["7", "0.1", "0", "-3", "16777216", "1.5"];
    check("float", plain, &Float(vec![7.0, 0.1, 0.0, -3.0, 16_777_216.0, 1.5]), &texts);
    let exact = (1u64 << 53) as f64;
    check(
        "double",
        plain,
        &Double(vec![7.0, 0.1, -exact, 4.0 * exact, 1e300, 16_777_217.5, 2.5e-7]),
        &[
            "7",
            "0.1",
            "-9007199254740992",
            "3.602879701896397e+16",
            "1e+300",
            "16777217.5",
            "2.5e-7",
        ],
    );
    let half: Vec<Vec<u8>> =
        [0x3C00u16, 0xC100, 0x3800].map(|half| half.to_le_bytes().into()).into();
    check("float16", logical!(LogicalType::Float16), &Fixed(half), &["1", "-2.5", "0.5"]);
}

#[test]
fn decimals_have_as_many_digits_as_their_scale_says() {
    let texts = ["12.34", "-0.05", "0.00", "12.30", "-21474836.48"];
    let numbers = || vec![1234, -5, 0, 1230, i32::MIN];
    let wide = || numbers().into_iter().map(i64::from).collect::<Vec<_>>();
    let bytes = |width| wide().into_iter().map(|of| big_endian(of.into(), width)).collect();
    let logical: Meaning = |builder| {
        let builder = builder.with_logical_type(Some(LogicalType::decimal(2, 9)));
        builder.with_precision(9).with_scale(2)
    };
    let converted: Meaning = |builder| {
        let builder = builder.with_converted_type(ConvertedType::DECIMAL);
        builder.with_precision(9).with_scale(2)
    };
    for (name, meaning) in [("decimal", logical), ("DECIMAL", converted)] {
        check(name, meaning, &Small(numbers()), &texts);
        check(name, meaning, &Whole(wide()), &texts);
        check(name, meaning, &Fixed(bytes(5)), &texts);
        check(name, meaning, &Fixed(bytes(16)), &texts);
        let bytes: Vec<Vec<u8>> = bytes(16);
        let short = bytes.iter().zip([2, 1, 1, 2, 4]).map(|(of, len)| of[16 - len..].to_vec());
        check(name, meaning, &Bytes(short.collect()), &texts);
    }
    let whole: Meaning = |builder| {
        let builder = builder.with_logical_type(Some(LogicalType::decimal(0, 38)));
        builder.with_precision(38).with_scale(0)
    };
    let wide = vec![big_endian(10i128.pow(38) - 1, 16), big_endian(-7, 16)];
    check("whole", whole, &Fixed(wide), &["99999999999999999999999999999999999999", "-7"]);
    let deep: Meaning = |builder| {
        let builder = builder.with_logical_type(Some(LogicalType::decimal(8, 18)));
        builder.with_precision(18).with_scale(8)
    };
    check("deep", deep, &Whole(vec![1, 112_345_678]), &["0.00000001", "1.12345678"]);
}

#[test]
fn moments_are_alike_whatever_their_unit() {
    let days = || Small(vec![19_724, -1, 0]);
    let texts = ["2024-01-02", "1969-12-31", "1970-01-01"];
    check("date", logical!(LogicalType::Date), &days(), &texts);
    check("DATE", converted!(DATE), &days(), &texts);
    let texts = ["2024-01-02 05:00:00", "1969-12-31 23:59:59.500", "1970-01-01 00:00:00"];
    let utc = texts.map(|text| format!("{text}+00:00"));
    let utc = utc.each_ref().map(String::as_str);
    let at = |unit: i64| Whole(vec![1_704_171_600 * unit, -unit / 2, 0]);
    let (millis, micros, nanos) = (1_000, 1_000_000, 1_000_000_000);
    let local: [(Meaning, i64); 5] = [
        (logical!(LogicalType::timestamp(false, TimeUnit::MILLIS)), millis),
        (logical!(LogicalType::timestamp(false, TimeUnit::MICROS)), micros),
        (logical!(LogicalType::timestamp(false, TimeUnit::NANOS)), nanos),
        (converted!(TIMESTAMP_MILLIS), millis),
        (converted!(TIMESTAMP_MICROS), micros),
    ];
    for (meaning, unit) in local {
        check("timestamp", meaning, &at(unit), &texts);
    }
    let zoned: [(Meaning, i64); 3] = [
        (logical!(LogicalType::timestamp(true, TimeUnit::MILLIS)), millis),
        (logical!(LogicalType::timestamp(true, TimeUnit::MICROS)), micros),
        (logical!(LogicalType::timestamp(true, TimeUnit::NANOS)), nanos),
    ];
    for (meaning, unit) in zoned {
        check("timestamp in UTC", meaning, &at(unit), &utc);
    }
    // Nanoseconds of a day, and days.
    let of_day = |nanos: u64, day: u32| [nanos as u32, (nanos >> 32) as u32, day];
    let days = Days(vec![
        of_day(18_000_000_000_000, 2_460_312),
        of_day(86_399_500_000_000, 2_440_587),
        of_day(0, 2_440_588),
    ]);
    check("INT96", plain, &days, &texts);
    let texts = ["05:00:00", "23:59:59.999", "00:00:00.500"];
    let small = || Small(vec![18_000_000, 86_399_999, 500]);
    let whole = |unit: i64| Whole(vec![18_000_000 * unit, 86_399_999 * unit, 500 * unit]);
    check("time", logical!(LogicalType::time(true, TimeUnit::MILLIS)), &small(), &texts);
    check("time", logical!(LogicalType::time(false, TimeUnit::MICROS)), &whole(1_000), &texts);
    check("time", logical!(LogicalType::time(true, TimeUnit::NANOS)), &whole(micros), &texts);
    check("TIME_MILLIS", converted!(TIME_MILLIS), &small(), &texts);
    check("TIME_MICROS", converted!(TIME_MICROS), &whole(1_000), &texts);
    let micros = logical!(LogicalType::timestamp(false, TimeUnit::MICROS));
    check(
        "fractions",
        micros,
        &Whole(vec![1, 10, 1_000]),
        &["1970-01-01 00:00:00.000001", "1970-01-01 00:00:00.000010", "1970-01-01 00:00:00.001"],
    );
}

#[test]
fn texts_and_bytes_are_what_they_are() {
    let bytes = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let texts = ["a", "São Paulo", "{\"a\": 1}", "07", "2024-01-02T05:00:00Z", "x"];
    let meanings: [(&str, Meaning); 9] = [
        ("binary", plain),
        ("string", logical!(LogicalType::String)),
        ("enum", logical!(LogicalType::Enum)),
        ("json", logical!(LogicalType::Json)),
        ("bson", logical!(LogicalType::Bson)),
        ("UTF8", converted!(UTF8)),
        ("ENUM", converted!(ENUM)),
        ("JSON", converted!(JSON)),
        ("BSON", converted!(BSON)),
    ];
    for (name, meaning) in meanings {
        check(name, meaning, &Bytes(bytes(&texts)), &texts);
    }
    check("fixed", plain, &Fixed(bytes(&["ab", "cd", "12"])), &["ab", "cd", "12"]);
    let uuid = vec![(0u8..16).map(|of| of * 17).collect(), vec![0xAB; 16]];
    check(
        "uuid",
        logical!(LogicalType::Uuid),
        &Fixed(uuid),
        &["00112233-4455-6677-8899-aabbccddeeff", "abababab-abab-abab-abab-abababababab"],
    );
    check("bool", plain, &Bool(vec![true, false, true]), &["true", "false", "true"]);
}

#[test]
fn types_that_nobody_reads_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    let told = |meaning, values: Values| {
        parquet(&path, meaning, &values, WriterProperties::builder());
        read(&path, &ids(), &options_of(&ids(), 1 << 16)).unwrap_err().to_string()
    };
    let error = told(converted!(INTERVAL), Fixed(vec![vec![1; 12]]));
    assert!(error.contains("column c is of a type that is not read (interval)"), "{error}");
    let wide: Meaning = |builder| {
        let builder = builder.with_logical_type(Some(LogicalType::decimal(2, 76)));
        builder.with_precision(76).with_scale(2)
    };
    let error = told(wide, Fixed(vec![vec![1; 32]]));
    assert!(error.contains("a decimal of more than 38 digits"), "{error}");
    assert!(!error.contains("damaged"), "{error}");
}

#[test]
fn texts_of_settings_match_whole_numbers_with_and_without_a_point() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    let pages = WriterProperties::builder();
    parquet(&path, plain, &Double(vec![4.0, 3.5, -1.0, 5.0]), pages);
    let positive = |texts: &[&str]| LabelRule {
        positive: texts.iter().map(|text| (*text).to_owned()).collect(),
        is_number: false,
    };
    for (texts, missing) in [(["4", "5"], "-1"), (["4.0", "5.0"], "-1.0")] {
        let columns = vec![column("same", ColumnKind::Label(positive(&texts))), column("c", id())];
        let missing = vec![missing.to_owned()];
        let options = LayoutOptions { missing, ..Default::default() };
        let layout = Arc::new(Layout::new(options, columns).unwrap());
        let options = ReadOptions { skip_max: 9, ..options_of(&layout, 1 << 16) };
        let (rows, skipped) = read(&path, &layout, &options).unwrap();
        let labels: Vec<f32> = rows.iter().map(|row| f32::from_bits(row.1)).collect();
        // One label is missing.
        assert_eq!((labels, skipped), (vec![1.0, 0.0, 1.0, 1.0], 1), "{texts:?}");
        let key = |text: &str| vec![vec![stepwell_base::key_of("c", text.as_bytes()).0]];
        let keys: Vec<_> = rows.iter().map(|row| row.3.clone()).collect();
        assert_eq!(keys, [key("4"), key(""), key(""), key("5")], "{texts:?}");
    }
}

#[test]
fn days_split_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    let days = Small(vec![19_724, 19_725, 19_726]);
    parquet(&path, logical!(LogicalType::Date), &days, WriterProperties::builder());
    let by = SplitBy::Values(vec!["2024-01-03".to_owned()]);
    let split = Some(SplitRule { column: "same".to_owned(), by });
    let columns = vec![
        column("y", ColumnKind::Label(LabelRule::default())),
        column("same", ColumnKind::Ignored),
        column("c", id()),
    ];
    let layout = Layout::new(LayoutOptions { split, ..Default::default() }, columns).unwrap();
    let count = |part| {
        let layout = Arc::new(layout.of_part(part));
        read(&path, &layout, &options_of(&layout, 1 << 16)).unwrap().0.len()
    };
    assert_eq!((count(Part::Train), count(Part::Evaluate)), (3, 1));
}

#[test]
fn every_encoding_and_codec_gives_the_same_values() {
    use Encoding::{
        ALP, BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY,
        PLAIN, RLE,
    };
    let numbers = || (0..300).map(|n| n * n % 71 - 9);
    let texts: Vec<String> = numbers().map(|n| format!("text {n}")).collect();
    let uuids = || numbers().map(|n| vec![(n + 9) as u8; 16]).collect();
    let cases: Vec<(Meaning, Values, Vec<Encoding>)> = vec![
        (plain, Bool(numbers().map(|n| n % 3 == 0).collect()), vec![PLAIN, RLE]),
        (plain, Small(numbers().collect()), vec![PLAIN, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT]),
        (
            logical!(LogicalType::timestamp(false, TimeUnit::MICROS)),
            Whole(numbers().map(|n| i64::from(n) << 40).collect()),
            vec![PLAIN, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT],
        ),
        (
            plain,
            Float(numbers().map(|n| n as f32 / 8.0).collect()),
            vec![PLAIN, BYTE_STREAM_SPLIT, ALP],
        ),
        (
            plain,
            Double(numbers().map(|n| f64::from(n) / 8.0).collect()),
            vec![PLAIN, BYTE_STREAM_SPLIT, ALP],
        ),
        (
            plain,
            Bytes(texts.iter().map(|text| text.as_bytes().to_vec()).collect()),
            vec![PLAIN, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY],
        ),
        (
            logical!(LogicalType::Uuid),
            Fixed(uuids()),
            vec![PLAIN, DELTA_BYTE_ARRAY, BYTE_STREAM_SPLIT],
        ),
    ];
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    for (meaning, values, encodings) in &cases {
        let write = |pages: WriterPropertiesBuilder, version| {
            let pages = pages.set_data_page_row_count_limit(70).set_write_batch_size(35);
            parquet(&path, *meaning, values, pages.set_writer_version(version));
            outcome(&path, &ids())
        };
        let expected = write(WriterProperties::builder(), WriterVersion::PARQUET_1_0);
        assert_eq!((expected.0.len(), expected.1), (301, 0));
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for encoding in encodings {
                let pages = WriterProperties::builder().set_dictionary_enabled(false);
                let pages = pages.set_column_encoding("c".into(), *encoding);
                let found = write(pages.set_column_encoding("same".into(), *encoding), version);
                assert_eq!(found, expected, "{encoding} {version:?}");
            }
            for codec in codecs {
                let found = write(WriterProperties::builder().set_compression(codec), version);
                assert_eq!(found, expected, "{codec} {version:?}");
            }
        }
    }
}

#[test]
fn a_guess_sees_decimals_dates_and_numbers_that_are_stored_with_a_point() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    let guessed = |meaning: Meaning, values: &Values| {
        parquet(&path, meaning, values, WriterProperties::builder());
        let columns = guess(&path).unwrap().columns;
        let found = columns.into_iter().find(|(name, ..)| name == "same");
        found.map(|(_, what, _)| what)
    };
    let decimal: Meaning = |builder| {
        let builder = builder.with_logical_type(Some(LogicalType::decimal(2, 9)));
        builder.with_precision(9).with_scale(2)
    };
    let numbers = || (0..200).map(|n| n * 37 % 101);
    let price = guessed(decimal, &Small(numbers().collect()));
    assert!(matches!(price, Some(Guessed::Number(..))), "{price:?}");
    let days = numbers().map(|n| 19_000 + n).collect();
    assert_eq!(guessed(logical!(LogicalType::Date), &Small(days)), Some(Guessed::Ignored));
    let few = Double(numbers().map(|n| f64::from(n % 5)).collect());
    assert_eq!(guessed(plain, &few), Some(Guessed::Id));
}
