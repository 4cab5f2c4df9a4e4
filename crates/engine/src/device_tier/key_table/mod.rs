//! Hash tables on a device, in which a step finds the slots of its rows by their keys.
//!
//! ```text
//!   plan ─► lift ─► changes, in order ─┐
//!                                      ▼   stream `step`, within a fetch
//!   keys that leave ─► table_remove ─► keys that come ─► table_insert ─► table_get ─► lists
//! ```
//!
//! - **How.** Every table group has its own table, since two groups may have equal keys. The
//!   planner assigns slots to rows; `lift` leaves a unit's changes to the next fetch, which applies
//!   all of them before it looks keys up. So only the stream of steps touches a table, and no event
//!   is needed for the order. Changes of a later unit may be applied early: a pinned row is in none
//!   of their lists.
//! - **Room.** There are [`PLACES_OF_SLOT`] places per slot. In a full table, a missing or new key
//!   would be compared with all others; at half of that load, a few places are enough. Removed keys
//!   keep their places for searches until the table is rebuilt, before one place in
//!   [`REMOVED_PART`] has a removed key: so at most three quarters of all places are taken.
//! - **Rebuild.** The keys come from the host, which records the key in each slot.
//! - **Failure.** Keys that are not found, or already present, or find no place mean that planner
//!   and table differ. The device counts all of them, and the counts come down with the rows;
//!   nobody reads a row before they are checked.

use std::ops::Range;

use stepwell_base::{Key, SlotIndex};
use stepwell_device::{Arg, Buffer, Device, Event, Pinned, Stream};
use stepwell_kernels::{TABLE_OWN_PLACES, named};

use super::lookup::{Placed, TableChanges};
use crate::Result;

/// Places of a table per slot of its group.
const PLACES_OF_SLOT: usize = 2;
/// A table is rebuilt before one place in this many has a removed key.
const REMOVED_PART: usize = 4;
/// Bytes of a place: key and slot.
const PLACE_BYTES: usize = size_of::<Key>() + size_of::<SlotIndex>();
/// Host bytes per slot: the slot's key, and whether it has one.
const NOTED_BYTES: usize = size_of::<Key>() + size_of::<bool>();

/// Counts since the start, modulo 2^32: keys inserted, keys that found no place, keys removed, keys
/// looked up but missing.
const COUNTS: usize = 4;
const CAME: Range<usize> = 0..2;
const LEFT: Range<usize> = 2..3;
const MISSING: Range<usize> = 3..4;

/// Number of places for a group of `slots` slots, including those beyond its capacity.
fn places(slots: usize) -> usize {
    PLACES_OF_SLOT * slots + TABLE_OWN_PLACES as usize
}

/// Bytes of a table per slot, and without slots, including the rounding of its two lists to the
/// device's allocation unit.
pub(crate) fn slot_bytes() -> (usize, usize) {
    let unit = Device::bytes_counted(1) as usize;
    (PLACES_OF_SLOT * PLACE_BYTES, TABLE_OWN_PLACES as usize * PLACE_BYTES + 2 * unit)
}

/// Bytes of a device for the tables of groups with these `slots`.
pub(crate) fn tables_bytes(slots: &[usize]) -> u64 {
    let places: usize = slots.iter().map(|slots| places(*slots)).sum();
    [size_of::<Key>(), size_of::<SlotIndex>()]
        .map(|bytes| Device::bytes_counted((places * bytes) as u64))
        .iter()
        .sum()
}

/// Bytes of a device, and as many on the host, for keys sent to tables: `rows` looked up, and
/// `moved` removed or inserted at once.
pub(crate) fn keys_bytes(rows: usize, moved: usize) -> u64 {
    let lists = [8 * rows, 8 * moved, 4 * moved, 4 * COUNTS];
    lists.iter().map(|bytes| Device::bytes_counted(*bytes as u64)).sum()
}

/// Bytes of the host that record the keys of `slots` slots, and changes of `moved` keys at once.
pub(crate) fn noted_bytes(slots: usize, moved: usize) -> u64 {
    (slots * NOTED_BYTES + moved * size_of::<Placed>()) as u64
}

/// The table of one group, as the host tracks it.
#[derive(Debug)]
struct Table {
    group: usize,
    /// Range of the table's places among the places of all tables.
    places: Range<usize>,
    capacity: usize,
    /// The key in each slot that has one. // (slots)
    keys: Vec<Key>,
    is_taken: Vec<bool>,
    /// Maximum number of places with removed keys since the last rebuild.
    removed: usize,
}

impl Table {
    fn new(group: usize, slots: usize, first_place: usize) -> Self {
        let capacity = PLACES_OF_SLOT * slots;
        assert!(u32::try_from(capacity).is_ok(), "a table of {capacity} places");
        Self {
            group,
            places: first_place..first_place + places(slots),
            capacity,
            keys: vec![Key(0); slots],
            is_taken: vec![false; slots],
            removed: 0,
        }
    }

