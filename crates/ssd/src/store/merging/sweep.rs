//! Removes deletions that are no longer needed, and finds what keeps the others.
//!
//! - **Why.** A deletion is needed while some segment has an older version of its key, dead because
//!   of it. Merges carry deletions along, since they do not know what other segments have; over
//!   time, most are not needed. They would fill the store, and openings would read all of them.
//! - **How.** When deletions take more than [`SHARE`] of the live rows' space and
//!   [`deletions_free`](crate::StoreOptions::deletions_free), a *sweep* takes the segments with the
//!   most of them for their size, until their keys fill the memory for it. It leaves out keys that
//!   have a current version and looks for the others in the footers of all segments. Deletions of
//!   keys found nowhere are not needed. Then either these segments are merged, each alone, which
//!   drops those deletions; or, if more are needed by dead rows that merges can drop, the segments
//!   with the most of these rows for their size are merged.
//! - **Progress.** A round of merges drops at least an eighth of the deletions that it looked at,
//!   or dead rows that keep half as many. If that is impossible, because segments that merges skip
//!   need too many, there is no round. Only an expired row adds a deletion, and it is dropped then:
//!   so sweeping ends, below its bound or with only needed deletions.
//! - **Cost.** A sweep reads all footers, 9 bytes a row. One that drops few deletions drops the
//!   rows that keep them.
//! - **Bounds.** [`Sweep::keys_max`] keys, 40 bytes each.

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_base::Key;

use crate::layout::DELETION_BYTES;
use crate::numbers::{SegmentNumber, Slot};
use crate::segment::{SegmentFile, Tail};
use crate::segment_table::Segment;
use crate::store::core::{Core, State};
use crate::store::sweep_result::Sweep;

/// Space that deletions may take, as a fraction of the live rows' space.
const SHARE: f64 = 0.02;
/// A round of merges gains at least one in this many deletions that it looked at.
const GAIN_PART: usize = 8;
/// Segments with older versions of a deleted key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nowhere,
    /// Only segments that merges may take.
    Held,
    /// At least one that merges skip, or that cannot be read.
    Stuck,
}

/// Deletions that a sweep looks at.
#[derive(Default)]
struct Asked {
    /// Numbers of the segments with these deletions.
    deleters: Vec<SegmentNumber>,
    /// The keys without a current version.
    keys: HashMap<Key, Found>,
    /// Number of deletions of keys with a current version, which a merge drops.
    superseded: usize,
}

/// A segment with deletions, or with rows that a sweep looks for.
struct Holder {
    number: SegmentNumber,
    bytes: u64,
    count: u64,
    /// Whether merges skip the segment.
    left_alone: bool,
}

/// Numbers of the segments with the highest counts for their size, until these counts reach
/// `enough`.
fn densest(mut holders: Vec<Holder>, enough: u64) -> Vec<SegmentNumber> {
    let density = |holder: &Holder| holder.count as f64 / holder.bytes.max(1) as f64;
    holders.retain(|holder| holder.count > 0);
    // Equal ones keep the order of segment numbers.
    holders.sort_by(|a, b| density(b).total_cmp(&density(a)));
    let mut sum = 0;
    let within = |holder: &Holder| {
        let before = sum;
        sum += holder.count;
        before < enough
    };
    holders.into_iter().take_while(within).map(|holder| holder.number).collect()
}

impl Core {
    /// Whether deletions take more than they may.
    pub(super) fn has_many_deletions(&self, state: &State) -> bool {
        let live = state.index.rows() as f64 * self.size(state).target().row_full();
        let admitted = (live * SHARE) as u64 + self.options.deletions_free;
        state.table.deletions() * DELETION_BYTES > admitted
    }

    /// The segment to merge alone because of deletions, if any; starts a sweep if needed.
    pub(super) fn next_of_sweep(&self, sweep: &mut Sweep) -> Option<Slot> {
        if !self.has_many_deletions(&self.state()) {
            *sweep = Sweep::default();
            return None;
        }
        if sweep.todo.is_empty() {
            let deletions = self.state().table.deletions();
            if sweep.in_vain == Some(deletions) {
                return None;
            }
            *sweep = self.sweep();
            sweep.in_vain = sweep.todo.is_empty().then_some(deletions);
        }
        while let Some(number) = sweep.todo.pop() {
            let state = self.state();
            // The segment may have been merged since.
            let slot = state.table.slot_of(number);
            if let Some(slot) = slot.filter(|slot| !state.table.get(*slot).left_alone) {
                return Some(slot);
            }
        }
        None
    }

