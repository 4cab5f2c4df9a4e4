//! What is to be said of the names of columns, file by file: those that are found in another case,
//! and those that no record seems to have. In formats that leave out what is missing, a name that
//! is written wrongly would be missing in every record without a word.

use std::path::Path;

use crate::begin::begin;
use crate::compression::{Content, open};
use crate::file_reader::FileReader;
use crate::layout::{Layout, other_case_note};
use crate::record::{Fields, Kind, fields_of, keys_of};
use crate::share::Follower;
use crate::{Block, Files, ReadOptions};

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
}

/// Says by which names in another case `files` have columns, and which columns none of the first
/// records of a file has, where records name theirs. What cannot be read is for who reads it in
/// earnest.
pub fn names_notes(files: &Files) -> Vec<String> {
    let Some(layout) = files.layout.as_deref() else { return Vec::new() };
    let mut notes = Vec::new();
    // Columns that the first file lacks, too, are said once.
    let mut known: Option<Vec<usize>> = None;
    for path in &files.paths {
        let seen = look(files, layout, path).unwrap_or_default();
        let shown = path.display();
        if let Some(names) = &seen.other_case {
            // Records without a column of text are not read by these names.
            notes.push(match seen.records {
                0 => format!("{shown} has {names}: names are taken regardless of their case"),
                _ => format!(
                    "{shown} has {names}: keys of records count as they are written, so these \
                     columns are missing there"
                ),
            });
        }
        let is_new = |source: &&usize| known.as_ref().is_none_or(|known| !known.contains(source));
        let unseen: Vec<&str> = seen
            .unseen
            .iter()
            .filter(is_new)
            .map(|source| layout.sources[*source].as_str())
            .collect();
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
    notes
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
    let names: Vec<String> = unseen.iter().map(|source| layout.sources[*source].clone()).collect();
    let first = block.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let other_case = other_case_note(&names, &keys_of(head.kind, first)).filter(|_| records > 0);
    Some(if records == 0 { Seen::default() } else { Seen { other_case, records, unseen } })
}
