//! Which examples are evaluated on and never trained on, where a column says so.

use stepwell_base::Namespace;

use crate::moment::Moment;
use crate::number::number;

/// Whose hashes decide which values are evaluated on.
const NAMESPACE: &str = "stepwell split";

/// A column that says which examples are evaluated on.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitRule {
    /// Its name.
    pub column: String,
    /// What of its values are evaluated on.
    pub by: SplitBy,
}

/// What of the values of a column are evaluated on.
#[derive(Clone, Debug, PartialEq)]
pub enum SplitBy {
    /// These.
    Values(Vec<String>),
    /// This date, time or number, and what is later or larger.
    From(String),
    /// This share of all values, by their hash: all examples of a value are of one part.
    Share(f64),
}

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What is trained on.
    Train,
    /// What is evaluated on.
    Evaluate,
}

/// A split, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    pub(crate) source: usize,
    by: By,
    /// What is wanted; none for all.
    pub(super) part: Option<Part>,
}

#[derive(Clone, Debug)]
enum By {
    Values(Vec<Vec<u8>>),
    From(Place),
    /// Hashes below this.
    Hashes(Namespace, u64),
}

/// A value that has its place among others of its kind.
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
        // Of 64 bits, so that days such as 20261125 differ.
        number(text)?;
        std::str::from_utf8(text).ok()?.parse().ok().map(Self::Number)
    }

    /// Whether a value is at this place or behind it; none where it is of another kind.
    fn is_reached_by(&self, text: &[u8]) -> Option<bool> {
        let value = Self::of(text)?;
        let alike = std::mem::discriminant(self) == std::mem::discriminant(&value);
        alike.then_some(value >= *self)
    }
}

impl Split {
    /// # Errors
    /// What is wrong with the rule, and the mend.
    pub(super) fn new(rule: &SplitRule, source: usize) -> Result<Self, String> {
        let by = match &rule.by {
            SplitBy::Values(values) => {
                By::Values(values.iter().map(|value| value.clone().into_bytes()).collect())
            }
            SplitBy::From(text) => By::From(Place::of(text.as_bytes()).ok_or_else(|| {
                format!(
                    "data.eval_from is {text:?}, which is no date, time or number: give one, such \
                     as 2026-11-25"
                )
            })?),
            SplitBy::Share(share) if (0.0..1.0).contains(share) => {
                let namespace = Namespace::new(NAMESPACE).map_err(|error| error.to_string())?;
                // Exact: a share is a multiple of 2^-53 of it, and below 1.
                By::Hashes(namespace, (share * 2f64.powi(64)) as u64)
            }
            SplitBy::Share(share) => return Err(format!("a share of {share}: give 0 to 1")),
        };
        Ok(Self { source, by, part: None })
    }

    /// Whether a record with this text is wanted; none where the text has no place beside the one
    /// that it is compared with.
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
