//! What the first line of a file says: how its records lie, and which column is where.

use std::collections::BTreeMap;
use std::path::Path;

use memchr::memchr;
use serde::de::IgnoredAny;

use super::header::{self, Columns, FirstLine};
use super::{Fault, Fields, Why, delimited, svm};
use crate::DataError;
use crate::layout::{Format, Layout, other_case_note};
use crate::path_columns::FromPath;

/// How the records of a file of text lie, and where its columns are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    /// Of each column of delimited text, the source it is.
    pub(crate) places: Vec<Option<u16>>,
    /// Lines before the first record.
    pub(crate) header_lines: u32,
    /// The line that names the columns, if there is one.
    pub(crate) names: Vec<u8>,
    /// Note on names that match their columns in another case.
    pub(crate) other_case: Option<String>,
    /// Columns that the path of the file gives.
    pub(crate) from_path: FromPath,
}

/// How records lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Delimited { separator: u8, quotes: bool },
    JsonLines,
    LibSvm,
}

impl Head {
    /// What the first line of `text`, the beginning of the file at `path`, says to a reader of
    /// `layout`; none where more of the text may tell.
    pub(crate) fn of(
        layout: &Layout,
        path: &Path,
        text: &[u8],
        is_all: bool,
    ) -> Result<Option<Self>, DataError> {
        let end = memchr(b'\n', text).unwrap_or(text.len());
        let (line, behind) = (&text[..end], text.get(end + 1..).unwrap_or_default());
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let kind = kind_of(layout, line);
        let own = Self::of_nothing(layout, path)?;
        let Kind::Delimited { separator, .. } = kind else {
            return Ok(Some(Self { kind, places: Vec::new(), ..own }));
        };
        let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
        if layout.options().header == Some(false) {
            return Ok(Some(Self { kind, ..own }));
        }
        let names = delimited::names(line, separator);
        let found = own.from_path.find_others(layout, &names, path)?;
        let columns = Columns { layout, path, names: &names, found };
        Ok(match columns.first_line((behind, separator))? {
            FirstLine::Names(places) => {
                let other_case = other_case_note(&layout.sources, &names);
                let names = line.to_vec();
                Some(Self { kind, places, names, header_lines: 1, other_case, ..own })
            }
            FirstLine::Record => Some(Self { kind, ..own }),
            FirstLine::Unclear if is_all => return Err(wrong(header::unclear(layout, &names))),
            FirstLine::Unclear => None,
        })
    }

    /// That of an empty file.
    pub(crate) fn of_nothing(layout: &Layout, path: &Path) -> Result<Self, DataError> {
        let from_path = FromPath::of(layout, path)?;
        Ok(Self {
            kind: Kind::Delimited { separator: b',', quotes: false },
            places: layout.in_file(path, &layout.places).copied().collect(),
            header_lines: 0,
            names: Vec::new(),
            other_case: None,
            from_path,
        })
    }

    /// Adds the values that the file's path gives to the `fields` of a record.
    ///
    /// # Errors
    /// A record that has such a column as well.
    #[inline]
    pub(super) fn put_from_path(&self, layout: &Layout, fields: &mut Fields) -> Result<(), Fault> {
        for (source, value) in &self.from_path.values {
            if fields.has(*source) {
                return Err(Fault::value(*source, Why::InPath));
            }
            fields.put_bytes(*source, if layout.is_missing(value) { b"" } else { value });
        }
        Ok(())
    }

    /// Whether the line at `at` of `body` is the one that names the columns, again.
    #[inline]
    pub(crate) fn is_again(&self, body: &[u8], at: usize) -> bool {
        if self.names.is_empty() || !body[at..].starts_with(&self.names) {
            return false;
        }
        matches!(body[at + self.names.len()..], [b'\n', ..] | [b'\r', b'\n', ..])
    }

    /// The number of the column of `source`, from 1; 0 where columns have no numbers.
    pub(crate) fn column_of(&self, source: usize) -> u32 {
        let found = self.places.iter().position(|place| place.map(usize::from) == Some(source));
        found.map_or(0, |column| column as u32 + 1)
    }
}

fn kind_of(layout: &Layout, line: &[u8]) -> Kind {
    let options = layout.options();
    let delimited = |by_default| {
        let separator = options.separator.unwrap_or(by_default);
        // A tab is its own protection: files with tabs have no quotes.
        Kind::Delimited { separator, quotes: separator != b'\t' }
    };
    match options.format {
        Format::Csv => delimited(b','),
        Format::Tsv => delimited(b'\t'),
        Format::LibSvm => Kind::LibSvm,
        Format::JsonLines => Kind::JsonLines,
        Format::Auto | Format::Parquet => match (kind_by_looks(line), options.separator) {
            // It says what is between fields, not that there are some.
            (Kind::JsonLines, Some(separator)) if !line.contains(&separator) || is_object(line) => {
                Kind::JsonLines
            }
            // Items with a mark before their value look like LibSVM.
            (Kind::LibSvm, None) if line.contains(&b'\t') && layout.has_marks() => delimited(b'\t'),
            (Kind::LibSvm, Some(separator)) if !line.contains(&separator) => Kind::LibSvm,
            (_, Some(_)) => delimited(b','),
            (kind, None) => kind,
        },
    }
}

/// Whether all of the line is one object of JSON.
fn is_object(line: &[u8]) -> bool {
    serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(line).is_ok()
}

/// The kind of the file whose first line this is.
pub(crate) fn kind_by_looks(line: &[u8]) -> Kind {
    let delimited = |separator| Kind::Delimited { separator, quotes: separator != b'\t' };
    if line.trim_ascii_start().starts_with(b"{") || is_list(line) {
        return Kind::JsonLines;
    }
    if svm::looks_like(line.trim_ascii_end()) {
        return Kind::LibSvm;
    }
    let found = [b'\t', b',', b';', b'|'].into_iter().find(|byte| line.contains(byte));
    delimited(found.unwrap_or(b','))
}

/// Whether a list of objects of JSON begins here, which is answered by whoever reads objects.
fn is_list(line: &[u8]) -> bool {
    let inner = line.trim_ascii().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    inner.is_some_and(|inner| inner.is_empty() || inner.starts_with(b"{"))
}
