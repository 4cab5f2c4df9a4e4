//! The hash tables of a device, in which a step finds the slots of its rows by their keys.
//!
//! ```text
//!   plan ─► lift ─► changes, in order ─┐
//!                                      ▼   stream `step`, within a fetch
//!   keys that leave ─► table_remove ─► keys that come ─► table_insert ─► table_get ─► lists
//! ```
//!
//! - **How.** Every table group has a table of its own, since two groups may have equal keys. The
//!   planner says which row gets which slot; `lift` leaves what a unit changes behind for the next
//!   fetch, which applies all that was left before it looks keys up. So only the stream of steps
//!   touches a table, and no event orders it. A unit that is ahead may be applied early: a row that
//!   is pinned has a key in no such list.
//! - **Room.** There are [`PLACES_OF_SLOT`] places for each slot. In a full table a key that is not
//!   there, and so each one that comes, is compared with all others; at half of that load the few
//!   next ones are enough. Keys that leave keep their places for searches until the table is made
//!   anew, which happens before [`REMOVED_PART`] of the places could be such: three quarters of all
//!   places are taken at most.
//! - **Anew.** The keys come from the host, which notes what is in each slot.
//! - **Failure.** A key that is not found, one that is there already or that finds no place say
//!   that planner and table differ. All are counted on the device, and the counts come down with
//!   the rows: nobody reads a row before they were looked at.

use std::ops::Range;

use stepwell_base::{Key, SlotIndex};
use stepwell_device::{Arg, Buffer, Device, Event, Pinned, Stream};
use stepwell_kernels::{TABLE_OWN_PLACES, named};

use super::lookup::{Placed, TableChanges};
use super::sizes::DevicePlan;
use crate::Result;

/// Places of a table for each slot of its group.
const PLACES_OF_SLOT: usize = 2;
/// A table is made anew before one place in so many is of a key that left.
const REMOVED_PART: usize = 4;
/// Bytes of a place: a key and a slot.
const PLACE_BYTES: usize = size_of::<Key>() + size_of::<SlotIndex>();
/// Bytes of the host for each slot: which key has it, if one does.
const NOTED_BYTES: usize = size_of::<Key>() + size_of::<bool>();

/// What is counted, from the beginning on and modulo 2^32: keys that came and were new, that found
/// no place, that left, that were asked for and are not there.
const COUNTS: usize = 4;
const CAME: Range<usize> = 0..2;
const LEFT: Range<usize> = 2..3;
const MISSING: Range<usize> = 3..4;

/// Places of the table of a group of `slots` slots, those beyond its capacity included.
fn places(slots: usize) -> usize {
    PLACES_OF_SLOT * slots + TABLE_OWN_PLACES as usize
}

/// Bytes of a table for a slot more, and for one without slots, where the device counts both of its
/// lists in larger units.
pub(super) fn slot_bytes() -> (usize, usize) {
    let unit = Device::bytes_counted(1) as usize;
    (PLACES_OF_SLOT * PLACE_BYTES, TABLE_OWN_PLACES as usize * PLACE_BYTES + 2 * unit)
}

/// Bytes of a device for the tables of groups of so many `slots`.
pub(super) fn tables_bytes(slots: &[usize]) -> u64 {
    let places: usize = slots.iter().map(|slots| places(*slots)).sum();
    [size_of::<Key>(), size_of::<SlotIndex>()]
        .map(|bytes| Device::bytes_counted((places * bytes) as u64))
        .iter()
        .sum()
}

/// Bytes of a device, and as many of the host, for keys on their way to tables: of `rows` rows that
/// are looked up and `moved` that leave or come at once.
pub(super) fn keys_bytes(rows: usize, moved: usize) -> u64 {
    let lists = [8 * rows, 8 * moved, 4 * moved, 4 * COUNTS];
    lists.iter().map(|bytes| Device::bytes_counted(*bytes as u64)).sum()
}

