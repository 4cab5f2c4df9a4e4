//! Memory of fixed-size rows that several threads use concurrently, each its own rows.
//!
//! - **Why.** The rows of a table group are in one mapping of many gigabytes. While one batch
//!   trains on its rows, the rows of later batches are copied in and out. No lock may guard the
//!   whole mapping while rows are used, and a lock per row would cost more than the row's metadata.
//!
//! - **How.** One bit of state per slot. [`Slab::hold`] marks every slot of a list as held and
//!   panics if one is already held, by another thread or twice in the list; the guard gives access
//!   to exactly those rows and marks them free on drop. The planner's pins make a clash impossible;
//!   the bit asserts this, also in release builds.
//!
//! ```text
//! slot        0        1        2        3
//! held        0        1        1        0          one bit each
//! rows   [ lanes ][ lanes ][ lanes ][ lanes ]       f32, `row_lanes` each, no padding
//! ```
//!
//! - **Invariants.** A row's memory is reachable only through the one guard that holds its slot.
//! - **Cost.** One bit per slot. With 4 M rows, holding one took 2.4 ns and releasing it 1.9; with
//!   an atomic change of each word, holding alone took 4.3.
//! - **Shared.** The bits, under one lock that is taken once to hold a list and once to release it.

#![expect(unsafe_code, reason = "rows of one mapping are lent to several threads at once")]

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::huge::Mapping;
use crate::ids::SlotIndex;
use crate::prefetch::{prefetch, prefetch_at, prefetch_lanes};

/// Number of slots whose states are in one word.
const WORD_SLOTS: usize = u64::BITS as usize;
/// Slots between the prefetch of a state and its use.
const STATES_AHEAD: usize = 32;

/// A mapping of `slots` rows of `row_lanes` f32 each, initially zero.
pub struct Slab {
    base: *mut f32,
    row_lanes: usize,
    slots: usize,
    /// One bit per slot, set while it is held.
    held: Mutex<Box<[u64]>>,
    /// Owns the memory that `base` points into; never accessed again after construction.
    _memory: Mapping,
}

// SAFETY: `base` points into `_memory`, which the slab owns and which does not move; rows are
// reached only through `Held`, which excludes every other holder of the same slot.
unsafe impl Send for Slab {}
// SAFETY: as above; the states are behind a lock.
unsafe impl Sync for Slab {}

impl std::fmt::Debug for Slab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slab")
            .field("slots", &self.slots())
            .field("row_lanes", &self.row_lanes)
            .finish_non_exhaustive()
    }
}

impl Slab {
    /// Maps memory for `slots` rows of `row_lanes` f32, with huge pages if possible.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    pub fn new(slots: usize, row_lanes: usize) -> std::io::Result<Self> {
        assert!(row_lanes > 0, "a row has at least one lane");
        let lanes = slots.checked_mul(row_lanes);
        let bytes = lanes.and_then(|lanes| lanes.checked_mul(size_of::<f32>()));
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
        let mut memory = Mapping::new(bytes.ok_or(std::io::ErrorKind::OutOfMemory)?)?;
        let base = memory.as_mut_ptr().cast::<f32>();
        let held = Mutex::new(vec![0; slots.div_ceil(WORD_SLOTS)].into());
        Ok(Self { base, row_lanes, slots, held, _memory: memory })
    }

    /// Number of rows.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Number of lanes (f32) of a row.
    pub fn row_lanes(&self) -> usize {
        self.row_lanes
    }

    /// All rows, one after another; no row may be held. // (slots, row_lanes)
    pub fn lanes_mut(&mut self) -> &mut [f32] {
        let lanes = self.slots() * self.row_lanes;
        // SAFETY: the mapping has this many lanes, all initialized with zeros by the system; `&mut
        // self` excludes every guard.
        unsafe { std::slice::from_raw_parts_mut(self.base, lanes) }
    }

    /// Bytes of a slab of `slots` rows, including states.
    pub fn bytes_for(slots: u64, row_lanes: usize) -> u64 {
        let states = slots.div_ceil(WORD_SLOTS as u64) * size_of::<u64>() as u64;
        slots * (row_lanes * size_of::<f32>()) as u64 + states
    }

    /// Holds the rows of `slots` as long as the guard lives.
    ///
    /// # Panics
    /// If a slot is out of range, occurs twice in `slots`, or is already held: the planner's pins
    /// rule that out, so it is a broken invariant and not an operating error.
    pub fn hold<'a>(&'a self, slots: &'a [SlotIndex]) -> Held<'a> {
        // Declared first, so that marked slots are freed after the lock, whatever happens.
        let mut held = Held { slab: self, slots, taken: 0 };
        let mut states = self.states();
        for (number, slot) in slots.iter().enumerate() {
            ask_ahead(&states, slots, number);
            assert!(slot.at() < self.slots, "slot {} of {}", slot.0, self.slots);
            let word = &mut states[slot.at() / WORD_SLOTS];
            let bit = bit_of(*slot);
            assert!(*word & bit == 0, "slot {} is held twice", slot.0);
            *word |= bit;
            held.taken += 1;
        }
        drop(states);
        held
    }

    /// Appends to `free`, for each of `slots`, whether its row is not held at the moment.
    ///
    /// # Panics
    /// If a slot is out of range.
    pub fn which_are_free(&self, slots: &[SlotIndex], free: &mut Vec<bool>) {
        let states = self.states();
        free.extend(slots.iter().enumerate().map(|(number, slot)| {
            ask_ahead(&states, slots, number);
            assert!(slot.at() < self.slots, "slot {} of {}", slot.0, self.slots);
            states[slot.at() / WORD_SLOTS] & bit_of(*slot) == 0
        }));
    }

    /// Prefetches the row of `slot`, which will be held soon.
    #[inline]
    pub fn prefetch(&self, slot: SlotIndex) {
        if slot.at() < self.slots {
            prefetch_lanes(self.base.wrapping_add(slot.at() * self.row_lanes), self.row_lanes);
        }
    }

    /// If marking panicked, it marked only what its guard then frees.
    fn states(&self) -> MutexGuard<'_, Box<[u64]>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exclusive access to the rows of a list of slots, by their position in that list.
