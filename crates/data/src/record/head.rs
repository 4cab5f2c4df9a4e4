//! The first line of a file: its format, and the columns.

use std::collections::BTreeMap;
use std::path::Path;

use memchr::memchr;
use serde::de::IgnoredAny;

use super::fault::{Fault, Why};
use super::fields::Fields;
use super::header::{self, Columns, FirstLine};
use super::{delimited, svm};
use crate::error::DataError;
use crate::from_path::FromPath;
use crate::head::{Head, Kind};
use crate::layout::{Format, Layout, other_case_note};

impl Head {
    /// Examines the first line of `text`, the start of the file at `path`, for a reader of
    /// `layout`. `None` if more text is needed to decide.
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
        Ok(match columns.first_line(behind, separator)? {
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

    /// The head of an empty file.
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

    /// Adds the values in the file's path to the `fields` of a record.
    ///
    /// # Errors
    /// A record that also has such a column.
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
}

fn kind_of(layout: &Layout, line: &[u8]) -> Kind {
    let options = layout.options();
    let delimited = |by_default| {
        let separator = options.separator.unwrap_or(by_default);
        // Tabs need no quoting, so files with tabs have none.
        Kind::Delimited { separator, quotes: separator != b'\t' }
    };
    match options.format {
        Format::Csv => delimited(b','),
        Format::Tsv => delimited(b'\t'),
        Format::LibSvm => Kind::LibSvm,
        Format::JsonLines => Kind::JsonLines,
        Format::Auto | Format::Parquet => match (kind_by_looks(line), options.separator) {
            // `separator` is for delimited text only; it doesn't rule out other formats.
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

/// Whether the whole line is one JSON object.
fn is_object(line: &[u8]) -> bool {
    serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(line).is_ok()
}

/// Format of a file with this first line.
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

/// Whether a JSON array of objects starts here; the JSON reader reports it.
fn is_list(line: &[u8]) -> bool {
    let inner = line.trim_ascii().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    inner.is_some_and(|inner| inner.is_empty() || inner.starts_with(b"{"))
}
