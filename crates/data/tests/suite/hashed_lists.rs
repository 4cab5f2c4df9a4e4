//! Lists with `bins` are those of [`OneSignHash`] over their ids, in every format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use stepwell_base::{Key, Namespace};
use stepwell_data::{
    Column, ColumnKind, CutLists, Files, Format, IdRule, Input, LabelRule, Layout, LayoutOptions,
    ListRule, OneSignHash, Reader, ValuesRule,
};

use crate::common::*;
use crate::rows::{column, made_of, options_of};

/// So few that some ids of a record share one.
const BINS: u64 = 3;

/// Texts of columns `a` and `b`; the second is a list.
const RECORDS: [[&str; 2]; 6] = [
    ["x", "p|q|r|s|t|u"],
    ["x", ""],
    ["", "p|p|q"],
    ["", ""],
    ["y", "q|r|s|q"],
    ["p", "a|b|c|d|e|f|g|h"],
];

fn hashed(most: usize, values: Option<&str>) -> ColumnKind {
    let list = ListRule { separator: "|".to_owned(), most, values: values.map(ValuesRule::of) };
    ColumnKind::Id(IdRule { list: Some(list), bins: Some(BINS), ..Default::default() })
}

fn layout(options: LayoutOptions, columns: Vec<Column>) -> Result<Arc<Layout>, String> {
    let label = column("label", ColumnKind::Label(LabelRule::default()));
    let columns = [vec![label], columns].concat();
    Layout::new(options, columns).map(Arc::new).map_err(|error| error.to_string())
}

/// Keys of the outputs of ids, given by their columns, in column `name`.
fn outputs(name: &str, ids: &[(&str, &str)], values: &[f32]) -> Vec<Key> {
    let keys: Vec<Key> =
        ids.iter().map(|(of, id)| stepwell_base::key_of(of, id.as_bytes())).collect();
    let mut outputs = Vec::new();
    OneSignHash::new(BINS, 0).unwrap().append(&keys, values, &mut outputs);
    let namespace = Namespace::new(name).unwrap();
    outputs.iter().map(|output| namespace.key_of(&output.0.to_le_bytes())).collect()
}

/// Bags of all id columns of a record.
type Bags = Vec<Vec<Key>>;

/// Bags of each record, and the number of dropped ids. No id has a value.
fn bags(path: &Path, layout: &Arc<Layout>) -> Result<(Vec<Bags>, u64), String> {
    let files = Files { paths: vec![path.to_owned()], layout: Some(Arc::clone(layout)) };
    let options = options_of(layout, 1 << 12);
    let mut reader = Reader::open(Input::Files(files), &options).map_err(|of| of.to_string())?;
    let (mut chunk, mut bags, mut cut) = (reader.chunk(), Vec::new(), CutLists::default());
    while reader.next_chunk(&mut chunk).map_err(|error| error.to_string())? {
        let of = |at: usize| {
            (0..layout.schema().id_columns).map(|id| chunk.bag(at, id).to_vec()).collect()
        };
        bags.extend((0..chunk.len()).map(of));
        assert!(chunk.values.iter().all(|value| *value == 1.0));
        cut.add(&chunk, chunk.len());
    }
    Ok((bags, cut.of(layout).iter().map(|cut| cut.ids).sum()))
}

