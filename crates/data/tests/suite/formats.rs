//! The same rows in every format are the same examples, and what is made of them is what is said.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use stepwell_base::{Key, random::Stream};
use stepwell_data::{
    Column, ColumnKind, DataError, DenseRule, Files, Format, IdRule, Input, Layout, LayoutOptions,
    ListRule, Position, ReadOptions, Transform, log1p_of_number,
};

use crate::common::*;

/// A row before it lies in a file.
#[derive(Clone, Debug)]
struct Record {
    click: u8,
    price: Option<f64>,
    age: Option<i32>,
    user: i64,
    city: Option<String>,
    tags: Vec<String>,
}

fn records(count: u64) -> Vec<Record> {
    let mut dice = Stream::named(7, b"formats");
    let mut draw = move |below: u64| dice.next_u64() % below;
    let cities = ["Oslo", "São Paulo", "New York, NY", "a \"b\" c", "Ulm; Donau", "back\\slash"];
    let mut record = || Record {
        click: (draw(3) == 0).into(),
        price: (draw(4) > 0).then(|| draw(1_000_000) as f64 / 64.0 - 100.0),
        age: (draw(5) > 0).then(|| draw(90) as i32),
        user: draw(50) as i64 - 10 + (1 << 40),
        city: (draw(6) > 0).then(|| cities[draw(6) as usize].to_owned()),
        tags: (0..draw(5)).map(|_| format!("t{}", draw(9))).collect(),
    };
    (0..count).map(|_| record()).collect()
}

pub(crate) fn column(name: &str, kind: ColumnKind) -> Column {
    Column { name: name.to_owned(), of: Vec::new(), kind }
}

fn made_of(name: &str, of: &[&str], kind: ColumnKind) -> Column {
    let of = of.iter().map(|name| (*name).to_owned()).collect();
    Column { of, ..column(name, kind) }
}

fn columns() -> Vec<Column> {
    let dense = |rule| ColumnKind::Dense(rule);
    let id = || ColumnKind::Id(IdRule::default());
    let list = Some(ListRule { separator: "|".to_owned(), most: 3 });
    vec![
        column("click", ColumnKind::Label { positive: Vec::new() }),
        column("price", dense(DenseRule { transform: Transform::Log1p, ..Default::default() })),
        column(
            "age",
            dense(DenseRule {
                low: Some(18.0),
                high: Some(70.0),
                transform: Transform::Standardise { mean: 40.0, deviation: 12.5 },
                fill: Some(35.0),
                indicator: true,
            }),
        ),
        column("user", id()),
        column("city", id()),
        column("tags", ColumnKind::Id(IdRule { list, ..Default::default() })),
        made_of("user_city", &["user", "city"], id()),
        made_of(
            "age_group",
            &["age"],
            ColumnKind::Id(IdRule {
                buckets: vec![18.0, 30.0, 50.0],
                skip_missing: true,
                ..Default::default()
            }),
        ),
    ]
}

fn layout(options: LayoutOptions) -> Arc<Layout> {
    Arc::new(Layout::new(options, columns()).unwrap())
}

const NAMES: [&str; 6] = ["click", "price", "age", "user", "city", "tags"];

