//! A column, value by value.

use super::values::{Column, OfRows, Spelled, Value};
use crate::layout::Layout;

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
    /// The same as `layout` has it: without the spaces around a text where they are no part of it,
    /// and missing where it is spelled as what is.
    pub(super) fn known(self, layout: &Layout) -> Self {
        match self {
            Found::One(Value::Text(text)) => {
                Found::One(Value::Text(layout.trimmed(text))).known_item(layout)
            }
            other => other.known_item(layout),
        }
    }

    /// The same of an item of a list, which is as it stands.
    pub(super) fn known_item(self, layout: &Layout) -> Self {
        match self {
            Found::One(Value::Text([])) => Found::Missing,
            Found::One(Value::Float(number)) if number.is_nan() => Found::Missing,
            Found::One(Value::Double(number)) if number.is_nan() => Found::Missing,
            // A number, too: -1 may stand for a missing one in every format.
            Found::One(value) if !layout.options().missing.is_empty() => {
                let mut room = Spelled::default();
                match value.is_any_of(&layout.options().missing, &mut room) {
                    true => Found::Missing,
                    false => Found::One(value),
                }
            }
            other => other,
        }
    }
}
