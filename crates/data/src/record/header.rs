//! Whether the first line of delimited text names the columns, and which is where.
//!
//! A line that names all columns, be it in another case, is a header. One that names some of them
//! alone is refused. One that names none is a record where something in it shows that: a number,
//! which names no column, a text that counts as a click, or a value that later lines repeat.
//! Where nothing shows what it is, it is refused, too: as a record it would be an example of names,
//! and all columns would be taken by their order.

use std::collections::BTreeSet;
use std::path::Path;

use super::delimited::names as fields_of_line;
use super::emit::UNLABELLED;
use super::labels::label_of_text;
use crate::DataError;
use crate::layout::{Label, LabelSays, Layout, Named, listed, nearest};
use crate::number::number;

/// What a first line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstLine {
    /// It names columns: of each place the source that is there.
    Names(Vec<Option<u16>>),
    /// A record.
    Record,
    /// Nothing in it, or in what is known of the lines behind it, shows which.
    Unclear,
}

/// The first line of a file, matched with columns.
pub(super) struct Columns<'a> {
    pub(super) layout: &'a Layout,
    /// Path of the file.
    pub(super) path: &'a Path,
    /// The texts of the line.
    pub(super) names: &'a [String],
    /// Place of each source among them.
    pub(super) found: Vec<Named>,
}

impl Columns<'_> {
    /// What the first line is, given the lines `behind` it.
    pub(super) fn first_line(
        &self,
        (behind, separator): (&[u8], u8),
    ) -> Result<FirstLine, DataError> {
        let Self { layout, names, found, .. } = self;
        // Ignored columns have names as well.
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
        // If several columns are missing, it isn't a matter of spelling.
        let near = nearest(first, others);
        let mend = match near.filter(|_| !all || found.len() == 1) {
            Some(name) => format!(
                "; if it is {}, call that {first} in the header, or name the column so in the \
                 settings that a model is trained with",
                listed(std::slice::from_ref(name))
            ),
            None if all => {
                "; name its columns as they are called there, or give data.header = false where \
                 the first line is a record"
                    .to_owned()
            }
            None if is_label => "; add it".to_owned(),
            None => "; add it, or name its columns as they are called there in the settings that \
                     a model is trained with"
                .to_owned(),
        };
        let hint = if is_label { format!("; {UNLABELLED}") } else { String::new() };
        let names = listed(names);
        DataError::NoColumn {
            path: self.path.to_owned(),
            column: first.clone(),
            near: near.cloned(),
            why: format!("its header has no column {first}: it has {names}{mend}{hint}"),
        }
    }
}

/// Whether a value of the line cannot be the name of a column.
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

/// Whether one of the lines `behind` has a value of the first one in the same column.
fn repeats(first: &[String], behind: &[u8], separator: u8) -> bool {
    // What stands behind the last line end is a part of a line.
    let whole = behind.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    behind[..whole].split(|byte| *byte == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let values = fields_of_line(line, separator);
        // Where files with headers were joined, all of it comes again.
        values != first
            && values.iter().zip(first).any(|(value, first)| value == first && !value.is_empty())
    })
}

/// Error for a first line that may be a header or a record.
pub(super) fn unclear(layout: &Layout, names: &[String]) -> String {
    format!(
        "its first line names none of the columns {}, and nothing shows that it is a record: it \
         has {}; name its columns as they are called there, or give data.header = false where that \
         line is a record",
        listed(&layout.sources),
        listed(names)
    )
}

/// The source of each of `names`.
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