/// The fields of a record as text has them.
fn fields(record: &Record) -> [String; 6] {
    let Record { click, price, age, user, city, tags } = record;
    [
        click.to_string(),
        price.map_or_else(String::new, |price| format!("{price:?}")),
        age.map_or_else(String::new, |age| age.to_string()),
        user.to_string(),
        city.clone().unwrap_or_default(),
        tags.join("|"),
    ]
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn delimited(records: &[Record], separator: char, quote: bool, end: &str) -> String {
    let line = |fields: [String; 6]| {
        let wanted = |field: &String| quote || field.contains([separator, '"']);
        let written = fields.map(|field| if wanted(&field) { quoted(&field) } else { field });
        written.join(&separator.to_string()) + end
    };
    let header = line(NAMES.map(str::to_owned));
    std::iter::once(header).chain(records.iter().map(|record| line(fields(record)))).collect()
}

fn tsv(records: &[Record]) -> String {
    records.iter().map(|record| fields(record).join("\t") + "\n").collect()
}

fn json(records: &[Record]) -> String {
    let line = |record: &Record| {
        let mut object = serde_json::json!({
            "tags": record.tags,
            "other": {"nested": [1, 2]},
            "user": record.user,
            "age": record.age,
            "city": record.city,
            "click": record.click,
        });
        if let Some(price) = record.price {
            object["price"] = price.into();
        }
        object.to_string() + "\n"
    };
    records.iter().map(line).collect()
}

/// A Parquet file of row groups of so many rows.
fn parquet(path: &Path, records: &[Record], group: usize) {
    let schema = "message rows {
        required int32 click (INTEGER(8, true));
        optional double price;
        optional int32 age;
        required int64 user;
        optional binary city (STRING);
        optional group tags (LIST) { repeated group list { optional binary element (STRING); } }
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let properties = WriterProperties::builder().set_data_page_row_count_limit(50).build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for records in records.chunks(group) {
        let mut rows = writer.next_row_group().unwrap();
        macro_rules! put {
            ($type:ty, $values:expr, $levels:expr, $repeated:expr) => {{
                let mut column = rows.next_column().unwrap().unwrap();
                column.typed::<$type>().write_batch(&$values, $levels, $repeated).unwrap();
                column.close().unwrap();
            }};
        }
        let clicks: Vec<i32> = records.iter().map(|record| record.click.into()).collect();
        put!(Int32Type, clicks, None, None);
        let levels: Vec<i16> = records.iter().map(|of| of.price.is_some().into()).collect();
        let prices: Vec<f64> = records.iter().filter_map(|record| record.price).collect();
        put!(DoubleType, prices, Some(&levels), None);
        let levels: Vec<i16> = records.iter().map(|of| of.age.is_some().into()).collect();
        let ages: Vec<i32> = records.iter().filter_map(|record| record.age).collect();
        put!(Int32Type, ages, Some(&levels), None);
        let users: Vec<i64> = records.iter().map(|record| record.user).collect();
        put!(Int64Type, users, None, None);
        let levels: Vec<i16> = records.iter().map(|of| of.city.is_some().into()).collect();
        let cities = records.iter().filter_map(|record| record.city.as_deref());
        let cities: Vec<ByteArray> = cities.map(ByteArray::from).collect();
        put!(ByteArrayType, cities, Some(&levels), None);
        let (mut levels, mut repeated, mut tags) = (Vec::new(), Vec::new(), Vec::new());
        for record in records {
            // A list without items, and one that is not there, are the same to us.
            if record.tags.is_empty() {
                levels.push(i16::from(record.click));
                repeated.push(0);
            }
            for (number, tag) in record.tags.iter().enumerate() {
                levels.push(3);
                repeated.push((number > 0).into());
                tags.push(ByteArray::from(tag.as_str()));
            }
        }
        put!(ByteArrayType, tags, Some(&levels), Some(&repeated));
        rows.close().unwrap();
    }
    writer.close().unwrap();
}

pub(crate) fn options_of(layout: &Layout, block_bytes: usize) -> ReadOptions {
    let example_keys_max = usize::MAX;
    ReadOptions { block_bytes, example_keys_max, ..ReadOptions::new(layout.schema()) }
}

pub(crate) fn read(
    path: &Path,
    layout: &Arc<Layout>,
    options: &ReadOptions,
) -> Result<(Vec<Row>, u64), DataError> {
    let files = Files { paths: vec![path.to_owned()], layout: Some(Arc::clone(layout)) };
    let input = Input::Files(files);
    let mut reader = stepwell_data::Reader::open(input, options)?;
    let (mut chunk, mut rows) = (reader.chunk(), Vec::new());
    while reader.next_chunk(&mut chunk)? {
        let most = layout.chunk_bytes_max(options.block_bytes);
        assert!(chunk.bytes() <= most, "{} of {most}", chunk.bytes());
        rows.extend(rows_of(&chunk));
    }
    Ok((rows, reader.skipped()))
}

/// The same records in every format, and how each is read.
fn every_format(folder: &Path, records: &[Record]) -> Vec<(PathBuf, Arc<Layout>)> {
    let auto = layout(LayoutOptions::default());
    let of = |format| layout(LayoutOptions { format, ..Default::default() });
    let csv = delimited(records, ',', false, "\n");
    let reversed: String = {
        let line = |fields: Vec<String>| {
            let fields: Vec<String> = fields.into_iter().rev().map(|of| quoted(&of)).collect();
            fields.join(",") + ",ignored\n"
        };
        let header = line(NAMES.map(str::to_owned).to_vec());
        let rows = records.iter().map(|record| line(fields(record).to_vec()));
        std::iter::once(header).chain(rows).collect()
    };
    let columns = folder.join("rows.parquet");
    parquet(&columns, records, 170);
    let one = folder.join("one.parquet");
    parquet(&one, records, 1 << 20);
    vec![
        (write(folder, "a.csv", &csv), Arc::clone(&auto)),
        (write(folder, "a.csv.gz", gzip(&csv)), of(Format::Csv)),
        (write(folder, "a.csv.zst", zstd(&csv)), Arc::clone(&auto)),
        (write(folder, "mark.csv", format!("\u{feff}{csv}")), Arc::clone(&auto)),
        (write(folder, "q.csv", delimited(records, ',', true, "\r\n")), Arc::clone(&auto)),
        (write(folder, "reversed.csv", reversed), Arc::clone(&auto)),
        (write(folder, "blank.csv", csv + "\n"), Arc::clone(&auto)),
        (write(folder, "semi.csv", delimited(records, ';', true, "\n")), Arc::clone(&auto)),
        (write(folder, "a.tsv", tsv(records)), of(Format::Tsv)),
        (write(folder, "a.jsonl", json(records)), Arc::clone(&auto)),
        (write(folder, "a.jsonl.gz", gzip(json(records))), of(Format::JsonLines)),
        (columns, Arc::clone(&auto)),
        (one, of(Format::Parquet)),
    ]
}

#[test]
fn the_same_rows_are_the_same_examples_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(500);
    let files = every_format(folder.path(), &records);
    let (expected, _) = read(&files[0].0, &files[0].1, &options_of(&files[0].1, 1 << 20)).unwrap();
    assert_eq!(expected.len(), records.len());
    for (path, layout) in &files {
        for block_bytes in [400, 3000, 1 << 18] {
            let found = read(path, layout, &options_of(layout, block_bytes)).unwrap();
            assert_eq!(found, (expected.clone(), 0), "{} {block_bytes}", path.display());
        }
        let files = Files { paths: vec![path.clone()], layout: Some(Arc::clone(layout)) };
        assert_eq!(Input::Files(files).lines_of_each().unwrap(), [500], "{}", path.display());
        // From any place on.
        for line in [1, 49, 50, 170, 333, 499, 500] {
            let start = Position { file: 0, line };
            let options = ReadOptions { start, ..options_of(layout, 2000) };
            let (rows, _) = read(path, layout, &options).unwrap();
            assert!(rows == expected[line as usize..], "{} from {line}", path.display());
        }
        let start = Position { file: 0, line: 501 };
        let beyond = ReadOptions { start, ..options_of(layout, 2000) };
        let error = read(path, layout, &beyond).unwrap_err().to_string();
        assert!(error.contains("it may have changed"), "{error}");
    }
}

