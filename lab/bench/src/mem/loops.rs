//! The loops to compare: bare loops over the memory of all rows, and loops over the engine's slab
//! and cache.

use stepwell_base::SlotIndex;
use stepwell_base::prefetch::prefetch_row;
use stepwell_base::slab::Slab;
use stepwell_optim::RowOptimizer;

use super::shard::Shard;

/// Prefetch distance of the bare loops in rows.
const AHEAD: usize = 24;
/// Rows held at once in look-ups: two blocks of them fit the processor's first-level cache.
const BLOCK: usize = 32;
/// Rows pooled into one.
pub(super) const POOLED: usize = 10;

/// A pass over a sequence; returns the number of rows, and a value that depends on all of them.
pub(super) type LoopFn = fn(&mut Shard, &RowOptimizer) -> (u64, u32);

/// Pieces of `items` that end at `ends`.
fn batches<'a, T>(items: &'a [T], ends: &'a [usize]) -> impl Iterator<Item = &'a [T]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| &items[start..*end])
}

#[inline]
fn mixed(row: &[f32]) -> u32 {
    row.iter().fold(0, |sum, lane| sum ^ lane.to_bits())
}

#[inline]
fn add(sum: &mut [f32], row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, lane)| *sum += lane);
}

/// Visits one row after another, with known slots.
fn bare(slab: &mut Slab, slots: &[SlotIndex], mut visit: impl FnMut(&mut [f32])) -> u64 {
    let lanes = slab.row_lanes();
    let rows = slab.lanes_mut();
    let at = |slot: &SlotIndex| slot.at() * lanes..(slot.at() + 1) * lanes;
    for (number, slot) in slots.iter().enumerate() {
        if let Some(ahead) = slots.get(number + AHEAD) {
            prefetch_row(&rows[at(ahead)]);
        }
        visit(&mut rows[at(slot)]);
    }
    slots.len() as u64
}

pub(super) fn read_bare(shard: &mut Shard, _: &RowOptimizer) -> (u64, u32) {
    let mut sum = 0;
    let Shard { slab, skewed, .. } = shard;
    let rows = bare(slab, &skewed.slots, |row| sum ^= mixed(row));
    (rows, sum)
}

/// Finds the slots of keys, holds the rows that exist, and reads them block by block, while the
/// next block is prefetched.
pub(super) fn look_up(shard: &mut Shard, _: &RowOptimizer) -> (u64, u32) {
    let Shard { slab, cache, skewed, .. } = shard;
    let mut reader = Reader { slab, slots: Vec::with_capacity(2 * BLOCK), rows: 0, sum: 0 };
    for keys in batches(&skewed.keys, &skewed.key_ends) {
        cache.find_each(keys, |slot| {
            if let Some(slot) = slot {
                reader.meet(slot);
            }
        });
        reader.read(reader.slots.len());
    }
    (reader.rows, reader.sum)
}

/// Reads rows one block after prefetching them.
struct Reader<'a> {
    slab: &'a Slab,
    /// Prefetched and not read yet.
    slots: Vec<SlotIndex>,
    rows: u64,
    sum: u32,
}

impl Reader<'_> {
    #[inline]
    fn meet(&mut self, slot: SlotIndex) {
        self.slab.prefetch(slot);
        self.slots.push(slot);
        if self.slots.len() == 2 * BLOCK {
            self.read(BLOCK);
        }
    }

    /// Reads the `count` rows that were prefetched first.
    fn read(&mut self, count: usize) {
        let held = self.slab.hold(&self.slots[..count]);
        let all = (0..held.len()).map(|number| mixed(held.row(number)));
        self.sum = all.fold(self.sum, |sum, mixed| sum ^ mixed);
        self.rows += held.len() as u64;
        drop(held);
        self.slots.drain(..count);
    }
}

pub(super) fn gather_bare(shard: &mut Shard, _: &RowOptimizer) -> (u64, u32) {
    let Shard { slab, uniform, .. } = shard;
    let mut pooled = vec![0.0; slab.row_lanes()];
    let (mut sum, mut number) = (0, 0);
    let rows = bare(slab, &uniform.slots, |row| {
        add(&mut pooled, row);
        number += 1;
        if number % POOLED == 0 {
            sum ^= mixed(&pooled);
            pooled.fill(0.0);
        }
    });
    (rows, sum)
}

/// Pools rows with slots from a plan.
pub(super) fn gather(shard: &mut Shard, _: &RowOptimizer) -> (u64, u32) {
    let mut pooled = vec![0.0; shard.slab.row_lanes()];
    let (mut sum, mut seen) = (0, 0);
    for slots in batches(&shard.uniform.slots, &shard.uniform.slot_ends) {
        let held = shard.slab.hold(slots);
        let rows = held.rows();
        for number in 0..held.len() {
            rows.prefetch(number + AHEAD, pooled.len());
            add(&mut pooled, rows.row(number));
            seen += 1;
            if seen % POOLED == 0 {
                sum ^= mixed(&pooled);
                pooled.fill(0.0);
            }
        }
    }
    (shard.uniform.slots.len() as u64, sum)
}

pub(super) fn update_bare(shard: &mut Shard, _: &RowOptimizer) -> (u64, u32) {
    let touch = |row: &mut [f32]| row.iter_mut().for_each(|lane| *lane += 1e-6);
    let Shard { slab, uniform, .. } = shard;
    (bare(slab, &uniform.slots, touch), 0)
}

/// Updates rows with slots from a plan, with the rule of a row optimizer.
pub(super) fn update(shard: &mut Shard, optimizer: &RowOptimizer) -> (u64, u32) {
    let lanes = shard.slab.row_lanes();
    let gradient = vec![1e-3; lanes / 2];
    for slots in batches(&shard.uniform.slots, &shard.uniform.slot_ends) {
        let mut held = shard.slab.hold(slots);
        let mut rows = held.rows_mut();
        for number in 0..rows.len() {
            rows.prefetch(number + AHEAD);
            let (weights, state) = rows.row(number).split_at_mut(lanes / 2);
            optimizer.update(weights, state, &gradient);
        }
    }
    (shard.uniform.slots.len() as u64, 0)
}