    /// Records `changes`; returns whether the table must be rebuilt for them.
    fn note(&mut self, changes: &TableChanges) -> bool {
        if changes.all_leave {
            self.is_taken.fill(false);
        }
        for Placed { key, slot } in &changes.left {
            let had = std::mem::take(&mut self.is_taken[slot.at()]);
            let is = self.keys[slot.at()];
            let (group, slot) = (self.group, slot.0);
            assert!(
                had && is == *key,
                "key {:016x} leaves slot {slot} of group {group}, which has {is:?} (taken: {had})",
                key.0
            );
        }
        for Placed { key, slot } in &changes.came {
            let had = std::mem::replace(&mut self.is_taken[slot.at()], true);
            let is = std::mem::replace(&mut self.keys[slot.at()], *key);
            let (group, slot) = (self.group, slot.0);
            assert!(!had, "key {:016x} gets slot {slot} of group {group}: {is:?} has it", key.0);
        }
        self.removed += changes.left.len();
        let is_anew = changes.all_leave || self.removed * REMOVED_PART > self.capacity;
        if is_anew {
            self.removed = 0;
        }
        is_anew
    }

    /// All keys and slots in the table.
    fn all(&self) -> impl Iterator<Item = Placed> {
        let taken = self.is_taken.iter().zip(&self.keys).zip(0..);
        taken
            .filter(|((taken, _), _)| **taken)
            .map(|((_, key), slot)| Placed { key: *key, slot: SlotIndex(slot) })
    }
}

/// Buffers for keys sent to a device for removal or insertion.
#[derive(Debug)]
struct Moving {
    keys_host: Pinned<u64>,
    keys: Buffer<u64>,
    slots_host: Pinned<u32>,
    slots: Buffer<u32>,
    /// Keys being sent.
    piece: Vec<Placed>,
    over: Event,
}

/// The tables of one device.
#[derive(Debug)]
pub(crate) struct Tables {
    of_groups: Vec<Table>,
    places: Places,
    asked_host: Pinned<u64>,
    asked: Buffer<u64>,
    moving: Moving,
    counts: Counts,
}

/// Keys and slots in the places of all tables.
#[derive(Debug)]
struct Places {
    keys: Buffer<u64>,
    slots: Buffer<u32>,
}

/// Counts of keys by the device, and by the host, which expects the same.
#[derive(Debug)]
struct Counts {
    host: Pinned<u32>,
    device: Buffer<u32>,
    expected: [u32; COUNTS],
}

impl Tables {
    /// Tables of `device` for groups with these `slots`, used only in `stream`. At once, `rows`
    /// keys are looked up, and `moved` removed or inserted. Each table must be rebuilt before its
    /// first use.
    pub(crate) fn new(
        device: &Device,
        stream: &Stream,
        slots: &[usize],
        rows: usize,
        moved: usize,
    ) -> Result<Self> {
        let mut end = 0;
        let of_groups = slots.iter().enumerate().map(|(group, slots)| {
            let table = Table::new(group, *slots, end);
            end = table.places.end;
            table
        });
        let of_groups = of_groups.collect();
        let counts = Counts {
            host: device.pinned(COUNTS, "counts of hash tables")?,
            device: device.buffer(COUNTS, "counts of hash tables")?,
            expected: [0; COUNTS],
        };
        stream.clear(&counts.device, 0..COUNTS)?;
        Ok(Self {
            of_groups,
            places: Places {
                keys: device.buffer(end, "keys of hash tables")?,
                slots: device.buffer(end, "slots in hash tables")?,
            },
            asked_host: device.pinned(rows, "keys of a step")?,
            asked: device.buffer(rows, "keys of a step")?,
            moving: Moving {
                keys_host: device.pinned(moved, "keys for hash tables")?,
                keys: device.buffer(moved, "keys for hash tables")?,
                slots_host: device.pinned(moved, "slots for hash tables")?,
                slots: device.buffer(moved, "slots for hash tables")?,
                piece: Vec::with_capacity(moved),
                over: device.event()?,
            },
            counts,
        })
    }

    /// Removes and inserts keys in the table of group `group`; returns the number of words copied
    /// up. Overwrites `lists`.
    pub(crate) fn change(
        &mut self,
        stream: &Stream,
        lists: &Buffer<u32>,
        group: usize,
        changes: &TableChanges,
    ) -> Result<usize> {
        let is_anew = self.of_groups[group].note(changes);
        let table = &self.of_groups[group];
        let (left, came) = (changes.left.iter().copied(), changes.came.iter().copied());
        let (args, moving) = (TableArgs { of: &self.places, table }, &mut self.moving);
        if !is_anew {
            return moving.send(stream, lists, &mut self.counts, args, left, came);
        }
        let clear = args.with([]);
        stream.launch(named("table_clear"), table.places.len(), clear)?;
        moving.send(stream, lists, &mut self.counts, args, std::iter::empty(), table.all())
    }

