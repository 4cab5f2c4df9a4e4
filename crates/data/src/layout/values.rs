//! Lists of ids with values. A row is multiplied by its id's value before it is pooled.

use memchr::memchr_iter;

use super::{Format, Layout, Made, may_separate};
use crate::number::number;

/// Where the values of a list's ids stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuesRule {
    /// In the items, behind the id and this mark: `red:0.5`.
    Within(char),
    /// In this column of the data, a list of the same length.
    Column(String),
}

impl ValuesRule {
    /// The rule that `text` names: a mark where it is one character that may stand between fields,
    /// else a column.
    pub fn of(text: &str) -> Self {
        match text.as_bytes() {
            [mark] if mark.is_ascii() && may_separate(*mark) => Self::Within(char::from(*mark)),
            _ => Self::Column(text.to_owned()),
        }
    }
}

/// Where values stand, once columns are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// With each id in formats that have them, such as LibSVM; all are 1 in others.
    OfFormat,
    /// In the items, behind this mark.
    Within(u8),
    /// In the items of this source.
    Beside(usize),
}

/// How to split a list of ids.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) source: usize,
    pub(crate) separator: Vec<u8>,
    pub(crate) most: usize,
    pub(crate) values: Values,
}

impl Layout {
    pub(super) fn all_lists(&self) -> impl Iterator<Item = &List> {
        self.ids.iter().filter_map(|ids| match &ids.made {
            Made::List(list) => Some(list),
            _ => None,
        })
    }

    /// Whether ids of text read this way may have values other than 1.
    pub fn may_have_values(&self) -> bool {
        let in_format = matches!(self.options.format, Format::Auto | Format::LibSvm);
        self.all_lists().any(|list| list.values != Values::OfFormat || in_format)
    }

    /// Whether values stand in the items of the list, behind a mark.
    pub(crate) fn has_marks(&self) -> bool {
        self.all_lists().any(|list| matches!(list.values, Values::Within(_)))
    }

    /// Whether the items of a source belong by position to those of another: ids and their values.
    pub(crate) fn is_beside(&self, source: usize) -> bool {
        self.all_lists().any(|list| match list.values {
            Values::Beside(values) => values == source || list.source == source,
            Values::OfFormat | Values::Within(_) => false,
        })
    }

    /// The mark before the value in an item of a source.
    pub(crate) fn mark_of(&self, source: usize) -> char {
        let marks = self.all_lists().filter(|list| list.source == source);
        let mut marks = marks.filter_map(|list| match list.values {
            Values::Within(mark) => Some(char::from(mark)),
            Values::OfFormat | Values::Beside(_) => None,
        });
        marks.next().unwrap_or(':')
    }
}

/// The value that `text` spells, if it is a finite number.
#[inline]
pub(crate) fn value_of(text: &[u8]) -> Option<f32> {
    // -0 becomes 0.
    number(text).map(|number| number + 0.0)
}

/// Where the id of `item` ends, and the value behind its only `mark`.
#[inline]
pub(crate) fn split_item(item: &[u8], mark: u8) -> Option<(usize, f32)> {
    let mut marks = memchr_iter(mark, item);
    let (Some(at), None) = (marks.next(), marks.next()) else { return None };
    value_of(&item[at + 1..]).map(|value| (at, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_one_character_that_is_part_of_no_id() {
        for mark in [":", "=", ",", "|", " "] {
            assert_eq!(ValuesRule::of(mark), ValuesRule::Within(mark.chars().next().unwrap()));
        }
        for name in ["a", "worth", "::", "é", "7", ".", "-"] {
            assert_eq!(ValuesRule::of(name), ValuesRule::Column(name.to_owned()));
        }
    }

    #[test]
    fn an_item_has_one_mark_and_one_finite_number() {
        for (item, expected) in [
            ("red:0.5", Some((3, 0.5))),
            ("7:-2e1", Some((1, -20.0))),
            (":1", Some((0, 1.0))),
            ("a:-0", Some((1, 0.0))),
            ("red", None),
            ("red:", None),
            ("a:b:2", None),
            ("a:nan", None),
            ("a:inf", None),
            ("a:1e39", None),
            ("a: 1", None),
        ] {
            let found = split_item(item.as_bytes(), b':');
            assert_eq!(
                found.map(|(end, value)| (end, value.to_bits())),
                expected.map(|(end, value): (usize, f32)| (end, value.to_bits())),
                "{item}"
            );
        }
    }
}
