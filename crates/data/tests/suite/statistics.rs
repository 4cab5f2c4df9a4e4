//! Statistics of columns come from the first training records.

use std::sync::Arc;

use stepwell_base::stop::StopRequest;
use stepwell_data::{
    Column, ColumnKind, DataError, DenseRule, Files, IdRule, LabelRule, Layout, LayoutOptions,
    Part, SplitBy, SplitRule, Statistics, Transform, statistics,
};

use crate::common::*;
use crate::rows::{column, made_of};

/// A label, a weight that is also a number, and a number to standardize.
fn columns() -> Vec<Column> {
    let standard = Transform::Standardise { mean: 0.0, deviation: 1.0 };
    let standard = DenseRule { transform: standard, ..Default::default() };
    vec![
        column("click", ColumnKind::Label(LabelRule::default())),
        column("part", ColumnKind::Ignored),
        column("worth", ColumnKind::Weight),
        made_of("worth_as_number", &["worth"], ColumnKind::Dense(DenseRule::default())),
        column("x", ColumnKind::Dense(standard)),
        column("user", ColumnKind::Id(IdRule::default())),
    ]
}

fn found(text: &str, layout: Layout, tail: f64) -> Result<Statistics, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "rows.csv", text);
    let files = Files { paths: vec![path], layout: Some(Arc::new(layout)) };
    Ok(statistics(&files, &["x".to_owned()], tail, &StopRequest::new())?[0])
}

fn whole() -> Layout {
    Layout::new(LayoutOptions::default(), columns()).unwrap()
}

const HEADER: &str = "click,part,worth,x,user\n";

/// Among ten records, the third and the last three are much larger.
fn rows(numbers: std::ops::Range<usize>) -> String {
    let row = |n: usize| match n == 2 || n > 6 {
        true => format!("{},late,1,1e6,u\n", n % 2),
        false => format!("{},early,1,{},u\n", n % 2, [1, 3][n % 2]),
    };
    numbers.map(row).collect()
}

#[test]
fn what_is_evaluated_on_does_not_count() {
    let text = format!("{HEADER}{}", rows(0..10));
    let mean = |tail| (found(&text, whole(), tail).unwrap().mean * 1e6).round() / 1e6;
    assert_eq!((mean(0.0), mean(0.3)), (400_001.2, 142_858.857_143));
    let by = SplitBy::Values(vec!["late".to_owned()]);
    let split = Some(SplitRule { column: "part".to_owned(), by });
    let split = Layout::new(LayoutOptions { split, ..Default::default() }, columns()).unwrap();
    let early = found(&text, split.of_part(Part::Train), 0.0).unwrap();
    assert_eq!((early.mean, early.deviation), (2.0, 1.0));
    // Malformed records count as lines before the tail.
    let text = format!("{HEADER}{}1,bad\n1,bad\n{}", rows(0..2), rows(7..9));
    let mean = |tail| found(&text, whole(), tail).unwrap().mean.round();
    assert_eq!((mean(0.2), mean(0.3)), (333_335.0, 2.0));
}

#[test]
fn no_more_than_the_first_records_count() {
    let first = "1,early,1,1,u\n0,early,1,3,u\n".repeat(25_000);
    let text = format!("{HEADER}{first}{}", rows(7..10));
    for tail in [0.0, 0.00001, 0.1, 0.5] {
        let found = found(&text, whole(), tail).unwrap();
        // One of the two numbers may occur once more than the other.
        assert!((found.mean - 2.0).abs() < 1e-4 && (found.deviation - 1.0).abs() < 1e-4, "{tail}");
    }
    // Half of the records are in the tail.
    let text = format!("{HEADER}{}{}", rows(0..2).repeat(1000), rows(7..8).repeat(2000));
    assert!((found(&text, whole(), 0.5).unwrap().mean - 2.0).abs() < 1e-9);
}

#[test]
fn a_stream_has_none() {
    let files = Files { paths: vec!["-".into()], layout: Some(Arc::new(whole())) };
    let told = statistics(&files, &["x".to_owned()], 0.0, &StopRequest::new());
    let told = told.unwrap_err().to_string();
    assert!(told.contains("x would be standardised by statistics"), "{told}");
    assert!(told.contains("give mean and deviation"), "{told}");
}

#[test]
fn data_without_labels_keeps_a_weight_that_is_a_number() {
    let layout = whole().without_label().unwrap();
    let names: Vec<_> = layout.dense_names().into_iter().flatten().collect();
    assert_eq!((names, layout.schema().labels.weighted), (vec!["worth_as_number", "x"], false));
    let plain: Vec<Column> = columns().into_iter().filter(|of| of.of.is_empty()).collect();
    let layout = Layout::new(LayoutOptions::default(), plain).unwrap().without_label().unwrap();
    assert!(layout.columns().iter().all(|column| column.name != "worth"));
}
