//! What is to be said of the names of columns, file by file: those that are found in another case,
//! and those that no record seems to have. In formats that leave out what is missing, a name that
//! is written wrongly would be missing in every record without a word: where records have one that
//! is nearly the same, the file is refused.

use std::path::Path;

use crate::begin::begin;
use crate::compression::{Content, open};
use crate::file_reader::FileReader;
use crate::layout::{Layout, is_misspelt, nearest, other_case_note};
use crate::record::{Fields, Kind, fields_of, keys_of};
use crate::share::Follower;
use crate::{Block, DataError, Files, ReadOptions};

/// Bytes of the records that are looked at.
const LOOKED_BYTES: usize = 256 << 10;

/// Files named in a note; further ones are counted.
const SAID_MAX: usize = 4;

/// What was seen of a file.
#[derive(Default)]
struct Seen {
    /// Note on names that match their columns in another case.
    other_case: Option<String>,
    /// Records that were looked at, of a file whose records name their columns.
    records: u32,
    /// Sources that none of them has.
    unseen: Vec<usize>,
    /// Names in the first of them that aren't columns of the settings.
    others: Vec<String>,
}

/// Says by which names in another case `files` have columns, and which columns none of the first
/// records of a file has, where records name theirs. What cannot be read is for who reads it in
/// earnest.
///
/// # Errors
/// A column that the first records lack while they have one of nearly the same name.
pub fn names_notes(files: &Files) -> Result<Vec<String>, DataError> {
    let Some(layout) = files.layout.as_deref() else { return Ok(Vec::new()) };
    let mut notes = Vec::new();
    // Columns that the first file lacks, too, are said once.
    let mut known: Option<Vec<usize>> = None;
    for path in &files.paths {
        let seen = look(files, layout, path).unwrap_or_default();
        let shown = path.display();
        seen.refuse_misspelt(layout, path)?;
        if let Some(names) = &seen.other_case {
            notes.push(format!("{shown} has {names}: names are taken regardless of their case"));
        }
        let is_new = |source: &&usize| known.as_ref().is_none_or(|known| !known.contains(source));
        let of_source = |source: &usize| {
            let name = &layout.sources[*source];
            let near = nearest(name, seen.others.iter());
            near.map_or(name.clone(), |near| format!("{name} (is it {near}?)"))
        };
        let unseen: Vec<String> = seen.unseen.iter().filter(is_new).map(of_source).collect();
        if !unseen.is_empty() {
            notes.push(format!(
                "none of the first {} records of {shown} has {}: missing in each of them; is that \
                 its name? `stepwell schema {shown}` lists the columns that there are",
                seen.records,
                unseen.join(", ")
            ));
        }
        if seen.records > 0 {
            known.get_or_insert(seen.unseen);
        }
    }
    let more = notes.len().saturating_sub(SAID_MAX);
    if more > 0 {
        notes.truncate(SAID_MAX);
        notes.push(format!("{more} more such notes on the names of columns are left out"));
    }
    Ok(notes)
}

impl Seen {
    /// Refuses a file whose records probably misspell a column.
    fn refuse_misspelt(&self, layout: &Layout, path: &Path) -> Result<(), DataError> {
        for source in &self.unseen {
            let name = &layout.sources[*source];
            let Some(near) = self.others.iter().find(|other| is_misspelt(name, other)) else {
                continue;
            };
            let why = format!(
                "none of its first {} records has {name}, and they have {near}: call both the \
                 same; where they are two columns, give {near} the type ignored",
                self.records
            );
            return Err(DataError::NoColumn { path: path.to_owned(), why });
        }
        Ok(())
    }
}

/// Looks at the beginning of a file.
fn look(files: &Files, layout: &Layout, path: &Path) -> Option<Seen> {
    match open(path).ok()? {
        Content::Packed(_) => return None,
        Content::Columns(file) => {
            let other_case = other_case_note(&layout.sources, &file.all_names());
            return Some(Seen { other_case, ..Seen::default() });
        }
        Content::Text(text) => {
            let head = begin(path, text, Some(layout)).ok()?.head?;
            if matches!(head.kind, Kind::Delimited { .. }) {
                return Some(Seen { other_case: head.other_case.clone(), ..Seen::default() });
            }
        }
    }
    let options = ReadOptions { block_bytes: LOOKED_BYTES, ..ReadOptions::new(layout.schema()) };
    let alone = Files { paths: vec![path.to_owned()], layout: files.layout.clone() };
    let mut block = Block::default();
    let mut reader = FileReader::open(&alone, &options).ok()?;
    reader.next_block(&mut block, &mut Follower::new(None, 0)).ok()?;
    let head = block.head.as_deref()?;
    let mut fields = Fields::new(layout.sources.len());
    let mut seen = vec![false; layout.sources.len()];
    let (mut at, mut records) = (0, 0);
    for _ in 0..block.lines {
        let (next, right) = fields_of(layout, head, &block.bytes, at, &mut fields);
        if right {
            seen.iter_mut().enumerate().for_each(|(source, seen)| *seen |= fields.has(source));
            records += 1;
        }
        at = next;
    }
    let unseen: Vec<usize> = (0..seen.len()).filter(|source| !seen[*source]).collect();
    if records == 0 {
        return Some(Seen::default());
    }
    let first = block.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_own = |name: &String| layout.columns().iter().any(|column| column.name == *name);
    let mut others = keys_of(head.kind, first);
    others.retain(|name| !is_own(name));
    Some(Seen { other_case: None, records, unseen, others })
}
