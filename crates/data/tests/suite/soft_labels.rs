//! Labels between 0 and 1, and counts, in every format and in packed files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{DoubleType, FloatType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use stepwell_data::{
    Block, Chunk, Column, ColumnKind, Files, Guessed, IdRule, Input, LabelRule, Layout,
    LayoutOptions, PackedOptions, PackedWriter, Reader, Schema, guess, parse_block,
};

use crate::common::*;
use crate::rows::*;

/// Clicks and impressions.
const COUNTS: [[i64; 2]; 6] = [[2, 5], [0, 4], [7, 7], [0, 0], [1, 3], [5, 10]];

fn share([clicks, impressions]: [i64; 2]) -> f64 {
    clicks as f64 / impressions.max(1) as f64
}

fn label() -> ColumnKind {
    ColumnKind::Label(LabelRule::default())
}

/// Columns with a share and a weight, and with the equivalent counts.
fn columns() -> [Vec<Column>; 2] {
    let id = || column("user", ColumnKind::Id(IdRule::default()));
    let share = vec![column("label", label()), column("views", ColumnKind::Weight), id()];
    let counts = vec![
        made_of("rate", &["clicks", "views"], label()),
        column("clicks", ColumnKind::Ignored),
        column("views", ColumnKind::Ignored),
        id(),
    ];
    [share, counts]
}

fn layout(columns: Vec<Column>) -> Arc<Layout> {
    Arc::new(Layout::new(LayoutOptions::default(), columns).unwrap())
}

/// Labels and weights of a file, as bits.
fn read(path: &Path, layout: &Arc<Layout>) -> Vec<[u32; 2]> {
    let files = Files { paths: vec![path.to_owned()], layout: Some(Arc::clone(layout)) };
    let mut reader = Reader::open(Input::Files(files), &options_of(layout, 1 << 16)).unwrap();
    let (mut chunk, mut found) = (reader.chunk(), Vec::new());
    while reader.next_chunk(&mut chunk).unwrap() {
        let both = chunk.labels.iter().zip(&chunk.weights);
        found.extend(both.map(|(label, weight)| [label.to_bits(), weight.to_bits()]));
    }
    found
}

fn parquet(path: &Path) {
    let schema = "message rows {
        required double label; required int64 clicks; required float views; required int64 user;
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    macro_rules! put {
        ($type:ty, $of:expr) => {{
            let mut column = rows.next_column().unwrap().unwrap();
            let values: Vec<_> = COUNTS.into_iter().map($of).collect();
            column.typed::<$type>().write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        }};
    }
    put!(DoubleType, share);
    put!(Int64Type, |of| of[0]);
    put!(FloatType, |of| of[1] as f32);
    put!(Int64Type, |of| of[0] * 3);
    rows.close().unwrap();
    writer.close().unwrap();
}

fn every_file(folder: &Path) -> Vec<PathBuf> {
    let text = |line: fn([i64; 2], f64) -> String| -> String {
        COUNTS.into_iter().map(|of| line(of, share(of)) + "\n").collect()
    };
    let csv = text(|[clicks, views], share| format!("{share},{clicks},{views},{}", clicks * 3));
    let json = text(|[clicks, views], share| {
        format!(r#"{{"label":{share},"clicks":{clicks},"views":{views},"user":{}}}"#, clicks * 3)
    });
    let svm = text(|[clicks, views], share| {
        format!("{share} clicks:{clicks} views:{views} user:{}", clicks * 3)
    });
    parquet(&folder.join("a.parquet"));
    vec![
        write(folder, "a.csv", format!("label,clicks,views,user\n{csv}")),
        write(folder, "a.tsv", format!("label,clicks,views,user\n{csv}").replace(',', "\t")),
        write(folder, "a.jsonl", json),
        write(folder, "a.svm", svm),
        folder.join("a.parquet"),
    ]
}

#[test]
fn shares_and_counts_are_the_same_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let expected: Vec<[u32; 2]> = COUNTS
        .into_iter()
        .map(|of| [(share(of) as f32).to_bits(), (of[1] as f32).to_bits()])
        .collect();
    for columns in columns() {
        let layout = layout(columns);
        for path in every_file(folder.path()) {
            assert_eq!(read(&path, &layout), expected, "{}", path.display());
        }
    }
}

#[test]
fn counts_that_are_none_are_named_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let [_, counts] = columns();
    let layout = layout(counts);
    for (clicks, views, says) in [
        (r#"3"#, "2", "clicks is '3', more than views has"),
        ("-1", "2", "clicks is '-1', and a count is a number of 0 or more"),
        ("1", "null", "views is missing, and a label is made of it"),
        ("1", "\"x\"", "views is 'x', and a count is a number of 0 or more"),
    ] {
        let line = format!("{{\"clicks\": {clicks}, \"views\": {views}, \"user\": 1}}\n");
        let path = write(folder.path(), "a.jsonl", line);
        let files = Files { paths: vec![path], layout: Some(Arc::clone(&layout)) };
        let mut reader = Reader::open(Input::Files(files), &options_of(&layout, 1 << 16)).unwrap();
        let mut chunk = reader.chunk();
        let error = reader.next_chunk(&mut chunk).unwrap_err().to_string();
        assert!(error.contains("a.jsonl: line 1: ") && error.contains(says), "{error}");
    }
}

