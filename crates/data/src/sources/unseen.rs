//! Columns that no record seems to have: in formats that leave out what is missing, a name that is
//! written wrongly would be missing in every record without a word.

use crate::file_reader::FileReader;
use crate::record::{Fields, Kind, fields_of};
use crate::share::Follower;
use crate::{Block, Files, ReadOptions};

/// Bytes of the records that are looked at.
const LOOKED_BYTES: usize = 256 << 10;

/// Says which columns none of the first records of `files` has, where records name theirs. What
/// cannot be read is for who reads it in earnest.
pub(super) fn unseen_note(files: &Files) -> Option<String> {
    let layout = files.layout.as_deref()?;
    let options = ReadOptions { block_bytes: LOOKED_BYTES, ..ReadOptions::new(layout.schema()) };
    let mut block = Block::default();
    let mut reader = FileReader::open(files, &options).ok()?;
    reader.next_block(&mut block, &mut Follower::new(None, 0)).ok()?;
    let head = block.head.as_deref()?;
    if matches!(head.kind, Kind::Delimited { .. }) {
        return None;
    }
    let mut fields = Fields::new(layout.sources.len());
    let mut seen = vec![false; layout.sources.len()];
    let (mut at, mut records) = (0, 0u32);
    for _ in 0..block.lines {
        let (next, right) = fields_of(layout, head, &block.bytes, at, &mut fields);
        if right {
            seen.iter_mut().enumerate().for_each(|(source, seen)| *seen |= fields.has(source));
            records += 1;
        }
        at = next;
    }
    let unseen = layout.sources.iter().zip(&seen).filter(|(_, seen)| !**seen);
    let unseen: Vec<&str> = unseen.map(|(name, _)| name.as_str()).collect();
    if unseen.is_empty() || records == 0 {
        return None;
    }
    let path = files.paths.get(block.file as usize)?.display();
    Some(format!(
        "none of the first {records} records of {path} has {}: missing in each of them; is that \
         its name? `stepwell schema {path}` lists the columns that there are",
        unseen.join(", ")
    ))
}