    /// Looks up `keys`, `counts` of each group in order, and writes their slots to the start of
    /// `lists`. Returns the number of words copied up.
    pub(crate) fn find(
        &mut self,
        stream: &Stream,
        lists: &Buffer<u32>,
        keys: impl Iterator<Item = Key>,
        counts: &[usize],
    ) -> Result<usize> {
        let count = counts.iter().sum();
        let places = self.asked_host.write(count)?;
        places.iter_mut().zip(keys).for_each(|(place, key)| *place = key.0);
        stream.up(&self.asked_host, 0..count, &self.asked, 0)?;
        let mut first = 0;
        for (table, count) in self.of_groups.iter().zip(counts) {
            let range = first..first + count;
            let args = TableArgs { of: &self.places, table }.with([
                Arg::part(&self.asked, range.clone()),
                Arg::u32(*count as u32),
                Arg::part(lists, range.clone()),
                Arg::part(&self.counts.device, MISSING),
            ]);
            stream.launch(named("table_get"), *count, args)?;
            first = range.end;
        }
        stream.down(&self.counts.device, 0..COUNTS, &self.counts.host, 0)?;
        Ok(2 * count)
    }

    /// Number of words copied down with a fetch.
    pub(crate) const WORDS_DOWN: usize = COUNTS;

    /// Checks the counts, after a fetch from `device`.
    ///
    /// # Panics
    /// If planner and tables differ.
    pub(crate) fn check(&mut self, device: &str) -> Result<()> {
        let expected = self.counts.expected;
        let counted = self.counts.host.read(COUNTS)?;
        assert_eq!(
            counted, expected,
            "{device}: numbers of keys that were inserted into hash tables, found no place, were \
             removed, were not found"
        );
        Ok(())
    }
}

/// Arguments that describe a table to every kernel.
#[derive(Clone, Copy)]
struct TableArgs<'a> {
    of: &'a Places,
    table: &'a Table,
}

impl<'a> TableArgs<'a> {
    /// The table's arguments, then `others`.
    fn with<const N: usize>(self, others: [Arg<'a>; N]) -> Vec<Arg<'a>> {
        let table = [
            Arg::part(&self.of.keys, self.table.places.clone()),
            Arg::part(&self.of.slots, self.table.places.clone()),
            Arg::u32(self.table.capacity as u32),
        ];
        table.into_iter().chain(others).collect()
    }
}

impl Moving {
    /// Removes the keys of `left` from `table` and inserts the keys of `came`, piece by piece; adds
    /// to `counts`, overwrites `lists`, and returns the number of words copied up.
    fn send(
        &mut self,
        stream: &Stream,
        lists: &Buffer<u32>,
        counts: &mut Counts,
        table: TableArgs<'_>,
        left: impl Iterator<Item = Placed>,
        came: impl Iterator<Item = Placed>,
    ) -> Result<usize> {
        let (mut left, mut came) = (left.peekable(), came.peekable());
        let room = self.keys_host.len();
        let mut words = 0;
        while left.peek().is_some() || came.peek().is_some() {
            self.piece.clear();
            self.piece.extend(left.by_ref().take(room));
            let leave = self.piece.len();
            self.piece.extend(came.by_ref().take(room - leave));
            let count = self.piece.len();
            // The previous piece was sent from the same memory.
            self.over.wait()?;
            let (keys, slots) = (self.keys_host.write(count)?, self.slots_host.write(count)?);
            for (placed, (key, slot)) in self.piece.iter().zip(keys.iter_mut().zip(slots)) {
                (*key, *slot) = (placed.key.0, placed.slot.0);
            }
            stream.up(&self.keys_host, 0..count, &self.keys, 0)?;
            stream.up(&self.slots_host, leave..count, &self.slots, leave)?;
            stream.record(&self.over)?;
            words += 2 * count + (count - leave);
            let leaves = table.with([
                Arg::part(&self.keys, 0..leave),
                Arg::u32(leave as u32),
                Arg::first(lists, leave),
                Arg::part(&counts.device, LEFT),
            ]);
            stream.launch(named("table_remove"), leave, leaves)?;
            let comes = table.with([
                Arg::part(&self.keys, leave..count),
                Arg::part(&self.slots, leave..count),
                Arg::u32((count - leave) as u32),
                Arg::first(lists, count - leave),
                Arg::part(&counts.device, CAME),
            ]);
            stream.launch(named("table_insert"), count - leave, comes)?;
            for (of, more) in [(CAME.start, count - leave), (LEFT.start, leave)] {
                counts.expected[of] = counts.expected[of].wrapping_add(more as u32);
            }
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests;