    fn sweep(&self) -> Sweep {
        let Asked { deleters, mut keys, superseded } = self.deletions_to_sweep();
        let holders = if keys.is_empty() { Vec::new() } else { self.look_for(&mut keys) };
        let count = |of: Found| keys.values().filter(|found| **found == of).count();
        let (held, free) = (count(Found::Held), count(Found::Nowhere) + superseded);
        let mut todo = if held.max(free) * GAIN_PART < keys.len() + superseded {
            Vec::new()
        } else if held > free {
            // Merging these frees half of them.
            densest(holders, held.div_ceil(2) as u64)
        } else {
            deleters
        };
        todo.reverse();
        keys.retain(|_, found| *found == Found::Nowhere);
        Sweep { unneeded: keys.into_keys().collect(), todo, in_vain: None }
    }

    /// The deletions of the segments with the most of them for their size. Skips segments whose
    /// deletions cannot be read.
    fn deletions_to_sweep(&self) -> Asked {
        let keys_max = Sweep::keys_max(&self.options);
        let deletions = |segment: &Segment| {
            u64::from(segment.sealed.map_or(0, |sealed| sealed.tail.counts.deletions))
        };
        let mut deleters = self.sealed(deletions);
        deleters.retain(|holder| !holder.left_alone);
        let chosen = densest(deleters, keys_max);
        let mut asked = Asked::default();
        for number in chosen {
            let Some((file, tail)) = self.sealed_file(number) else { continue };
            let room = keys_max.saturating_sub(asked.keys.len() as u64);
            if !asked.deleters.is_empty() && u64::from(tail.counts.deletions) > room {
                break;
            }
            let Ok(mut deletions) = file.deletions(&tail, &self.counters) else { continue };
            // A segment made with a larger size may have more: it keeps the others.
            deletions.truncate(room as usize);
            let keys: Vec<Key> = deletions.iter().map(|deletion| deletion.key).collect();
            let state = self.state();
            state.index.get_many(&keys, |at, place| match place {
                None => drop(asked.keys.insert(keys[at], Found::Nowhere)),
                Some(_) => asked.superseded += 1,
            });
            drop(state);
            asked.deleters.push(number);
        }
        asked
    }

    /// Records which of the `wanted` keys are in any segment, including segments that merges skip,
    /// and counts them in each of the others. If a footer cannot be read, all of them may be in
    /// that segment.
    fn look_for(&self, wanted: &mut HashMap<Key, Found>) -> Vec<Holder> {
        let mut holders = self.sealed(|_| 0);
        for holder in &mut holders {
            let Some((file, tail)) = self.sealed_file(holder.number) else { continue };
            let Ok(counting) = file.counting(&tail, &self.counters) else {
                wanted.values_mut().for_each(|found| *found = Found::Stuck);
                continue;
            };
            let here = if holder.left_alone { Found::Stuck } else { Found::Held };
            for (_, key) in counting.rows {
                if let Some(found) = wanted.get_mut(&key) {
                    *found = here.max(*found);
                    holder.count += 1;
                }
            }
        }
        holders.retain(|holder| holder.count > 0 && !holder.left_alone);
        holders
    }

    /// All sealed segments, with their counts.
    fn sealed(&self, count: impl Fn(&Segment) -> u64) -> Vec<Holder> {
        let state = self.state();
        let segments = state.table.sealed().into_iter().map(|slot| state.table.get(slot));
        let holder = |segment: &Segment| Holder {
            number: segment.file.number,
            bytes: segment.bytes(),
            count: count(segment),
            left_alone: segment.left_alone,
        };
        segments.map(holder).collect()
    }

    fn sealed_file(&self, number: SegmentNumber) -> Option<(Arc<SegmentFile>, Tail)> {
        let state = self.state();
        let segment = state.table.get(state.table.slot_of(number)?);
        Some((Arc::clone(&segment.file), segment.sealed?.tail))
    }
}

#[cfg(test)]
mod tests {
    use stepwell_disk::MemDisk;

    use super::*;
    use crate::options::{Compaction, StoreOptions};
    use crate::store::Store;

    #[test]
    fn a_sweep_keeps_its_bound_where_one_segment_has_more() {
        let options = StoreOptions {
            index_bytes_max: 16 << 20,
            deletions_free: 1 << 40,
            compaction: Compaction::Inline,
            ..StoreOptions::new(0, 8)
        };
        let disk = MemDisk::new();
        let store = Store::create(Arc::new(disk.clone()), options.clone()).unwrap();
        let keys: Vec<Key> = (0..300_000).map(Key).collect();
        for keys in keys.chunks(10_000) {
            store.put_many(keys, &vec![1; keys.len()], &vec![1; 8 * keys.len()]).unwrap();
        }
        store.commit().unwrap();
        store.delete_many(&keys[..200_000]).unwrap();
        store.commit().unwrap();
        drop(store);
        // Segments are now smaller.
        let options = StoreOptions { segment_bytes: 1 << 20, ..options };
        let store = Store::open(Arc::new(disk), options.clone()).unwrap();
        let asked = store.core.deletions_to_sweep();
        let most = Sweep::keys_max(&options);
        assert!(most < 200_000, "{most}");
        assert_eq!(asked.keys.len() as u64, most, "a part of the only segment's");
    }
}
