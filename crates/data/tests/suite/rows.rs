//! Rows and their representation in every format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use stepwell_base::random::Stream;
use stepwell_data::{
    Column, ColumnKind, DataError, DenseRule, Files, Format, IdRule, Input, LabelRule, Layout,
    LayoutOptions, ListRule, ReadOptions, Transform,
};

use crate::common::*;

/// A row before it is written to a file.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) click: u8,
    pub(crate) price: Option<f64>,
    pub(crate) age: Option<i32>,
    pub(crate) user: i64,
    pub(crate) city: Option<String>,
    pub(crate) tags: Vec<String>,
}

pub(crate) fn records(count: u64) -> Vec<Record> {
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

pub(crate) fn made_of(name: &str, of: &[&str], kind: ColumnKind) -> Column {
    let of = of.iter().map(|name| (*name).to_owned()).collect();
    Column { of, ..column(name, kind) }
}

pub(crate) fn columns() -> Vec<Column> {
    let dense = |rule| ColumnKind::Dense(rule);
    let id = || ColumnKind::Id(IdRule::default());
    let list = Some(ListRule { separator: "|".to_owned(), most: 3, values: None });
    vec![
        column("click", ColumnKind::Label(LabelRule::default())),
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

pub(crate) fn layout(options: LayoutOptions) -> Arc<Layout> {
    Arc::new(Layout::new(options, columns()).unwrap())
}

pub(crate) const NAMES: [&str; 6] = ["click", "price", "age", "user", "city", "tags"];

/// Fields of a record as text.
pub(crate) fn fields(record: &Record) -> [String; 6] {
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

pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

pub(crate) fn delimited(records: &[Record], separator: char, quote: bool, end: &str) -> String {
    let line = |fields: [String; 6]| {
        let wanted = |field: &String| quote || field.contains([separator, '"']);
        let written = fields.map(|field| if wanted(&field) { quoted(&field) } else { field });
        written.join(&separator.to_string()) + end
    };
    let header = line(NAMES.map(str::to_owned));
    std::iter::once(header).chain(records.iter().map(|record| line(fields(record)))).collect()
}

pub(crate) fn tsv(records: &[Record]) -> String {
    records.iter().map(|record| fields(record).join("\t") + "\n").collect()
}

pub(crate) fn json(records: &[Record]) -> String {
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

/// Kind of pages of a Parquet file.
#[derive(Clone, Copy)]
pub(crate) enum Pages {
    First,
    Second,
    Plain,
    Full,
}

/// Writes a Parquet file with row groups of `group` rows.
pub(crate) fn parquet(path: &Path, records: &[Record], group: usize, kind: Pages) {
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
    let properties = WriterProperties::builder().set_data_page_row_count_limit(50);
    // Pages of both versions, without dictionaries, with them, and with one that overflows.
    let properties = match kind {
        Pages::First => properties,
        Pages::Second => properties.set_writer_version(WriterVersion::PARQUET_2_0),
        Pages::Plain => properties.set_dictionary_enabled(false),
        Pages::Full => properties.set_dictionary_page_size_limit(40).set_write_batch_size(20),
    };
    let properties = properties.build();
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
            // An empty list and a null list are equivalent.
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

/// The same records in every format, each with its layout.
pub(crate) fn every_format(folder: &Path, records: &[Record]) -> Vec<(PathBuf, Arc<Layout>)> {
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
    parquet(&columns, records, 170, Pages::First);
    let one = folder.join("one.parquet");
    parquet(&one, records, 1 << 20, Pages::Second);
    let plain = folder.join("plain.parquet");
    parquet(&plain, records, 211, Pages::Plain);
    let full = folder.join("full.parquet");
    parquet(&full, records, 400, Pages::Full);
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
        (plain, Arc::clone(&auto)),
        (full, Arc::clone(&auto)),
    ]
}
