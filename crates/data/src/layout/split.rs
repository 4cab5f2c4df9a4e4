//! Which examples are evaluated on and never trained on, where a column says so.

use stepwell_base::Namespace;

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
    /// Hashes below this.
    Hashes(Namespace, u64),
}

impl Split {
    /// # Errors
    /// What is wrong with the rule, and the mend.
    pub(super) fn new(rule: &SplitRule, source: usize) -> Result<Self, String> {
        let by = match &rule.by {
            SplitBy::Values(values) => {
                By::Values(values.iter().map(|value| value.clone().into_bytes()).collect())
            }
            SplitBy::Share(share) if (0.0..1.0).contains(share) => {
                let namespace = Namespace::new(NAMESPACE).map_err(|error| error.to_string())?;
                // Exact: a share is a multiple of 2^-53 of it, and below 1.
                By::Hashes(namespace, (share * 2f64.powi(64)) as u64)
            }
            SplitBy::Share(share) => return Err(format!("a share of {share}: give 0 to 1")),
        };
        Ok(Self { source, by, part: None })
    }

    /// Whether a record with this text is wanted.
    pub(crate) fn wants(&self, text: &[u8]) -> bool {
        let Some(part) = self.part else { return true };
        let evaluates = match &self.by {
            By::Values(values) => values.iter().any(|value| value == text),
            By::Hashes(namespace, below) => namespace.key_of(text).0 < *below,
        };
        evaluates == (part == Part::Evaluate)
    }
}
