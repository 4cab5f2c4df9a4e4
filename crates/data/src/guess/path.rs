//! Guesses the kind of columns in the path of a file.

use super::column_kind::kind_of;
use super::guessed::GuessedColumn;
use super::sample::Sample;
use super::value_statistics::see;
use crate::head::Kind;
use crate::path_columns::PathColumn;

/// A column in the path of a file.
pub(super) fn guessed(column: &PathColumn) -> GuessedColumn {
    let value = String::from_utf8_lossy(&column.value).into_owned();
    let note = format!("in the path of the file: {value}");
    let sample = Sample {
        kind: Kind::JsonLines,
        header: false,
        names: vec![column.name.clone()],
        lists: vec![false],
        longest: vec![1],
        values: vec![vec![value]],
        records: 1,
        records_least: 1,
        misfits: None,
    };
    let seen = see(&sample.values[0], &[], 1);
    let kind = kind_of(&column.name, &seen, &sample, 0);
    GuessedColumn { name: column.name.clone(), kind, note }
}
