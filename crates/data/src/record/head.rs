//! What the first line of a file says: how its records lie, and which column is where.

use std::path::Path;

use super::emit::UNLABELLED;
use super::{delimited, svm};
use crate::DataError;
use crate::layout::{Format, Layout};

/// How the records of a file of text lie, and where its columns are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    /// Of each column of delimited text, the source it is.
    pub(crate) places: Vec<Option<u16>>,
    /// Lines before the first record.
    pub(crate) header_lines: u32,
}

/// How records lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Delimited { separator: u8, quotes: bool },
    JsonLines,
    LibSvm,
}

impl Head {
    /// What `line`, the first of the file at `path`, says to a reader of `layout`.
    pub(crate) fn of(layout: &Layout, path: &Path, line: &[u8]) -> Result<Self, DataError> {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        let kind = kind_of(layout, line);
        let unnamed = |kind| Self { kind, places: Vec::new(), header_lines: 0 };
        let Kind::Delimited { separator, .. } = kind else { return Ok(unnamed(kind)) };
        let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
        match header(layout, &delimited::names(line, separator)).map_err(wrong)? {
            Some(places) => Ok(Self { kind, places, header_lines: 1 }),
            None => Ok(Self { kind, places: layout.places.clone(), header_lines: 0 }),
        }
    }

    /// That of an empty file.
    pub(crate) fn of_nothing(layout: &Layout) -> Self {
        let kind = Kind::Delimited { separator: b',', quotes: false };
        Self { kind, places: layout.places.clone(), header_lines: 0 }
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
        Format::Auto | Format::Parquet if options.separator.is_some() => delimited(b','),
        Format::Auto | Format::Parquet => kind_by_looks(line),
    }
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

/// Where the columns of `layout` are in a text whose first line has `names`; none where that line
/// names nothing.
fn header(layout: &Layout, names: &[String]) -> Result<Option<Vec<Option<u16>>>, String> {
    let given = layout.options().header;
    if given == Some(false) {
        return Ok(None);
    }
    let is_there = |source: &&String| names.contains(source);
    let absent: Vec<&str> =
        layout.sources.iter().filter(|source| !is_there(source)).map(String::as_str).collect();
    if absent.len() == layout.sources.len() && given.is_none() {
        return Ok(None);
    }
    if let [first, ..] = absent.as_slice() {
        let mut labels = layout.labels.iter().map(|label| layout.sources[label.source].as_str());
        let weight = layout.weight.map(|source| layout.sources[source].as_str());
        let is_label = labels.any(|label| label == *first) || weight == Some(*first);
        let others = names.iter().filter(|name| !layout.sources.contains(name));
        let mend = match nearest(first, others) {
            _ if absent.len() == layout.sources.len() => {
                "; name its columns as they are called there, or give data.header = false where \
                 the first line is a record"
                    .to_owned()
            }
            Some(name) => format!(
                "; if it is {}, call that {first} in the header, or name the column so in the \
                 settings that a model is trained with",
                listed(std::slice::from_ref(name))
            ),
            None if is_label => "; add it".to_owned(),
            None => "; add it, or name its columns as they are called there in the settings that \
                     a model is trained with"
                .to_owned(),
        };
        let hint = if is_label { format!("; {UNLABELLED}") } else { String::new() };
        let names = listed(names);
        return Err(format!("its header has no column {first}: it has {names}{mend}{hint}"));
    }
    let place = |name: &String| {
        let source = layout.sources.iter().position(|source| source == name)?;
        u16::try_from(source).ok()
    };
    let places: Vec<Option<u16>> = names.iter().map(place).collect();
    for source in 0..layout.sources.len() {
        let times = places.iter().filter(|place| place.map(usize::from) == Some(source)).count();
        if times > 1 {
            let name = &layout.sources[source];
            return Err(format!("its header has the column {name} {times} times: name each once"));
        }
    }
    Ok(Some(places))
}

/// Likeness in millionths from which on a name may have been meant.
const LIKENESS_MIN: u64 = 750_000;

/// The one of `names` that is most like `name`, if it is like it at all.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let plain = |name: &str| name.to_lowercase().replace(['_', '-', ' ', '.'], "");
    let likeness = |other: &String| {
        let likeness = strsim::jaro_winkler(&plain(name), &plain(other));
        (likeness * 1e6) as u64
    };
    let likest = names.map(|other| (likeness(other), other)).max_by_key(|(like, _)| *like);
    likest.filter(|(like, _)| *like >= LIKENESS_MIN).map(|(_, other)| other)
}

/// Some names, in a sentence.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> =
        names.iter().take(SHOWN).map(|name| name.chars().take(40).collect()).collect();
    let more = if names.len() > SHOWN { " and others" } else { "" };
    shown.join(", ") + more
}
