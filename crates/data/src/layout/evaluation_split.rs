//! Splits data by a column into examples for training and for evaluation.

use stepwell_base::Namespace;

use crate::moment::Moment;
use crate::number::number;

/// Namespace of the hashes that split values by share.
const NAMESPACE: &str = "stepwell split";

/// A column that selects the examples for evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitRule {
    /// Name of the column.
    pub column: String,
    /// Values for evaluation.
    pub by: SplitBy,
}

/// How to select values for evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum SplitBy {
    /// These values.
    Values(Vec<String>),
    /// This date, time or number, and later or larger ones.
    From(String),
    /// This share of all values, by hash: all examples of a value are in the same part.
    Share(f64),
}

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Examples for training.
    Train,
    /// Examples for evaluation.
    Evaluate,
}

/// A compiled split.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    pub(crate) source: usize,
    by: By,
    /// The part to read; `None` for all examples.
    pub(super) part: Option<Part>,
}

#[derive(Clone, Debug)]
enum By {
    Values(Vec<Vec<u8>>),
    From(Place),
    /// Hashes below this number.
    Hashes(Namespace, u64),
}

/// A value that can be compared with others of its kind.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Place {
    Number(f64),
    Moment(Moment),
}

impl Place {
    fn of(text: &[u8]) -> Option<Self> {
        if let Some(moment) = Moment::of_text(text) {
            return Some(Self::Moment(moment));
        }
        // As `f64`, so that days such as 20261125 differ.
        number(text)?;
        std::str::from_utf8(text).ok()?.parse().ok().map(Self::Number)
    }

    /// Whether a value is at or after this place; `None` if it is of another kind.
    fn is_reached_by(&self, text: &[u8]) -> Option<bool> {
        let value = Self::of(text)?;
        let alike = std::mem::discriminant(self) == std::mem::discriminant(&value);
        alike.then_some(value >= *self)
    }
}

impl Split {
    /// # Errors
    /// What is wrong with the rule, and a fix.
    pub(super) fn new(rule: &SplitRule, source: usize) -> Result<Self, String> {
        let by = match &rule.by {
            SplitBy::Values(values) => {
                By::Values(values.iter().map(|value| value.clone().into_bytes()).collect())
            }
            SplitBy::From(text) => By::From(Place::of(text.as_bytes()).ok_or_else(|| {
                format!(
                    "data.eval_from is {text:?}, which is not a date, time or number: give one, \
                     such as 2026-11-25"
                )
            })?),
            SplitBy::Share(share) if (0.0..1.0).contains(share) => {
                let namespace = Namespace::new(NAMESPACE).map_err(|error| error.to_string())?;
                // Scaling by a power of two is exact, and the product is below 2^64.
                By::Hashes(namespace, (share * 2f64.powi(64)) as u64)
            }
            SplitBy::Share(share) => return Err(format!("a share of {share}: give 0 to 1")),
        };
        Ok(Self { source, by, part: None })
    }

    /// Whether to read a record with this value; `None` if the value can't be compared.
    pub(crate) fn wants(&self, text: &[u8]) -> Option<bool> {
        let Some(part) = self.part else { return Some(true) };
        let evaluates = match &self.by {
            By::Values(values) => values.iter().any(|value| value == text),
            By::From(place) => place.is_reached_by(text)?,
            By::Hashes(namespace, below) => namespace.key_of(text).0 < *below,
        };
        Some(evaluates == (part == Part::Evaluate))
    }
}
