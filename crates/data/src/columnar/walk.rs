//! Iterates over a column.

use crate::layout::Layout;
use crate::rows::{Column, OfRows, Spelled, Value};

/// Contents of a column in one row.
pub(super) enum Found<'a> {
    Missing,
    One(Value<'a>),
    List(std::ops::Range<usize>),
}

/// Iterator over the rows of a column.
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
    /// Applies the rules of `layout`: trims text, and turns values that spell a missing one into
    /// [`Found::Missing`].
    pub(super) fn known(self, layout: &Layout) -> Self {
        match self {
            Found::One(Value::Text(text)) => {
                Found::One(Value::Text(layout.trimmed(text))).known_item(layout)
            }
            other => other.known_item(layout),
        }
    }

    /// Like [`Self::known`], but for an item of a list, which isn't trimmed.
    pub(super) fn known_item(self, layout: &Layout) -> Self {
        match self {
            Found::One(Value::Text([])) => Found::Missing,
            Found::One(Value::Float(number)) if number.is_nan() => Found::Missing,
            Found::One(Value::Double(number)) if number.is_nan() => Found::Missing,
            // Numbers too: -1 may mean missing in any format.
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
