//! The first line of a file, from which its format and columns are known.

use crate::from_path::FromPath;

/// Format of a text file, and its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    /// Source of each column of delimited text.
    pub(crate) places: Vec<Option<u16>>,
    /// Lines before the first record.
    pub(crate) header_lines: u32,
    /// The header line, if there is one.
    pub(crate) names: Vec<u8>,
    /// Note on names that match their columns in another case.
    pub(crate) other_case: Option<String>,
    /// Columns in the path of the file.
    pub(crate) from_path: FromPath,
}

/// Format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Delimited { separator: u8, quotes: bool },
    JsonLines,
    LibSvm,
}

impl Head {
    /// Whether the line at `at` of `body` repeats the header.
    #[inline]
    pub(crate) fn is_again(&self, body: &[u8], at: usize) -> bool {
        if self.names.is_empty() || !body[at..].starts_with(&self.names) {
            return false;
        }
        matches!(body[at + self.names.len()..], [b'\n', ..] | [b'\r', b'\n', ..])
    }

    /// Number of the column of `source`, from 1; 0 if columns aren't numbered.
    pub(crate) fn column_of(&self, source: usize) -> u32 {
        let found = self.places.iter().position(|place| place.map(usize::from) == Some(source));
        found.map_or(0, |column| column as u32 + 1)
    }
}