#[test]
fn examples_are_what_the_rules_say() {
    let folder = tempfile::tempdir().unwrap();
    let records = records(200);
    let path = write(folder.path(), "a.csv", delimited(&records, ',', false, "\n"));
    let layout = layout(LayoutOptions::default());
    let (rows, _) = read(&path, &layout, &options_of(&layout, 1 << 16)).unwrap();
    let key = |namespace: &str, text: &str| {
        stepwell_base::hash::checksum(format!("{namespace}\0{text}").as_bytes())
    };
    for (record, (_, label, dense, bags)) in records.iter().zip(&rows) {
        assert_eq!(*label, f32::from(record.click).to_bits());
        let price = record.price.map_or(0.0, |price| log1p_of_number(price as f32));
        let age = record.age.map_or(35.0, |age| f64::from(age.clamp(18, 70)));
        let missing = f32::from(u8::from(record.age.is_none()));
        let expected = [price, ((age - 40.0) / 12.5) as f32, missing].map(f32::to_bits);
        assert_eq!(dense[..], expected, "{record:?}");
        let [click, _, _, user, city, _] = fields(record);
        assert_eq!(click, record.click.to_string());
        let tags = record.tags.iter().take(3).map(|tag| key("tags", tag)).collect();
        let group = record.age.map(|age| [18, 30, 50].iter().filter(|of| age >= **of).count());
        let expected: Vec<Vec<u64>> = vec![
            vec![key("user", &user)],
            vec![key("city", &city)],
            tags,
            vec![key("user_city", &format!("{user}\u{1f}{city}"))],
            group.map(|group| key("age_group", &group.to_string())).into_iter().collect(),
        ];
        assert_eq!(*bags, expected, "{record:?}");
    }
}

