//! Values of every Parquet type give the same ids and numbers as the same records in CSV.

use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, GzipLevel, LogicalType, TimeUnit, ZstdLevel,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::schema::types::PrimitiveTypeBuilder;
use stepwell_data::{
    ColumnKind, IdRule, LabelRule, Layout, LayoutOptions, Part, ReadOptions, SplitBy, SplitRule,
    TimePart,
};

use crate::rows::{column, made_of, options_of, read};
use crate::typed::Values::*;
use crate::typed::*;

/// Declares an interpretation by a logical type, and by a converted type alone.
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
    assert!(error.contains("column c has an unsupported type (interval)"), "{error}");
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
fn parts_of_times_are_ids() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    let micros = logical!(LogicalType::timestamp(true, TimeUnit::MICROS));
    // Tuesday, January 2, 2024 at five, and the last moment of 1969, a Wednesday.
    let moments = Whole(vec![1_704_171_600_000_000, -1]);
    let of_part = |rule| {
        vec![column("c", ColumnKind::Ignored), made_of("part", &["c"], ColumnKind::Id(rule))]
    };
    parquet(&path, micros, &moments, WriterProperties::builder());
    let texts = ["2024-01-02 05:00:00Z", "1969-12-31T23:59:59.999999+00:00"];
    let csv = csv(folder.path(), &texts);
    for (part, ids) in [
        (TimePart::Year, ["2024", "1969"]),
        (TimePart::Month, ["1", "12"]),
        (TimePart::Day, ["2", "31"]),
        (TimePart::Weekday, ["2", "3"]),
        (TimePart::Hour, ["5", "23"]),
    ] {
        let rule = IdRule { part, ..Default::default() };
        let layout = layout(of_part(rule), &[]);
        let found = outcome(&path, &layout);
        assert_eq!(found, outcome(&csv, &layout), "{part:?}");
        let key = |text: &str| vec![vec![stepwell_base::key_of("part", text.as_bytes()).0]];
        let keys: Vec<_> = found.0.into_iter().map(|row| row.3).collect();
        assert_eq!(keys, [key(ids[0]), key(""), key(ids[1])], "{part:?}");
    }
    let rule = IdRule { part: TimePart::Hour, ..Default::default() };
    let layout = layout(of_part(rule), &[]);
    parquet(&path, plain, &Whole(vec![1_704_171_600, 7]), WriterProperties::builder());
    let (_, refused, why) = outcome(&path, &layout);
    let why = why.unwrap();
    assert!(refused == 2 && why.contains("not a date or time that has such a part"), "{why}");
    let rule = IdRule { part: TimePart::Hour, buckets: vec![6.0], ..Default::default() };
    let label = column("y", ColumnKind::Label(LabelRule::default()));
    let columns = vec![label, column("c", ColumnKind::Id(rule))];
    let error = Layout::new(LayoutOptions::default(), columns).unwrap_err().to_string();
    assert!(error.contains("is a part of a time"), "{error}");
}

#[test]
fn days_split_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.parquet");
    let days = Small(vec![19_724, 19_725, 19_726]);
    parquet(&path, logical!(LogicalType::Date), &days, WriterProperties::builder());
    let csv = csv(folder.path(), &["2024-01-02", "2024-01-03", "2024-01-04"]);
    let layout = |column_name: &str, by: SplitBy| {
        let split = Some(SplitRule { column: column_name.to_owned(), by });
        let columns = vec![
            column("y", ColumnKind::Label(LabelRule::default())),
            column("same", id()),
            column("c", id()),
        ];
        Layout::new(LayoutOptions { split, ..Default::default() }, columns)
    };
    let values = SplitBy::Values(vec!["2024-01-03".to_owned()]);
    let from = |text: &str| SplitBy::From(text.to_owned());
    for (column, by, train, evaluate, refused) in [
        ("same", values, 3, 1, 0),
        ("same", from("2024-01-04"), 2, 2, 0),
        ("same", from("2024-01-02 00:00:01"), 1, 3, 0),
        ("same", from("2024-01-04T12:00:00+13:00"), 2, 2, 0),
        ("same", from("2025-01-01"), 4, 0, 0),
        // Days can't be compared with numbers or missing values.
        ("same", from("20240103"), 0, 0, 4),
        ("c", from("2024-01-03"), 1, 2, 1),
    ] {
        let layout = layout(column, by.clone()).unwrap();
        for (part, count) in [(Part::Train, train), (Part::Evaluate, evaluate)] {
            let layout = Arc::new(layout.of_part(part));
            let (found, expected) = (outcome(&path, &layout), outcome(&csv, &layout));
            assert_eq!(found, expected, "{by:?}");
            assert_eq!((found.0.len(), found.1), (count, refused), "{by:?} {part:?}");
            let why = found.2.unwrap_or_default();
            assert_eq!(why.contains("data.eval_from cannot be compared"), refused > 0, "{why}");
        }
    }
    let error = layout("c", from("soon")).unwrap_err().to_string();
    assert!(error.contains("is not a date, time or number"), "{error}");
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
