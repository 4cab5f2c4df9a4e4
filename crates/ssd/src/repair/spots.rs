//! Where the segments of a damaged store are, as far as can be known.

use std::sync::Arc;

use stepwell_disk::Disk;

use super::salvaged::Salvaged;
use crate::Result;
use crate::identity::Origin;
use crate::key_shard::KeyShardSet;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::numbers::SegmentNumber;
use crate::segment::{self, Header, Spot};

/// The segments that the manifest names, in whichever directory they are; counts missing ones.
pub(super) fn spots_named(
    disks: &[Arc<dyn Disk>],
    manifest: &Manifest,
    salvaged: &mut Salvaged,
) -> Result<Vec<Spot>> {
    let mut spots = Vec::new();
    for entry in &manifest.segments {
        match directory_of(disks, entry.here())? {
            Some(directory) => spots.push(manifest.spot(entry, directory)),
            None => salvaged.segments_lost += 1,
        }
    }
    Ok(spots)
}

/// All segments in the directories with the table and row size of the first intact header. Segments
/// with a damaged header are assumed to be of the same store.
pub(super) fn spots_of_all(disks: &[Arc<dyn Disk>], salvaged: &mut Salvaged) -> Result<Vec<Spot>> {
    let mut found = Vec::new();
    for number in numbers_of_all(disks)? {
        let Some(directory) = directory_of(disks, number)? else { continue };
        let header = match disks[directory].open(&segment::name(number)) {
            Ok(file) => segment::reader::header_of(&*file)?,
            Err(error) if error.is_no_descriptor() => return Err(error.into()),
            Err(_) => None,
        };
        found.push((number, directory, header));
    }
    let Some(first) = found.iter().find_map(|(_, _, header)| *header) else {
        return Ok(Vec::new());
    };
    let mut spots = Vec::new();
    for (number, directory, header) in found {
        let like_first = Header { origin: Origin { number, ..first.origin }, ..first };
        let Header { layout, origin } = header.unwrap_or(like_first);
        let of_table = |layout: Layout| (layout.table, layout.row_bytes);
        if of_table(layout) == of_table(first.layout) {
            let counting = KeyShardSet::ALL;
            spots.push(Spot { directory, number, cached: false, layout, origin, counting });
        } else {
            salvaged.segments_lost += 1;
        }
    }
    Ok(spots)
}

fn directory_of(disks: &[Arc<dyn Disk>], number: SegmentNumber) -> Result<Option<usize>> {
    for (directory, disk) in disks.iter().enumerate() {
        if disk.exists(&segment::name(number))? {
            return Ok(Some(directory));
        }
    }
    Ok(None)
}

fn numbers_of_all(disks: &[Arc<dyn Disk>]) -> Result<Vec<SegmentNumber>> {
    let mut numbers = Vec::new();
    for disk in disks {
        let found = disk.list()?;
        let found = found.iter().filter_map(|name| segment::number(name));
        numbers.extend(found.filter_map(SegmentNumber::new));
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}