/// Plain lines, some with labels between 0 and 1.
fn soft() -> Chunk {
    let text = lines(0..7).replace("1\t1\t", "0.25\t1\t").replace("0\t6\t", "1e-3\t6\t");
    let mut chunk = Chunk::new(TINY);
    parse_block(&Block::of_text(text.into()), &mut chunk);
    assert_eq!((chunk.labels[1], chunk.labels[6], chunk.labels[3]), (0.25, 1e-3, 1.0));
    chunk
}

#[test]
fn packed_files_of_the_version_of_shares_are_read_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let (path, chunk) = (folder.path().join("packed"), soft());
    let options = PackedOptions { block_bytes: 130, ..PackedOptions::new(TINY) };
    let mut writer = PackedWriter::new(&path, &options).unwrap();
    writer.add(&chunk).unwrap();
    assert_eq!(writer.finish().unwrap(), 7);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-5.packed");
    let labels = |path: &PathBuf| -> Vec<u32> {
        let (rows, _) = read_files(std::slice::from_ref(path), &blocks_of(4096)).unwrap();
        rows.iter().map(|row| row.1).collect()
    };
    let expected: Vec<u32> = chunk.labels.iter().map(|label| label.to_bits()).collect();
    assert_eq!((labels(&path), labels(&kept)), (expected.clone(), expected));
    // While this version is current, equal examples give equal bytes.
    assert!(std::fs::read(&path).unwrap() == std::fs::read(kept).unwrap());
    // Other labels are errors, and files without such labels keep their bytes.
    let mut writer = PackedWriter::new(&path, &PackedOptions::new(TINY)).unwrap();
    let mut wrong = soft();
    wrong.labels[2] = 1.5;
    let error = writer.add(&wrong).unwrap_err().to_string();
    assert!(error.contains("a label of example 3 is 1.5: give numbers from 0 to 1"), "{error}");
    drop(writer);
    let mut writer = PackedWriter::new(&path, &PackedOptions::new(TINY)).unwrap();
    let mut whole = soft();
    (whole.labels[1], whole.labels[6]) = (1.0, 0.0);
    writer.add(&whole).unwrap();
    writer.finish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[8], 1);
}

#[test]
fn several_labels_and_weights_are_packed_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed");
    for (count, weighted) in [(1, true), (3, false), (2, true)] {
        let mut schema = Schema::new(1, 1);
        (schema.labels.count, schema.labels.weighted) = (count, weighted);
        let mut chunk = Chunk::new(schema);
        for number in 0..50 {
            chunk.labels.extend((0..count).map(|at| (number + at) as f32 / 64.0));
            chunk.weights.extend(weighted.then_some(number as f32));
            chunk.dense.push(1.0);
            chunk.keys.push(stepwell_base::Key(number as u64));
            chunk.bag_ends.push(number as u32 + 1);
            chunk.lines.push(number as u32);
        }
        let options = PackedOptions { block_bytes: 300, ..PackedOptions::new(schema) };
        let mut writer = PackedWriter::new(&path, &options).unwrap();
        writer.add(&chunk).unwrap();
        writer.finish().unwrap();
        let options = stepwell_data::ReadOptions::new(schema);
        let mut reader = Reader::open(Input::Files(vec![path.clone()].into()), &options).unwrap();
        let (mut part, mut labels, mut weights) = (reader.chunk(), Vec::new(), Vec::new());
        while reader.next_chunk(&mut part).unwrap() {
            labels.extend_from_slice(&part.labels);
            weights.extend_from_slice(&part.weights);
        }
        assert_eq!((labels, weights), (chunk.labels, chunk.weights));
        assert_eq!(std::fs::read(&path).unwrap()[8], 5);
    }
}

#[test]
fn shares_are_taken_for_the_label_where_they_are_called_one() {
    let folder = tempfile::tempdir().unwrap();
    let label = |header: &str, values: [&str; 3]| {
        let rows: String = values.iter().map(|value| format!("{value},u1,0.3\n")).collect();
        let path = write(folder.path(), "a.csv", format!("{header},user,rate\n{rows}"));
        guess(&path).unwrap().columns[0].kind.clone()
    };
    for name in ["label", "click", "target", "ctr", "CTR"] {
        assert_eq!(label(name, ["0.4", "0.25", "1"]), Guessed::Label(vec![]), "{name}");
    }
    assert_eq!(label("label", ["0.4", "0.8", "0.8"]), Guessed::Label(vec![]));
    let is_label = |guessed: Guessed| matches!(guessed, Guessed::Label(_));
    assert!(!is_label(label("quality", ["0.4", "0.25", "1"])));
    assert!(!is_label(label("label", ["0.4", "0.25", "1.5"])));
    assert!(!is_label(label("ctr", ["0.4", "-0.25", "1"])));
}
