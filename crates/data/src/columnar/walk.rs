//! A column, value by value.

use super::values::{Column, OfRows, Spelled, Value};

/// What a row has in a column.
pub(super) enum Found<'a> {
    Missing,
    One(Value<'a>),
    List(std::ops::Range<usize>),
}

/// Walks down a column.
pub(super) struct Walk<'a> {
    column: &'a Column,
    row: usize,
    value: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(column: &'a Column) -> Self {
        Self { column, row: 0, value: 0 }
    }

    pub(super) fn next(&mut self) -> Found<'a> {
        let row = self.row;
        self.row += 1;
        let there = match &self.column.of_rows {
            OfRows::Each => true,
            OfRows::Some(there) => there[row],
            OfRows::Lists(ends) => {
                let start = std::mem::replace(&mut self.value, ends[row] as usize);
                return Found::List(start..self.value);
            }
        };
        if !there {
            return Found::Missing;
        }
        self.value += 1;
        Found::One(self.column.values.get(self.value - 1))
    }
}

impl Found<'_> {
    /// The same, where what is spelled as one of `missing` is missing.
    pub(super) fn known(self, missing: &[String]) -> Self {
        match self {
            Found::One(Value::Text([])) => Found::Missing,
            Found::One(Value::Float(number)) if number.is_nan() => Found::Missing,
            Found::One(Value::Double(number)) if number.is_nan() => Found::Missing,
            // A number, too: -1 may stand for a missing one in every format.
            Found::One(value) if !missing.is_empty() => {
                let mut room = Spelled::default();
                match value.is_any_of(missing, &mut room) {
                    true => Found::Missing,
                    false => Found::One(value),
                }
            }
            other => other,
        }
    }
}
