//! Reports column names per file: names that match in another case, and columns that no record
//! seems to have. Formats that omit missing values can't distinguish a misspelled name from values
//! missing in every record, so records with a nearly equal name are an error.

use std::path::Path;

use crate::block::Block;
use crate::compression::{Content, open};
use crate::error::DataError;
use crate::file_reader::FileReader;
use crate::files::Files;
use crate::first_line::begin;
use crate::head::Kind;
use crate::layout::{Layout, is_misspelt, nearest, other_case_note};
use crate::pass_share::Follower;
use crate::read_options::ReadOptions;
use crate::record::{Fields, fields_of, keys_of};

/// Bytes of records to examine.
const LOOKED_BYTES: usize = 256 << 10;

/// Most files named in notes; further ones are counted.
const SAID_MAX: usize = 4;

/// Notes and warnings about the names of columns.
#[derive(Debug, Default)]
pub struct NameNotes {
    /// Names that match only in another case, and columns that a file's single record lacks.
    pub notes: Vec<String>,
    /// Columns that no record seems to have.
    pub warnings: Vec<String>,
}

/// Result of examining a file.
#[derive(Default)]
struct Seen {
    /// Note on names that match their columns in another case.
    other_case: Option<String>,
    /// Number of records examined.
    records: u32,
    /// Sources without a value in any of these records.
    unseen: Vec<usize>,
    /// Whether records name their columns, so that such a source may be misspelled.
    are_named: bool,
    /// Names in the first record that aren't columns of the settings.
    others: Vec<String>,
}

/// Reports names that match a column in another case, and columns that have no value in the first
/// records of a text file. Unreadable files are left to the reader, which reports them.
///
/// # Errors
/// A column that the first records lack, while they have one with nearly the same name.
pub fn names_notes(files: &Files) -> Result<NameNotes, DataError> {
    let mut found = NameNotes::default();
    let Some(layout) = files.layout.as_deref() else { return Ok(found) };
    // Columns that the first file lacks, too, are reported once.
    let mut known: Option<Vec<usize>> = None;
    for path in &files.paths {
        let seen = look(files, layout, path).unwrap_or_default();
        let shown = path.display();
        seen.refuse_misspelt(layout, path)?;
        if let Some(names) = &seen.other_case {
            let note = format!("{shown} has {names}: names match regardless of their case");
            found.notes.push(note);
        }
        let is_new = |source: &&usize| known.as_ref().is_none_or(|known| !known.contains(source));
        let of_source = |source: &usize| {
            let name = &layout.sources[*source];
            let near = nearest(name, seen.others.iter());
            near.map_or(name.clone(), |near| format!("{name} (is it {near}?)"))
        };
        let unseen: Vec<String> = seen.unseen.iter().filter(is_new).map(of_source).collect();
        if !unseen.is_empty() {
            let hint = match seen.are_named {
                true => format!(
                    "; is the name right? `stepwell schema {shown}` lists the columns of the file"
                ),
                false => String::new(),
            };
            // A single record isn't strong evidence.
            let lines = if seen.records > 1 { &mut found.warnings } else { &mut found.notes };
            lines.push(format!(
                "none of the first {} records of {shown} has {}: missing in each of them{hint}",
                seen.records,
                unseen.join(", ")
            ));
        }
        if seen.records > 0 {
            known.get_or_insert(seen.unseen);
        }
    }
    shorten(&mut found.notes);
    shorten(&mut found.warnings);
    Ok(found)
}

/// Counts notes beyond the first few.
fn shorten(notes: &mut Vec<String>) {
    let more = notes.len().saturating_sub(SAID_MAX);
    if more > 0 {
        notes.truncate(SAID_MAX);
        notes.push(format!("{more} more such notes on the names of columns are left out"));
    }
}

impl Seen {
    /// Returns an error if the records probably misspell a column.
    fn refuse_misspelt(&self, layout: &Layout, path: &Path) -> Result<(), DataError> {
        for source in &self.unseen {
            let name = &layout.sources[*source];
            let Some(near) = self.others.iter().find(|other| is_misspelt(name, other)) else {
                continue;
            };
            let why = format!(
                "none of its first {} records has {name}, but they have {near}",
                self.records
            );
            let fix = format!(
                ": call both the same; if they are two columns, give {near} the type ignored"
            );
            let (column, near) = (name.clone(), Some(near.clone()));
            return Err(DataError::NoColumn { path: path.to_owned(), column, near, why, fix });
        }
        Ok(())
    }
}

/// Examines the start of a file.
fn look(files: &Files, layout: &Layout, path: &Path) -> Option<Seen> {
    let other_case = match open(path).ok()? {
        Content::Packed(_) => return None,
        Content::Columns(file) => {
            let other_case = other_case_note(&layout.sources, &file.all_names());
            return Some(Seen { other_case, ..Seen::default() });
        }
        Content::Text(text) => begin(path, text, Some(layout)).ok()?.head?.other_case.clone(),
    };
    Some(Seen { other_case, ..look_at_records(files, layout, path).unwrap_or_default() })
}

/// Examines the first records of a text file.
fn look_at_records(files: &Files, layout: &Layout, path: &Path) -> Option<Seen> {
    let options = ReadOptions { block_bytes: LOOKED_BYTES, ..ReadOptions::new(layout.schema()) };
    let alone = Files { paths: vec![path.to_owned()], layout: files.layout.clone() };
    let mut block = Block::default();
    let mut reader = FileReader::open(&alone, &options).ok()?;
    reader.next_block(&mut block, &mut Follower::new(None, 0)).ok()?;
    let head = block.head.as_deref()?;
    let are_named = !matches!(head.kind, Kind::Delimited { .. });
    let mut fields = Fields::new(layout.sources.len());
    let mut seen = vec![false; layout.sources.len()];
    let (mut at, mut records) = (0, 0);
    for _ in 0..block.lines {
        let (next, right) = fields_of(layout, head, &block.bytes, at, &mut fields);
        if right {
            // A name shows that the column exists, even without a value.
            let record = fields.record(&block.bytes);
            let has = |source: usize| match are_named {
                true => fields.has(source),
                false => record.bytes(source).is_some_and(|text| !text.is_empty()),
            };
            seen.iter_mut().enumerate().for_each(|(source, seen)| *seen |= has(source));
            records += 1;
        }
        at = next;
    }
    if records == 0 {
        return Some(Seen::default());
    }
    let unseen: Vec<usize> = (0..seen.len()).filter(|source| !seen[*source]).collect();
    let first = block.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_own = |name: &String| layout.columns().iter().any(|column| column.name == *name);
    let mut others = keys_of(head.kind, first);
    others.retain(|name| !is_own(name));
    Some(Seen { other_case: None, records, unseen, are_named, others })
}
