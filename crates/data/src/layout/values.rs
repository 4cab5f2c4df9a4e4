//! Lists of ids with values. A row is multiplied by its id's value before pooling.

use memchr::memchr_iter;

use super::options::may_separate;
use crate::number::number;
use crate::sign_hash::OneSignHash;

/// Location of the values of a list's ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuesRule {
    /// In the items, after the id and this mark: `red:0.5`.
    Within(char),
    /// In this data column, a list of the same length.
    Column(String),
}

impl ValuesRule {
    /// Parses a rule: a mark if `text` is one character that may separate fields, else a column.
    pub fn of(text: &str) -> Self {
        match text.as_bytes() {
            [mark] if mark.is_ascii() && may_separate(*mark) => Self::Within(char::from(*mark)),
            _ => Self::Column(text.to_owned()),
        }
    }
}

/// Compiled [`ValuesRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// With each id in formats that store them, such as LibSVM; 1 in other formats.
    OfFormat,
    /// In the items, after this mark.
    Within(u8),
    /// In this source.
    Beside(usize),
}

/// How to split a list of ids.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) source: usize,
    pub(crate) separator: Vec<u8>,
    pub(crate) most: usize,
    pub(crate) values: Values,
    /// How its ids are hashed into fewer, if they are.
    pub(crate) hash: Option<OneSignHash>,
}

/// Parses a value: a finite number.
#[inline]
pub(crate) fn value_of(text: &[u8]) -> Option<f32> {
    // Turns -0 into 0.
    number(text).map(|number| number + 0.0)
}

/// End of the id in `item`, and the value after its only `mark`.
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
