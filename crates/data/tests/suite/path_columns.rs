//! Columns in the path of a file give the same examples as columns in the file, in every format.

use std::path::Path;
use std::sync::Arc;

use parquet::file::properties::WriterProperties;
use stepwell_data::{
    Column, ColumnKind, DenseRule, Format, Guessed, IdRule, LabelRule, Layout, LayoutOptions,
    Texts, guess,
};

use crate::common::*;
use crate::rows::*;
use crate::typed::{self, Values, plain};

/// Bits of the label and of numbers, and keys by column.
type Example = (u32, Vec<u32>, Vec<Vec<u64>>);

/// A label, an id, a number and an id in the path, and a cross of both kinds.
fn columns() -> Vec<Column> {
    let id = |name: &str| column(name, ColumnKind::Id(IdRule::default()));
    vec![
        column("y", ColumnKind::Label(LabelRule::default())),
        id("same"),
        column("hour", ColumnKind::Dense(DenseRule::default())),
        id("city"),
        made_of("both", &["same", "city"], ColumnKind::Id(IdRule::default())),
    ]
}

fn layout(options: LayoutOptions) -> Arc<Layout> {
    Arc::new(Layout::new(options, columns()).unwrap())
}

fn folder(root: &Path, name: &str) -> std::path::PathBuf {
    let folder = root.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn every_format_has_the_columns_of_its_path() {
    let root = tempfile::tempdir().unwrap();
    let auto = layout(LayoutOptions::default());
    let examples = |path: &Path, layout: &Arc<Layout>| {
        let (rows, skipped) = read(path, layout, &options_of(layout, 1 << 16)).unwrap();
        assert_eq!(skipped, 0);
        rows.into_iter().map(|(_, label, dense, bags)| (label, dense, bags)).collect::<Vec<_>>()
    };
    for (path, hour, city) in [
        ("hour=03/city=Oslo", "03", "Oslo"),
        ("city=New%20York/x/hour=-1.5", "-1.5", "New York"),
        ("hour=__HIVE_DEFAULT_PARTITION__/city=", "", ""),
        ("hour=7/city=?/other=3", "7", ""),
    ] {
        let folder = folder(root.path(), path);
        let flat = format!("y,same,hour,city\n1,4,{hour},{city}\n0,5,{hour},{city}\n");
        let flat = examples(&write(root.path(), "flat.csv", flat), &auto);
        let missing = LayoutOptions { missing: vec!["?".to_owned()], ..Default::default() };
        let with_missing = layout(missing.clone());
        let bare = LayoutOptions { header: Some(false), format: Format::Csv, ..missing };
        let bare = layout(bare);
        typed::parquet(
            &folder.join("a.parquet"),
            plain,
            &Values::Small(vec![4, 5]),
            WriterProperties::builder(),
        );
        let json = "{\"y\":1,\"same\":4}\n{\"same\":5,\"y\":0}\n";
        for (path, layout) in [
            (write(&folder, "a.csv", "y,same\n1,4\n0,5\n"), &with_missing),
            (write(&folder, "other.csv", "z,Same,y\n3,4,1\n3,5,0\n"), &with_missing),
            (write(&folder, "bare.csv", "1,4\n0,5\n"), &bare),
            (write(&folder, "a.tsv", "y\tsame\n1\t4\n0\t5\n"), &with_missing),
            (write(&folder, "a.jsonl", json), &with_missing),
            (folder.join("a.parquet"), &with_missing),
        ] {
            let mut found = examples(&path, layout);
            // This file has other labels, and a third record.
            let is_parquet = path.extension().is_some_and(|of| of == "parquet");
            found.truncate(2);
            let labels = |rows: &[Example]| -> Vec<_> {
                rows.iter().map(|row| (if is_parquet { 0 } else { row.0 }, row.2.clone())).collect()
            };
            assert_eq!(labels(&found), labels(&flat), "{}", path.display());
            let dense =
                |rows: &[Example]| -> Vec<_> { rows.iter().map(|row| row.1.clone()).collect() };
            assert_eq!(dense(&found), dense(&flat), "{}", path.display());
        }
        let svm = write(&folder, "a.svm", "1 same:4\n0 same:5\n");
        let label = column("label", ColumnKind::Label(LabelRule::default()));
        let mut columns = columns();
        columns[0] = label;
        let options = with_missing.options().clone();
        let of_svm = Arc::new(Layout::new(options, columns).unwrap());
        assert_eq!(examples(&svm, &of_svm), flat);
    }
}

#[test]
fn texts_beside_scores_may_be_those_of_folders() {
    let root = tempfile::tempdir().unwrap();
    let folder = folder(root.path(), "hour=3/city=Oslo");
    let layout = layout(LayoutOptions::default());
    for text in ["y,same\n1,4\n0,5\n", "{\"y\":1,\"same\":4}\n{\"y\":0,\"same\":5}\n"] {
        let files = stepwell_data::Files::from(vec![write(&folder, "a", text)]);
        for (name, texts) in [("hour", ["3", "3"]), ("same", ["4", "5"])] {
            let mut reader = Texts::open(&files, &layout, &[name.to_owned()]).unwrap();
            let mut found = Vec::new();
            while reader.next(&mut found).unwrap() {}
            assert_eq!(found, texts.map(|text| text.as_bytes().to_vec()), "{name} of {text}");
        }
    }
}

#[test]
fn a_guess_names_the_columns_of_the_path() {
    let root = tempfile::tempdir().unwrap();
    let folder = folder(root.path(), "dt=2026-11-26/hour=03/same=x");
    let text = "y,same,user\n1,4,u1\n0,5,u2\n";
    typed::parquet(
        &folder.join("a.parquet"),
        plain,
        &Values::Small(vec![4, 5]),
        WriterProperties::builder(),
    );
    for path in [write(&folder, "a.csv", text), folder.join("a.parquet")] {
        let guessed = guess(&path).unwrap();
        let of = |name: &str| guessed.columns.iter().find(|column| column.name == name).unwrap();
        assert_eq!(of("dt").kind, Guessed::Ignored);
        assert_eq!(
            (&of("hour").kind, of("hour").note.as_str()),
            (&Guessed::Id, "in the path of the file: 03")
        );
        assert_eq!(of("same").kind, Guessed::Ignored);
        assert!(of("same").note.contains("in the file and in its path"), "{}", of("same").note);
    }
}
