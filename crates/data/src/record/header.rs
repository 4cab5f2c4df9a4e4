//! Decides whether the first line of delimited text is a header, and finds the columns in it.
//!
//! A line that names all columns, in any case, is a header. A line that names only some of them is
//! an error. A line that names none is a record if something in it shows that: a number, which
//! can't name a column, a text that means a click, or a value that later lines repeat. Otherwise it
//! is an error: as a record, it could turn names into an example, with all columns taken in order.

use std::collections::BTreeSet;
use std::path::Path;

use super::delimited::names as fields_of_line;
use super::fault::UNLABELLED;
use super::labels::label_of_text;
use crate::error::DataError;
use crate::layout::{Label, LabelSays, Layout, Named, listed, nearest};
use crate::number::number;

/// Kind of a first line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstLine {
    /// A header: the source at each place.
    Names(Vec<Option<u16>>),
    /// A record.
    Record,
    /// Undecided by the line and those examined after it.
    Unclear,
}

/// The first line of a file, matched with columns.
pub(super) struct Columns<'a> {
    pub(super) layout: &'a Layout,
    /// Path of the file.
    pub(super) path: &'a Path,
    /// Texts of the line.
    pub(super) names: &'a [String],
    /// Where each source is in the line.
    pub(super) found: Vec<Named>,
}

impl Columns<'_> {
    /// Decides whether the first line is a header or a record, given the lines `behind` it.
    pub(super) fn first_line(&self, behind: &[u8], separator: u8) -> Result<FirstLine, DataError> {
        let Self { layout, names, found, .. } = self;
        // Ignored columns have names, too.
        let is_own = |name: &String| layout.columns().iter().any(|column| column.name == *name);
        let is_named = names.iter().any(is_own) || layout.options().header == Some(true);
        let is_found = found.iter().any(|named| named.place().is_some());
        if !found.contains(&Named::Absent) && (is_found || is_named) {
            let wrong = |why| DataError::Path { path: self.path.to_owned(), why };
            return places_of(names, found).map(FirstLine::Names).map_err(wrong);
        }
        if is_named {
            return Err(self.lacking());
        }
        let is_record = is_record(self) || repeats(names, behind, separator);
        Ok(if is_record { FirstLine::Record } else { FirstLine::Unclear })
    }

    /// Error for the first source that the header lacks.
    fn lacking(&self) -> DataError {
        let Self { layout, names, found, .. } = self;
        let all = !found.iter().any(|named| named.place().is_some());
        let absent = found.iter().position(|named| *named == Named::Absent).unwrap_or(0);
        let first = &layout.sources[absent];
        let labels = layout.labels.iter().map(|label| label.source);
        let is_label = labels.chain(layout.weight).chain(layout.counts()).any(|of| of == absent);
        let others = names.iter().filter(|name| !layout.sources.contains(name));
        // Several missing columns aren't a spelling error.
        let near = nearest(first, others);
        let fix = match near.filter(|_| !all || found.len() == 1) {
            Some(name) => format!(
                "; if it is {}, rename that to {first} in the header, or use the header's name in \
                 the settings for training",
                listed(std::slice::from_ref(name))
            ),
            None if all => {
                "; use the names of the header in the settings, or give data.header = false if the \
                 first line is a record"
                    .to_owned()
            }
            None if is_label => "; add it".to_owned(),
            None => "; add it, or use the names of the header in the settings that a model is \
                     trained with"
                .to_owned(),
        };
        let hint = if is_label { format!("; {UNLABELLED}") } else { String::new() };
        let names = listed(names);
        DataError::NoColumn {
            path: self.path.to_owned(),
            column: first.clone(),
            near: near.cloned(),
            why: format!("its header has no column {first}: it has {names}"),
            fix: fix + &hint,
        }
    }
}

/// Whether a value in the line can't be the name of a column.
fn is_record(Columns { layout, path, names: values, .. }: &Columns<'_>) -> bool {
    let is_label = |(value, label): (&String, &Option<Label>)| match label {
        None => false,
        Some(Label { says: LabelSays::Positive(texts), .. }) => {
            texts.iter().any(|known| known == value.as_bytes())
        }
        Some(label) => label_of_text(&label.says, value.as_bytes()).is_some(),
    };
    values.iter().any(|value| number(value.as_bytes()).is_some())
        || values.iter().zip(layout.in_file(path, &layout.placed_labels)).any(is_label)
}

/// Whether one of the lines `behind` repeats a value of the first line in the same column.
fn repeats(first: &[String], behind: &[u8], separator: u8) -> bool {
    // The rest after the last line end is an incomplete line.
    let whole = behind.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    behind[..whole].split(|byte| *byte == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let values = fields_of_line(line, separator);
        // Concatenated files repeat the whole header.
        values != first
            && values.iter().zip(first).any(|(value, first)| value == first && !value.is_empty())
    })
}

/// Error for a first line that may be a header or a record.
pub(super) fn unclear(layout: &Layout, names: &[String]) -> String {
    format!(
        "its first line names none of the columns {}, and nothing shows that it is a record: it \
         has {}; use its names in the settings, or give data.header = false if that line is a \
         record",
        listed(&layout.sources),
        listed(names)
    )
}

/// Source of each of `names`.
fn places_of(names: &[String], found: &[Named]) -> Result<Vec<Option<u16>>, String> {
    let mut seen = BTreeSet::new();
    let mut places = vec![None; names.len()];
    for (source, named) in (0..).zip(found) {
        let Some(place) = named.place() else { continue };
        places[place] = Some(source);
        seen.insert(&names[place]);
    }
    for name in seen {
        let times = names.iter().filter(|other| *other == name).count();
        if times > 1 {
            return Err(format!("its header has the column {name} {times} times: name each once"));
        }
    }
    Ok(places)
}