/// Bytes of the host that note which key has which of `slots` slots, and what of them moves, of
/// `moved` at once.
pub(super) fn noted_bytes(slots: usize, moved: usize) -> u64 {
    (slots * NOTED_BYTES + moved * size_of::<Placed>()) as u64
}

/// The table of one group, as the host knows it.
#[derive(Debug)]
struct Table {
    group: usize,
    /// Where its places lie among those of all tables.
    places: Range<usize>,
    capacity: usize,
    /// The key in each slot, where one has it. // (slots)
    keys: Vec<Key>,
    is_taken: Vec<bool>,
    /// Places of keys that left, at most, since it was made anew.
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

    /// Notes `changes`; says whether the table is to be made anew for them.
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

    /// What it has.
    fn all(&self) -> impl Iterator<Item = Placed> {
        let taken = self.is_taken.iter().zip(&self.keys).zip(0..);
        taken
            .filter(|((taken, _), _)| **taken)
            .map(|((_, key), slot)| Placed { key: *key, slot: SlotIndex(slot) })
    }
}

/// Room for keys that leave or come, on their way to a device.
#[derive(Debug)]
struct Moving {
    keys_host: Pinned<u64>,
    keys: Buffer<u64>,
    slots_host: Pinned<u32>,
    slots: Buffer<u32>,
    /// What is on its way now.
    piece: Vec<Placed>,
    over: Event,
}

/// The tables of one device.
#[derive(Debug)]
pub(super) struct Tables {
    of_groups: Vec<Table>,
    places: (Buffer<u64>, Buffer<u32>),
    asked_host: Pinned<u64>,
    asked: Buffer<u64>,
    moving: Moving,
    counts_host: Pinned<u32>,
    counts: Buffer<u32>,
    /// What is to have been counted.
    expected: [u32; COUNTS],
}

/// Where kernels that look nothing up leave what they say of each key: a list that is written anew
/// after them.
type Lists<'a> = &'a Buffer<u32>;

impl Tables {
    /// Tables of `device`, which are touched in `stream` alone. Each is to be made anew first.
    pub(super) fn new(device: &Device, stream: &Stream, plan: &DevicePlan) -> Result<Self> {
        let mut end = 0;
        let of_groups = plan.slots.iter().enumerate().map(|(group, slots)| {
            let table = Table::new(group, *slots, end);
            end = table.places.end;
            table
        });
        let of_groups = of_groups.collect();
        let (rows, moved) = (plan.rows_of_step(), plan.list_words());
        let counts = device.buffer(COUNTS, "counts of hash tables")?;
        stream.clear(&counts, 0..COUNTS)?;
        Ok(Self {
            of_groups,
            places: (
                device.buffer(end, "keys of hash tables")?,
                device.buffer(end, "slots in hash tables")?,
            ),
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
            counts_host: device.pinned(COUNTS, "counts of hash tables")?,
            counts,
            expected: [0; COUNTS],
        })
    }

