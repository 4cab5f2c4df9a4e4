//! Ids with values are the same in every format, and errors name malformed values.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use stepwell_data::{
    ColumnKind, Format, IdRule, Input, LabelRule, Layout, LayoutOptions, ListRule, PackedOptions,
    PackedWriter, Reader, ValuesRule,
};

use crate::common::*;
use crate::rows::{column, options_of, read};

/// A label, a list, and another column.
fn tagged(options: LayoutOptions, values: Option<&str>, most: usize) -> Arc<Layout> {
    let values = values.map(ValuesRule::of);
    let list = Some(ListRule { separator: "|".to_owned(), most, values });
    let columns = vec![
        column("label", ColumnKind::Label(LabelRule::default())),
        column("tags", ColumnKind::Id(IdRule { list, ..Default::default() })),
        column("worth", ColumnKind::Ignored),
    ];
    Arc::new(Layout::new(options, columns).unwrap())
}

/// Ids and values of a record, as text.
type Ids<'a> = &'a [(&'a str, &'a str)];

const RECORDS: [Ids<'_>; 6] = [
    &[("red", "0.5"), ("new", "2")],
    &[],
    &[("red", "1"), ("old", "1")],
    &[("red", "-1.25e1"), ("red", "0"), ("red", "0.1"), ("small", "1")],
    &[("new", "16777217")],
    &[("old", "1e-40"), ("new", "-0")],
];

/// Rows of [`RECORDS`], with lists of at most `most` ids.
fn expected(most: usize) -> Vec<Vec<u64>> {
    let id = |(id, value): &(&str, &str)| {
        let value: f32 = value.parse().unwrap();
        let bits = (value != 1.0).then(|| u64::from((value + 0.0).to_bits()));
        std::iter::once(stepwell_base::key_of("tags", id.as_bytes()).0).chain(bits)
    };
    RECORDS.iter().map(|ids| ids.iter().take(most).flat_map(id).collect()).collect()
}

fn joined(ids: Ids<'_>, item: impl Fn(&(&str, &str)) -> String) -> String {
    ids.iter().map(item).collect::<Vec<_>>().join("|")
}

fn text(header: &str, line: impl Fn(Ids<'_>) -> String) -> String {
    header.to_owned() + &RECORDS.iter().map(|ids| line(ids) + "\n").collect::<String>()
}

/// Writes lists of texts and of numbers for each row; the lists of numbers can contain nulls.
fn parquet(path: &Path, rows: &[(Vec<&str>, Vec<Option<f64>>)]) {
    let schema = "message rows {
        required int32 label;
        optional group tags (LIST) { repeated group list { required binary element (STRING); } }
        optional group worth (LIST) { repeated group list { optional double element; } }
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let options = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, options).unwrap();
    let mut group = writer.next_row_group().unwrap();
    macro_rules! put {
        ($type:ty, $values:expr, $levels:expr, $repeated:expr) => {{
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<$type>().write_batch(&$values, $levels, $repeated).unwrap();
            column.close().unwrap();
        }};
    }
    put!(Int32Type, vec![1; rows.len()], None, None);
    let repeated = |items: usize| (0..items.max(1)).map(|number| i16::from(number > 0));
    let tags: Vec<ByteArray> =
        rows.iter().flat_map(|(tags, _)| tags).map(|tag| ByteArray::from(*tag)).collect();
    let of_tags: Vec<i16> = rows.iter().flat_map(|(tags, _)| repeated(tags.len())).collect();
    let level = |items: usize| vec![if items > 0 { 2 } else { 1 }; items.max(1)];
    let levels: Vec<i16> = rows.iter().flat_map(|(tags, _)| level(tags.len())).collect();
    put!(ByteArrayType, tags, Some(&levels), Some(&of_tags));
    let worth: Vec<f64> =
        rows.iter().flat_map(|(_, worth)| worth.iter().flatten().copied()).collect();
    let of_worth: Vec<i16> = rows.iter().flat_map(|(_, worth)| repeated(worth.len())).collect();
    let level = |worth: &Vec<Option<f64>>| -> Vec<i16> {
        let there = worth.iter().map(|number| 2 + i16::from(number.is_some()));
        if worth.is_empty() { vec![0] } else { there.collect() }
    };
    let levels: Vec<i16> = rows.iter().flat_map(|(_, worth)| level(worth)).collect();
    put!(DoubleType, worth, Some(&levels), Some(&of_worth));
    group.close().unwrap();
    writer.close().unwrap();
}