#[test]
fn libsvm_has_numbers_by_name_and_ids_by_field() {
    let folder = tempfile::tempdir().unwrap();
    let id = |ids: usize| {
        let list = Some(ListRule { separator: "|".to_owned(), most: ids });
        ColumnKind::Id(IdRule { list, ..Default::default() })
    };
    let columns = vec![
        column("label", ColumnKind::Label { positive: Vec::new() }),
        column("7", ColumnKind::Dense(DenseRule::default())),
        column("item", id(8)),
        column("indices", id(8)),
    ];
    let layout = Arc::new(Layout::new(LayoutOptions::default(), columns).unwrap());
    let text = "+1 3:1 7:0.5 9:1\n-1 item:a:1 item:b:1.0 # 3:1\n0\n1 qid:4 7:2e1 12:1\n";
    let path = write(folder.path(), "a.svm", text);
    let (rows, skipped) = read(&path, &layout, &options_of(&layout, 1 << 16)).unwrap();
    let key = |namespace: &str, text: &str| stepwell_base::key_of(namespace, text.as_bytes());
    let found: Vec<(f32, f32)> =
        rows.iter().map(|row| (f32::from_bits(row.1), f32::from_bits(row.2[0]))).collect();
    assert_eq!((found, skipped), (vec![(1.0, 0.5), (0.0, 0.0), (0.0, 0.0), (1.0, 20.0)], 0));
    let keys = |keys: &[Key]| keys.iter().map(|key| key.0).collect::<Vec<u64>>();
    assert_eq!(rows[0].3, [vec![], keys(&[key("indices", "3"), key("indices", "9")])]);
    assert_eq!(rows[1].3, [keys(&[key("item", "a"), key("item", "b")]), vec![]]);
    let bad = write(folder.path(), "b.svm", "1 3:0.5 7:1\n");
    let error = read(&bad, &layout, &options_of(&layout, 1 << 16)).unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("another value than 1"), "{error}");
}