#[derive(Debug)]
pub struct Held<'a> {
    slab: &'a Slab,
    slots: &'a [SlotIndex],
    taken: usize,
}

impl Held<'_> {
    /// Number of rows held.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no row is held.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The `index`-th row of the list. // (row_lanes)
    #[inline]
    pub fn row(&self, index: usize) -> &[f32] {
        self.rows().row(index)
    }

    /// All rows for reading, as a value that loops keep in registers.
    #[inline]
    pub fn rows(&self) -> Rows<'_> {
        Rows { places: self.places(), _guard: PhantomData }
    }

    fn places(&self) -> Places<'_> {
        Places { base: self.slab.base, row_lanes: self.slab.row_lanes, slots: self.slots }
    }

    /// All rows for writing, which can be split among threads.
    pub fn rows_mut(&mut self) -> RowsMut<'_> {
        RowsMut { places: self.places(), _guard: PhantomData }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let slots = &self.slots[..self.taken];
        let mut states = self.slab.states();
        for (number, slot) in slots.iter().enumerate() {
            ask_ahead(&states, slots, number);
            states[slot.at() / WORD_SLOTS] &= !bit_of(*slot);
        }
    }
}

fn bit_of(slot: SlotIndex) -> u64 {
    1 << (slot.at() % WORD_SLOTS)
}

/// Prefetches the state of a later slot.
#[inline]
fn ask_ahead(states: &[u64], slots: &[SlotIndex], number: usize) {
    let ahead = slots.get(number + STATES_AHEAD);
    if let Some(word) = ahead.and_then(|slot| states.get(slot.at() / WORD_SLOTS)) {
        prefetch(word);
    }
}

/// Where the rows of held slots are.
#[derive(Clone, Copy, Debug)]
struct Places<'a> {
    base: *mut f32,
    row_lanes: usize,
    slots: &'a [SlotIndex],
}

impl Places<'_> {
    #[inline(always)]
    fn pointer(&self, index: usize) -> *mut f32 {
        // SAFETY: the slots are held, so they are below the number of slots: the row is inside the
        // mapping.
        unsafe { self.base.add(self.slots[index].at() * self.row_lanes) }
    }

    #[inline(always)]
    fn prefetch(&self, index: usize, lanes: usize) {
        if let Some(slot) = self.slots.get(index) {
            prefetch_lanes(self.base.wrapping_add(slot.at() * self.row_lanes), lanes);
        }
    }
}

/// Readable rows of a guard.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    places: Places<'a>,
    _guard: PhantomData<&'a [f32]>,
}

// SAFETY: like shared references to the rows, which the guard protects from writers.
unsafe impl Send for Rows<'_> {}
// SAFETY: as above.
unsafe impl Sync for Rows<'_> {}

impl<'a> Rows<'a> {
    /// The `index`-th row of the list. // (row_lanes)
    #[inline(always)]
    pub fn row(&self, index: usize) -> &'a [f32] {
        let pointer = self.places.pointer(index);
        // SAFETY: the slot is held by the guard, which is borrowed for reading, so the row isn't
        // written; the result cannot outlive the guard.
        unsafe { std::slice::from_raw_parts(pointer, self.places.row_lanes) }
    }

    /// Prefetches the first `lanes` lanes of the `index`-th row, if there is one.
    #[inline(always)]
    pub fn prefetch(&self, index: usize, lanes: usize) {
        self.places.prefetch(index, lanes);
    }

    /// Prefetches the slot number of the `index`-th row, so that prefetching the row doesn't wait
    /// for it.
    #[inline(always)]
    pub fn prefetch_place(&self, index: usize) {
        prefetch_at(self.places.slots, index);
    }
}

/// Writable rows of a guard; disjoint parts may go to different threads.
#[derive(Debug)]
pub struct RowsMut<'a> {
    places: Places<'a>,
    _guard: PhantomData<&'a mut [f32]>,
}

// SAFETY: like a mutable reference to the rows, which no other part has.
unsafe impl Send for RowsMut<'_> {}

impl<'a> RowsMut<'a> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.places.slots.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.places.slots.is_empty()
    }

    /// The first `mid` rows, and the rest.
    pub fn split_at(self, mid: usize) -> (RowsMut<'a>, RowsMut<'a>) {
        let (left, right) = self.places.slots.split_at(mid);
        let part = |slots| RowsMut { places: Places { slots, ..self.places }, _guard: PhantomData };
        (part(left), part(right))
    }

    /// The `index`-th row. // (row_lanes)
    #[inline(always)]
    pub fn row(&mut self, index: usize) -> &mut [f32] {
        let pointer = self.places.pointer(index);
        // SAFETY: the guard's slots are distinct and parts are disjoint, so only this part reaches
        // the row; `&mut self` allows one row reference at a time.
        unsafe { std::slice::from_raw_parts_mut(pointer, self.places.row_lanes) }
    }

    /// Prefetches the `index`-th row, if there is one.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        self.places.prefetch(index, self.places.row_lanes);
    }
}

#[cfg(test)]
mod tests;