/// [`RECORDS`] with values inside items, and in a separate list, in each format.
fn files(folder: &Path) -> [Vec<PathBuf>; 2] {
    let within = |ids: Ids<'_>| joined(ids, |(id, value)| format!("{id}:{value}"));
    let ids = |ids: Ids<'_>| joined(ids, |(id, _)| (*id).to_owned());
    let values = |ids: Ids<'_>| joined(ids, |(_, value)| (*value).to_owned());
    let svm = |of: Ids<'_>| {
        let items = of.iter().map(|(id, value)| format!(" tags:{id}:{value}"));
        format!("1{}", items.collect::<String>())
    };
    let list = |of: Ids<'_>, item: &dyn Fn(&(&str, &str)) -> String| {
        of.iter().map(item).collect::<Vec<_>>().join(",")
    };
    let json_within = |of: Ids<'_>| {
        let tags = list(of, &|(id, value)| format!("\"{id}:{value}\""));
        format!("{{\"label\":1,\"tags\":[{tags}]}}")
    };
    let json_beside = |of: Ids<'_>| {
        let tags = list(of, &|(id, _)| format!("\"{id}\""));
        let worth = list(of, &|(_, value)| (*value).to_owned());
        format!("{{\"worth\":[{worth}],\"label\":1,\"tags\":[{tags}]}}")
    };
    let in_brackets = |of: Ids<'_>| {
        let items = list(of, &|(id, value)| format!("'{id}:{value}'"));
        format!("1,\"[{items}]\",")
    };
    let number = |value: &str| Some(value.parse().unwrap());
    let rows = RECORDS.map(|of| {
        let ids = of.iter().map(|(id, _)| *id).collect();
        (ids, of.iter().map(|(_, value)| number(value)).collect())
    });
    let lists = folder.join("beside.parquet");
    parquet(&lists, &rows);
    let texts = RECORDS.map(|of| -> Vec<String> {
        of.iter().map(|(id, value)| format!("{id}:{value}")).collect()
    });
    let rows = texts.iter().map(|of| (of.iter().map(String::as_str).collect(), Vec::new()));
    let items = folder.join("within.parquet");
    parquet(&items, &rows.collect::<Vec<_>>());
    let csv = "label,tags,worth\n";
    let file = |name: &str, text: String| write(folder, name, text);
    [
        vec![
            file("within.csv", text(csv, |of| format!("1,{},", within(of)))),
            file("brackets.csv", text(csv, in_brackets)),
            file("within.tsv", text("", |of| format!("1\t{}\t", within(of)))),
            file("within.jsonl", text("", json_within)),
            file("within.ffm", text("", svm)),
            items,
        ],
        vec![
            file("beside.csv", text(csv, |of| format!("1,{},{}", ids(of), values(of)))),
            file("beside.jsonl", text("", json_beside)),
            lists,
        ],
    ]
}

#[test]
fn ids_with_values_are_the_same_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let [within, beside] = files(folder.path());
    for (most, block_bytes) in [(8, 1 << 16), (8, 300), (2, 1 << 16)] {
        for (files, values) in [(&within, ":"), (&beside, "worth")] {
            let layout = tagged(LayoutOptions::default(), Some(values), most);
            for path in files {
                let (rows, _) = read(path, &layout, &options_of(&layout, block_bytes)).unwrap();
                let bags: Vec<_> = rows.into_iter().map(|row| row.3.concat()).collect();
                assert_eq!(bags, expected(most), "{} of {most}", path.display());
            }
        }
    }
    // LibFFM needs no settings for values.
    let layout = tagged(LayoutOptions::default(), None, 8);
    let (rows, _) = read(&within[4], &layout, &options_of(&layout, 1 << 16)).unwrap();
    let bags: Vec<_> = rows.into_iter().map(|row| row.3.concat()).collect();
    assert_eq!(bags, expected(8));
}

