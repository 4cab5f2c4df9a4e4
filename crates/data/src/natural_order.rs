//! Natural order of paths.

use std::cmp::Ordering;
use std::ffi::OsStr;

/// Orders two paths naturally: by directory, runs of digits as numbers, all else by byte. Leading
/// zeros break ties, again by byte.
pub(crate) fn by_number(one: &OsStr, other: &OsStr) -> Ordering {
    let (one, other) = (one.as_encoded_bytes(), other.as_encoded_bytes());
    let (mut left, mut right) = (one, other);
    loop {
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (of_left, of_right) = (digits(left), digits(right));
        let order = if of_left > 0 && of_right > 0 {
            let (number, rest) = left.split_at(of_left);
            let (against, rest_right) = right.split_at(of_right);
            (left, right) = (rest, rest_right);
            number_order(number, against)
        } else {
            let (Some((first, rest)), Some((against, rest_right))) =
                (left.split_first(), right.split_first())
            else {
                return left.len().cmp(&right.len()).then_with(|| one.cmp(other));
            };
            (left, right) = (rest, rest_right);
            // The end of a directory name comes before any other byte.
            let rank = |byte: u8| if byte == b'/' { 0 } else { u16::from(byte) + 1 };
            rank(*first).cmp(&rank(*against))
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Compares two decimal numbers of any length.
fn number_order(one: &[u8], other: &[u8]) -> Ordering {
    let significant = |digits: &'_ [u8]| digits.iter().take_while(|digit| **digit == b'0').count();
    let (one, other) = (&one[significant(one)..], &other[significant(other)..]);
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let sorted = [
            "a",
            "a/10",
            "a/10/b",
            "a-1/2",
            "d0",
            "d00",
            "d001",
            "d01",
            "d1",
            "d1.csv",
            "d2",
            "d2.9.csv",
            "d2.10.csv",
            "d2x",
            "d09",
            "d10",
            "d99999999999999999999998",
            "d99999999999999999999999",
            "d100000000000000000000000",
            "day",
            "dt=2026-9-30/1",
            "dt=2026-11-02/0",
            "tägliche-9",
            "tägliche-10",
        ];
        let order = |one: &str, other: &str| by_number(OsStr::new(one), OsStr::new(other));
        for (at, one) in sorted.iter().enumerate() {
            for (before, other) in sorted.iter().enumerate() {
                let equal = at.cmp(&before);
                assert_eq!(order(one, other), equal, "{one} and {other}");
            }
        }
    }
}
