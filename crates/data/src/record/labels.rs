//! Parses labels and weights of examples.
//!
//! A label made from two counts is the first divided by the second, and the second is the example's
//! weight: a line with 2 clicks in 5 impressions has label 0.4 and weight 5. A line without
//! impressions has label 0 and weight 0.

use super::fault::{Fault, Why};
use super::fields::{Found, Record, Value};
use crate::layout::{Label, LabelSays, Layout};
use crate::number::{number, share_of_number};

/// Label of a record.
#[inline]
pub(super) fn label_of(label: &Label, record: Record<'_>) -> Result<f32, Fault> {
    if let LabelSays::Clicks { of: impressions } = label.says {
        return share_of([label.source, impressions], record);
    }
    let value = value_of(label.source, record, Why::MissingLabel)?;
    label_of_text(&label.says, value.bytes())
        .ok_or_else(|| Fault::value(label.source, why_no_label(&label.says)))
}

/// Weight of a record.
pub(super) fn weight_of(layout: &Layout, record: Record<'_>) -> Result<f32, Fault> {
    let weight = match layout.weight {
        None => 1.0,
        Some(source) => {
            let value = value_of(source, record, Why::MissingWeight)?;
            let number = value.short().map(|short| short as f32);
            let weight = number.or_else(|| weight_of_text(value.bytes()));
            weight.ok_or_else(|| Fault::value(source, Why::NoWeight))?
        }
    };
    let Some(source) = layout.counts() else { return Ok(weight) };
    let count = count_of(source, record)?;
    weight_of_count(count, weight).ok_or_else(|| Fault::value(source, Why::TooHeavy))
}

fn share_of(sources: [usize; 2], record: Record<'_>) -> Result<f32, Fault> {
    let (clicks, impressions) = (count_of(sources[0], record)?, count_of(sources[1], record)?);
    label_of_counts([clicks, impressions])
        .ok_or_else(|| Fault::value(sources[0], Why::TooManyClicks))
}

fn count_of(source: usize, record: Record<'_>) -> Result<f64, Fault> {
    let value = value_of(source, record, Why::MissingCount)?;
    count_of_text(value.bytes()).ok_or_else(|| Fault::value(source, Why::NoCount))
}

#[inline]
fn value_of(source: usize, record: Record<'_>, missing: Why) -> Result<Value<'_>, Fault> {
    match record.found(source) {
        Found::One(value) => Ok(value),
        Found::Missing => Err(Fault::value(source, missing)),
        Found::List => Err(Fault::value(source, Why::List)),
    }
}

/// Reason that a text isn't such a label.
pub(crate) fn why_no_label(says: &LabelSays) -> Why {
    if *says == LabelSays::Number { Why::NoNumberLabel } else { Why::NoLabel }
}

/// Parses a label.
#[inline]
pub(crate) fn label_of_text(says: &LabelSays, text: &[u8]) -> Option<f32> {
    match says {
        LabelSays::Number => number(text).map(|number| number + 0.0),
        LabelSays::Positive(texts) => {
            Some(f32::from(u8::from(texts.iter().any(|known| known == text))))
        }
        LabelSays::Share => match text {
            b"0" => Some(0.0),
            b"1" => Some(1.0),
            other => share_of_text(other),
        },
        // Counts need a second column.
        LabelSays::Clicks { .. } => None,
    }
}

/// Parses a number from 0 to 1, or a word for either.
#[cold]
fn share_of_text(text: &[u8]) -> Option<f32> {
    match text {
        b"true" | b"True" | b"TRUE" => Some(1.0),
        b"false" | b"False" | b"FALSE" => Some(0.0),
        text => share_of_number(text),
    }
}

/// Parses a number that is at least 0.
fn weight_of_text(text: &[u8]) -> Option<f32> {
    number(text).filter(|number| *number >= 0.0).map(|number| number + 0.0)
}

/// Parses a count as `f64`, so that even one click too many is noticed.
pub(crate) fn count_of_text(text: &[u8]) -> Option<f64> {
    weight_of_text(text)?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Clicks divided by impressions; `None` if there are more clicks than impressions.
pub(crate) fn label_of_counts([clicks, impressions]: [f64; 2]) -> Option<f32> {
    let share = if impressions > 0.0 { clicks / impressions } else { 0.0 };
    (clicks <= impressions).then_some(share as f32)
}

/// Weight of an example that represents `count` examples of this `weight`; `None` if it overflows.
pub(crate) fn weight_of_count(count: f64, weight: f32) -> Option<f32> {
    let weight = (count * f64::from(weight)) as f32;
    weight.is_finite().then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_numbers_from_0_to_1() {
        for (text, label) in [
            ("0", 0.0),
            ("-0", 0.0),
            ("1.0", 1.0),
            ("true", 1.0),
            ("0.4", 0.4),
            ("25e-2", 0.25),
            ("1e-40", 1e-40),
        ] {
            let found = label_of_text(&LabelSays::Share, text.as_bytes());
            assert_eq!(found.map(f32::to_bits), Some(f32::to_bits(label)), "{text}");
        }
        for text in ["-0.1", "1.001", "2", "nan", "inf", "", "yes", "0.5 ", "1/2"] {
            assert_eq!(label_of_text(&LabelSays::Share, text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn counts_are_labels_and_weights() {
        let of = |clicks: &str, impressions: &str| {
            let counts = [clicks, impressions].map(|text| count_of_text(text.as_bytes()));
            let [Some(clicks), Some(impressions)] = counts else { return None };
            let weight = weight_of_count(impressions, 1.0)?;
            Some((label_of_counts([clicks, impressions])?, weight))
        };
        assert_eq!(of("2", "5"), Some((0.4, 5.0)));
        assert_eq!(of("0", "0"), Some((0.0, 0.0)));
        assert_eq!(of("0.5", "2.5"), Some((0.2, 2.5)));
        assert_eq!(of("3", "2"), None);
        assert_eq!(of("1", "0"), None);
        assert_eq!(of("-1", "2"), None);
        assert_eq!(of("1", "nan"), None);
        // One click too many, which `f32` can't distinguish.
        assert_eq!(of("16777217", "16777216"), None);
        assert_eq!(weight_of_count(1e30, 1e30), None);
    }
}