#[test]
fn a_packed_file_has_the_values_of_its_ids() {
    let folder = tempfile::tempdir().unwrap();
    let [within, _] = files(folder.path());
    let layout = tagged(LayoutOptions::default(), Some(":"), 8);
    let options = options_of(&layout, 1 << 16);
    let (rows, _) = read(&within[0], &layout, &options).unwrap();
    let packed = folder.path().join("packed");
    for block_bytes in [100, 1 << 14] {
        let laid_out = PackedOptions::laid_out(layout.schema(), Some(&layout));
        let laid_out = PackedOptions { block_bytes, ..laid_out };
        let mut writer = PackedWriter::new(&packed, &laid_out).unwrap();
        let files = stepwell_data::Files {
            paths: vec![within[0].clone()],
            layout: Some(Arc::clone(&layout)),
        };
        let mut reader = Reader::open(Input::Files(files), &options).unwrap();
        let mut chunk = reader.chunk();
        while reader.next_chunk(&mut chunk).unwrap() {
            writer.add(&chunk).unwrap();
        }
        writer.finish().unwrap();
        let (found, _) = read(&packed, &layout, &options).unwrap();
        let bags = |rows: &[Row]| rows.iter().map(|row| row.3.clone()).collect::<Vec<_>>();
        assert_eq!(bags(&found), bags(&rows));
        let files = stepwell_data::Files { paths: vec![packed.clone()], layout: None };
        assert!(Input::Files(files).may_have_values().unwrap());
    }
    // The names of layouts without values are unchanged.
    let name = |values| tagged(LayoutOptions::default(), values, 8).rules();
    assert!(!name(None).contains("values ") || name(None).matches("values ").count() == 1);
    assert_ne!(name(None), name(Some(":")));
    assert_ne!(name(Some("worth")), name(Some(":")));
}

/// The error for a file with these contents.
fn refused(folder: &Path, file: (&str, &str), values: Option<&str>) -> String {
    let options = LayoutOptions { missing: vec!["NA".to_owned()], ..Default::default() };
    let layout = tagged(options, values, 8);
    let path = write(folder, file.0, file.1);
    read(&path, &layout, &options_of(&layout, 1 << 16)).unwrap_err().to_string()
}