    /// Takes keys out of the table of group `group` and puts others in; says how many words went
    /// up.
    pub(super) fn change(
        &mut self,
        (stream, lists): (&Stream, Lists<'_>),
        (group, changes): (usize, &TableChanges),
    ) -> Result<usize> {
        let is_anew = self.of_groups[group].note(changes);
        let table = &self.of_groups[group];
        let (left, came) = (changes.left.iter().copied(), changes.came.iter().copied());
        let (args, moving) = (TableArgs { of: &self.places, table }, &mut self.moving);
        let to = (stream, lists, &self.counts);
        if !is_anew {
            return moving.send(to, args, (left, came), &mut self.expected);
        }
        let clear = args.with([]);
        stream.launch(named("table_clear"), table.places.len(), clear)?;
        moving.send(to, args, (std::iter::empty(), table.all()), &mut self.expected)
    }

    /// Looks `keys` up, so many of each group, in the order of groups: their slots begin `lists`.
    /// Says how many words went up.
    pub(super) fn find(
        &mut self,
        (stream, lists): (&Stream, Lists<'_>),
        keys: impl Iterator<Item = Key>,
        counts: &[usize],
    ) -> Result<usize> {
        let count = counts.iter().sum();
        let places = self.asked_host.write(count)?;
        places.iter_mut().zip(keys).for_each(|(place, key)| *place = key.0);
        stream.up((&self.asked_host, 0..count), (&self.asked, 0))?;
        let mut first = 0;
        for (table, count) in self.of_groups.iter().zip(counts) {
            let range = first..first + count;
            let args = TableArgs { of: &self.places, table }.with([
                Arg::part(&self.asked, range.clone()),
                Arg::u32(*count as u32),
                Arg::part(lists, range.clone()),
                Arg::part(&self.counts, MISSING),
            ]);
            stream.launch(named("table_get"), *count, args)?;
            first = range.end;
        }
        stream.down((&self.counts, 0..COUNTS), (&self.counts_host, 0))?;
        Ok(2 * count)
    }

    /// Words that come down with a fetch.
    pub(super) const WORDS_DOWN: usize = COUNTS;

    /// Looks at what was counted, once a fetch is over on `device`.
    ///
    /// # Panics
    /// When planner and tables differ.
    pub(super) fn check(&mut self, device: &str) -> Result<()> {
        let expected = self.expected;
        let counted = self.counts_host.read(COUNTS)?;
        assert_eq!(
            counted, expected,
            "{device}: keys that came to hash tables, found no place, left, were asked for in vain"
        );
        Ok(())
    }
}

/// What every kernel of a table is told of it.
#[derive(Clone, Copy)]
struct TableArgs<'a> {
    of: &'a (Buffer<u64>, Buffer<u32>),
    table: &'a Table,
}

impl<'a> TableArgs<'a> {
    /// The table, then `others`.
    fn with<const N: usize>(self, others: [Arg<'a>; N]) -> Vec<Arg<'a>> {
        let (keys, slots) = self.of;
        let table = [
            Arg::part(keys, self.table.places.clone()),
            Arg::part(slots, self.table.places.clone()),
            Arg::u32(self.table.capacity as u32),
        ];
        table.into_iter().chain(others).collect()
    }
}

impl Moving {
    /// Takes the keys that `left` out of `table` and puts in those that `came`, some at a time;
    /// adds to what is `expected` to be counted, and says how many words went up.
    fn send(
        &mut self,
        (stream, lists, counts): (&Stream, Lists<'_>, &Buffer<u32>),
        table: TableArgs<'_>,
        (left, came): (impl Iterator<Item = Placed>, impl Iterator<Item = Placed>),
        expected: &mut [u32; COUNTS],
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
            // The piece before was read from the same memory.
            self.over.wait()?;
            let (keys, slots) = (self.keys_host.write(count)?, self.slots_host.write(count)?);
            for (placed, (key, slot)) in self.piece.iter().zip(keys.iter_mut().zip(slots)) {
                (*key, *slot) = (placed.key.0, placed.slot.0);
            }
            stream.up((&self.keys_host, 0..count), (&self.keys, 0))?;
            stream.up((&self.slots_host, leave..count), (&self.slots, leave))?;
            stream.record(&self.over)?;
            words += 2 * count + (count - leave);
            let leaves = table.with([
                Arg::part(&self.keys, 0..leave),
                Arg::u32(leave as u32),
                Arg::first(lists, leave),
                Arg::part(counts, LEFT),
            ]);
            stream.launch(named("table_remove"), leave, leaves)?;
            let comes = table.with([
                Arg::part(&self.keys, leave..count),
                Arg::part(&self.slots, leave..count),
                Arg::u32((count - leave) as u32),
                Arg::first(lists, count - leave),
                Arg::part(counts, CAME),
            ]);
            stream.launch(named("table_insert"), count - leave, comes)?;
            for (of, more) in [(CAME.start, count - leave), (LEFT.start, leave)] {
                expected[of] = expected[of].wrapping_add(more as u32);
            }
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests;