#[test]
fn layouts_that_make_no_examples_are_answered_with_the_mend() {
    let label = || column("y", ColumnKind::Label { positive: Vec::new() });
    let id = |name: &str| column(name, ColumnKind::Id(IdRule::default()));
    let refused = |columns: Vec<Column>, answer: &str| {
        let error = Layout::new(LayoutOptions::default(), columns).unwrap_err().to_string();
        assert!(error.contains(answer), "{error}");
    };
    refused(vec![id("a")], "no column is the label");
    refused(vec![label()], "no column is an id");
    refused(vec![label(), id("a"), id("a")], "column a is there twice");
    refused(vec![label(), column("z", ColumnKind::Label { positive: vec![] }), id("a")], "second");
    refused(vec![label(), made_of("b", &["a"], ColumnKind::Id(IdRule::default()))], "no column: ");
    let buckets = IdRule { buckets: vec![2.0, 1.0], ..Default::default() };
    refused(vec![label(), column("a", ColumnKind::Id(buckets))], "ascending order");
    let flat = Transform::Standardise { mean: 1.0, deviation: 0.0 };
    let flat = DenseRule { transform: flat, ..Default::default() };
    refused(vec![label(), id("a"), column("b", ColumnKind::Dense(flat))], "deviation above 0");
    let limits = DenseRule { low: Some(2.0), high: Some(1.0), ..Default::default() };
    refused(vec![label(), id("a"), column("b", ColumnKind::Dense(limits))], "the other way round");
    let huge = DenseRule { low: Some(1e300), ..Default::default() };
    refused(vec![label(), id("a"), column("b", ColumnKind::Dense(huge))], "32 bits");
    let options = LayoutOptions { separator: Some(b'e'), ..Default::default() };
    let error = Layout::new(options, vec![label(), id("a")]).unwrap_err().to_string();
    assert!(error.contains("give another,"), "{error}");
    // The name of the rules changes with them, and with nothing else.
    let name = |layout: Arc<Layout>| layout.rules_name();
    let auto = name(layout(LayoutOptions::default()));
    assert_eq!(auto, name(layout(LayoutOptions { format: Format::Csv, ..Default::default() })));
    assert_ne!(auto, name(layout(LayoutOptions { trim: true, ..Default::default() })));
    assert_eq!(auto, "columns da64b1af217365c7a0008012ef5b5027");
}

/// Bytes that nearly are a text of some format.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let parts = prop::sample::select(vec![
        "click",
        "price",
        "age",
        "user",
        "city",
        "tags",
        ",",
        ",",
        ",",
        "\n",
        "\n",
        "\t",
        ";",
        "1",
        "0",
        "2",
        "-1",
        "x",
        "\"",
        "\"\"",
        "{",
        "}",
        "[",
        "]",
        ":",
        "{\"click\":1}\n",
        "null",
        " ",
        "\r\n",
        "\u{feff}",
        "\\u0041",
        "\\",
        "1,2,3,4,5,6\n",
        "1 3:1\n",
        "0,,,,,\n",
        "#",
        "click,price,age,user,city,tags\n",
        "{\"click\":0,\"tags\":[\"a\",1,null,true]}\n",
        "é",
    ]);
    let part = prop_oneof![
        20 => parts.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(1500),
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_text_is_read_or_refused_and_where_it_is_cut_does_not_show(
        bytes in texts(),
        format in prop::sample::select(Format::ALL.to_vec()),
        header in prop::option::of(any::<bool>()),
        trim in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "any", &bytes);
        let missing = vec!["x".to_owned()];
        let layout = layout(LayoutOptions { format, header, trim, missing, separator: None });
        let read = |block_bytes| {
            let options = options_of(&layout, block_bytes);
            read(&path, &layout, &ReadOptions { skip_max: u64::MAX, ..options })
        };
        let whole = read(1 << 16);
        let files = Files { paths: vec![path.clone()], layout: Some(Arc::clone(&layout)) };
        if let (Ok((rows, skipped)), Ok(counted)) = (&whole, Input::Files(files).lines_of_each()) {
            prop_assert_eq!(rows.len() as u64 + skipped, counted[0]);
        }
        for block_bytes in [300, 1000] {
            match (&whole, read(block_bytes)) {
                (Ok(whole), Ok(found)) => prop_assert!(&found == whole, "{block_bytes}"),
                // A line may be too long for it.
                (_, Err(DataError::Malformed { .. })) => {}
                (whole, found) => prop_assert!(whole.is_err() && found.is_err(), "{found:?}"),
            }
        }
        let _ = stepwell_data::guess(&path);
    }

    #[test]
    fn a_damaged_parquet_file_is_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        parquet(&path, &records(60), 25);
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::write(&path, bytes).unwrap();
        let layout = layout(LayoutOptions::default());
        let options = options_of(&layout, 1 << 16);
        let _ = read(&path, &layout, &ReadOptions { skip_max: u64::MAX, ..options });
        let _ = stepwell_data::guess(&path);
    }
}