#[test]
fn what_is_no_value_is_refused_by_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let csv = |row: &str| format!("label,tags,worth\n1,a:1,\n1,{row}\n");
    for item in ["red", "red:", "red:x", "red:nan", "red:-inf", "red:1e39", "red: 1", "a:b:1"] {
        let text = csv(&format!("b:2|{item},"));
        let error = refused(folder.path(), ("a.csv", &text), Some(":"));
        let item = format!("tags has the item '{item}', but an id with its value is written as");
        assert!(error.contains("line 3, column 2") && error.contains(&item), "{error}");
    }
    for token in ["tags:red:x", "tags:red:nan", "tags:red:1e39"] {
        let error = refused(folder.path(), ("a.ffm", &format!("1 tags:a:1\n1 {token}\n")), None);
        let item = format!("tags has the item '{}'", &token[5..]);
        assert!(error.contains("line 2") && error.contains(&item), "{error}");
    }
    let beside = |tags: &str, worth: &str| format!("label,tags,worth\n1,a,1\n1,{tags},{worth}\n");
    for (tags, worth, why) in [
        ("a|b", "1", "tags has 2 ids and 1 values: give each id one value"),
        ("", "1", "tags has 0 ids and 1 values"),
        ("a", "", "tags has 1 ids and 0 values"),
        ("a|b", "1|x", "worth has the item 'x', but values of ids are finite 32-bit numbers"),
        ("a|b", "1|inf", "worth has the item 'inf'"),
        ("a|b", "1|", "worth has a missing item"),
        ("a|NA", "1|2", "tags has a missing item, but ids and their values are matched"),
        ("a||b", "1|2|3", "tags has a missing item"),
    ] {
        let error = refused(folder.path(), ("b.csv", &beside(tags, worth)), Some("worth"));
        assert!(error.contains("line 3") && error.contains(why), "{error}");
        let list = |text: &str| text.split('|').map(|of| format!("\"{of}\"")).collect::<Vec<_>>();
        let list = |text: &str| if text.is_empty() { String::new() } else { list(text).join(",") };
        let (tags, worth) = (list(tags), list(worth));
        let json = format!("{{\"label\":1,\"tags\":[{tags}],\"worth\":[{worth}]}}\n");
        let error = refused(folder.path(), ("b.jsonl", &json), Some("worth"));
        assert!(error.contains("line 1") && error.contains(why), "{error}");
    }
    let json = "{\"label\":1,\"tags\":[\"a\",null],\"worth\":[1,2]}\n";
    let error = refused(folder.path(), ("c.jsonl", json), Some("worth"));
    assert!(error.contains("tags has a missing item"), "{error}");
    // LibSVM stores its values with the ids.
    let error = refused(folder.path(), ("d.ffm", "1 tags:a:2\n"), Some("worth"));
    assert!(error.contains("tags has 1 ids and 0 values"), "{error}");
}

#[test]
fn rows_of_parquet_without_a_value_for_each_id_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let layout = tagged(LayoutOptions::default(), Some("worth"), 8);
    let path = folder.path().join("lists.parquet");
    let fine = (vec!["a", "b"], vec![Some(0.5), Some(2.0)]);
    for (row, why) in [
        ((vec!["a", "b"], vec![Some(1.0)]), "tags has 2 ids and 1 values"),
        ((vec!["a"], vec![]), "tags has 1 ids and 0 values"),
        ((vec!["a"], vec![Some(1.0), None]), "worth has a missing item"),
        ((vec!["a"], vec![None]), "worth has a missing item"),
        ((vec!["a"], vec![Some(f64::NAN)]), "worth has a missing item"),
        ((vec!["a"], vec![Some(f64::INFINITY)]), "worth has the item 'inf'"),
        ((vec!["a"], vec![Some(1e39)]), "worth has the item '1e+39'"),
        ((vec![""], vec![Some(1.0)]), "tags has a missing item"),
    ] {
        parquet(&path, &[fine.clone(), row]);
        let error = read(&path, &layout, &options_of(&layout, 1 << 16)).unwrap_err().to_string();
        assert!(error.contains("lists.parquet") && error.contains(why), "{error}");
        assert!(error.contains("row 2") || error.contains("line 2"), "{error}");
    }
}

#[test]
fn settings_of_values_that_fit_nothing_are_answered_with_the_mend() {
    let of = |separator: &str, values: &str| {
        let list = Some(ListRule {
            separator: separator.to_owned(),
            most: 4,
            values: Some(ValuesRule::of(values)),
        });
        let columns = vec![
            column("label", ColumnKind::Label(LabelRule::default())),
            column("tags", ColumnKind::Id(IdRule { list, ..Default::default() })),
            crate::rows::made_of("cross", &["tags", "label"], ColumnKind::Id(IdRule::default())),
        ];
        let options = LayoutOptions { format: Format::Csv, ..Default::default() };
        Layout::new(options, columns).unwrap_err().to_string()
    };
    assert!(
        of("|", "nobody").contains("column tags: has its values in nobody, which is not a column")
    );
    assert!(of("|", "tags").contains("column tags: has its values in itself: give the mark"));
    assert!(of("|", "cross").contains("cross is made of other columns itself"));
    assert!(of(", ", ",").contains("its separator contains ,"));
}
