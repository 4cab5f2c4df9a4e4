//! Guessed format and columns of a file.

use crate::layout::Format;

/// Probable contents of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// Format, if the first bytes don't show it.
    pub format: Format,
    /// Whether the first line of delimited text is a header.
    pub header: Option<bool>,
    /// Whether to trim spaces around fields.
    pub trim: bool,
    /// Texts that mean a missing value.
    pub missing: Vec<String>,
    /// Columns in the order of the file.
    pub columns: Vec<GuessedColumn>,
    /// Records examined.
    pub records: usize,
    /// Approximate lower bound on the records of the whole file.
    pub records_least: u64,
    /// Lines that were not examined.
    pub misfits: Option<Misfits>,
}

/// Lines with more or fewer columns than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfits {
    /// Number of such lines.
    pub lines: u64,
    /// Number of the first of them, from 1.
    pub first: u64,
}

/// A column and its probable kind.
#[derive(Clone, Debug, PartialEq)]
pub struct GuessedColumn {
    /// Name of the column.
    pub name: String,
    /// Probable kind.
    pub kind: Guessed,
    /// Description of its values; may be empty.
    pub note: String,
}

/// Probable kind of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Guessed {
    /// A label, and its texts that mean 1; none for numbers from 0 to 1.
    Label(Vec<String>),
    /// An amount that spans orders of magnitude.
    Amount,
    /// A number with this mean and deviation.
    Number(f64, f64),
    /// An id.
    Id,
    /// A list of ids: separator, and bound on the ids of a list.
    Ids(String, usize),
    /// A list of ids with values.
    Valued {
        /// Separates the items.
        separator: String,
        /// Bound on the ids of a list.
        ids: usize,
        /// Separates an id from its value.
        mark: String,
    },
    /// Not useful.
    Ignored,
}