fn parquet(path: &Path) {
    let schema = "message rows { required int32 label; optional binary a (UTF8); \
                  optional binary b (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let options = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, options).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut labels = group.next_column().unwrap().unwrap();
    labels.typed::<Int32Type>().write_batch(&[1; RECORDS.len()], None, None).unwrap();
    labels.close().unwrap();
    for at in 0..2 {
        let mut column = group.next_column().unwrap().unwrap();
        let texts = RECORDS.iter().map(|record| record[at]);
        let there: Vec<i16> = texts.clone().map(|text| i16::from(!text.is_empty())).collect();
        let texts = texts.filter(|text| !text.is_empty());
        let values: Vec<ByteArray> = texts.map(|text| text.as_bytes().to_vec().into()).collect();
        column.typed::<ByteArrayType>().write_batch(&values, Some(&there), None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// [`RECORDS`] in each format.
fn files(folder: &Path) -> Vec<PathBuf> {
    let csv: String = RECORDS.iter().map(|[a, b]| format!("1,{a},{b}\n")).collect();
    let object = |[a, b]: &[&str; 2]| {
        let b: Vec<&str> = b.split('|').collect();
        serde_json::json!({ "label": 1, "a": a, "b": b }).to_string() + "\n"
    };
    let json: String = RECORDS.iter().map(object).collect();
    parquet(&folder.join("data.parquet"));
    vec![
        write(folder, "data.csv", format!("label,a,b\n{csv}")),
        write(folder, "data.jsonl", json),
        folder.join("data.parquet"),
    ]
}

#[test]
fn lists_of_one_column_are_hashed_after_they_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let of_record = |[_, list]: &[&str; 2]| {
        let ids = list.split('|').filter(|id| !id.is_empty()).take(5);
        vec![outputs("b", &ids.map(|id| ("b", id)).collect::<Vec<_>>(), &[])]
    };
    let expected: Vec<_> = RECORDS.iter().map(of_record).collect();
    assert!(expected.iter().flatten().any(|bag| bag.len() > 1));
    assert!(expected[5][0].len() < 5, "bins are shared");
    let a = column("a", ColumnKind::Ignored);
    let layout = layout(LayoutOptions::default(), vec![a, column("b", hashed(5, None))]).unwrap();
    for path in files(folder.path()) {
        let found = bags(&path, &layout).unwrap();
        assert_eq!(found, (expected.clone(), 1 + 3), "{}", path.display());
    }
    assert_eq!(layout.key_of(0, b"p"), None);
}

#[test]
fn ids_of_several_columns_are_hashed_together() {
    let folder = tempfile::tempdir().unwrap();
    let ids = |record: &[&'static str; 2]| {
        let ids = ["a", "b"].into_iter().zip(*record);
        ids.filter(|(_, id)| !id.is_empty()).collect::<Vec<_>>()
    };
    let own = |[a, _]: &[&'static str; 2]| vec![stepwell_base::key_of("a", a.as_bytes())];
    let of_record =
        |record: &[&'static str; 2]| vec![own(record), outputs("all", &ids(record), &[])];
    let expected: Vec<_> = RECORDS.iter().map(of_record).collect();
    let columns = vec![
        column("a", ColumnKind::Id(IdRule::default())),
        column("b", ColumnKind::Ignored),
        made_of("all", &["a", "b"], hashed(2, None)),
    ];
    let layout = layout(LayoutOptions::default(), columns).unwrap();
    let mut files = files(folder.path());
    let json = files.remove(1);
    for path in files {
        assert_eq!(bags(&path, &layout).unwrap(), (expected.clone(), 0), "{}", path.display());
    }
    let error = bags(&json, &layout).unwrap_err();
    assert!(error.contains("b is a list, but a column"), "{error}");
}

#[test]
fn values_count_in_sums_and_are_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let lists = ["p:2|q:0.5|r:-1|s:1", "p:1|q:1", "t:0"];
    let csv: String = lists.iter().map(|list| format!("1,{list}\n")).collect();
    let path = write(folder.path(), "data.csv", format!("label,b\n{csv}"));
    let of = |ids: &str, values: &[f32]| {
        let ids: Vec<_> = ids.split(' ').map(|id| ("b", id)).collect();
        vec![outputs("b", &ids, values)]
    };
    let expected = vec![of("p q r s", &[2.0, 0.5, -1.0, 1.0]), of("p q", &[]), vec![vec![]]];
    let marked = layout(LayoutOptions::default(), vec![column("b", hashed(9, Some(":")))]).unwrap();
    assert_eq!(bags(&path, &marked).unwrap(), (expected.clone(), 0));
    let svm = "1 p:2 q:0.5 r:-1 s:1\n1 p:1 q:1\n1 t:0\n";
    let path = write(folder.path(), "data.svm", svm);
    let options = LayoutOptions { format: Format::LibSvm, ..LayoutOptions::default() };
    let indices = Column { of: vec!["indices".to_owned()], ..column("b", hashed(9, None)) };
    let of_svm = layout(options, vec![column("indices", ColumnKind::Ignored), indices]).unwrap();
    assert_eq!(bags(&path, &of_svm).unwrap(), (expected, 0));
}

#[test]
fn wrong_bins_are_refused_by_the_name_of_their_column() {
    let refused = |columns: Vec<Column>, why: &str| {
        let error = layout(LayoutOptions::default(), columns).unwrap_err();
        assert!(error.contains("column h: ") && error.contains(why), "{error}");
    };
    let own = || vec![column("a", ColumnKind::Ignored), column("b", ColumnKind::Ignored)];
    let with = |of: &[&str], kind| [own(), vec![made_of("h", of, kind)]].concat();
    let no_list = ColumnKind::Id(IdRule { bins: Some(BINS), ..Default::default() });
    refused(with(&["a"], no_list), "give it the type ids");
    let ColumnKind::Id(rule) = hashed(9, None) else { panic!() };
    let zero = ColumnKind::Id(IdRule { bins: Some(0), ..rule.clone() });
    refused(with(&["a"], zero), "0 bins: give 1 to");
    let plain = ColumnKind::Id(IdRule { bins: None, ..rule });
    refused(with(&["a", "b"], plain), "need a single column, unless a list has bins");
    refused(with(&["a", "b"], hashed(1, None)), "2 columns, but takes 1 ids");
    refused(with(&["a", "b", "a"], hashed(9, None)), "is made of a twice");
    refused(with(&["a", "b"], hashed(9, Some(":"))), "no values: remove them");
}
