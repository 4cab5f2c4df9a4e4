//! Combines sums of a row's gradient from all ranks into the sum that one rank would compute.
//!
//! A rank sums its bags by subtree ([`Blocks::subtrees`]), each as in [`super`]. Two subtrees
//! meet where two blocks would: at the highest bit in which the numbers of their first blocks
//! differ. So the same stack of sums suffices, and the sum has the same bits.

use stepwell_base::owner::RankOf;
use stepwell_base::tiles::{add, copy};
use stepwell_fabric::{Malformed, Message};
use stepwell_mem::Occurrence;

use super::{RowGradients, SumsRoom, TableBags};
use crate::blocks::Blocks;
use crate::request::{BagsByRow, Request};
use crate::working_set::{Askers, Loan};

/// Shape of the sums for one owner.
#[derive(Clone, Copy, Debug)]
pub(in crate::rows) struct RowsSummed {
    /// Number of rows of one table.
    pub(in crate::rows) rows: usize,
    /// Number of weights of each row.
    pub(in crate::rows) width: usize,
    /// Whether the owner receives how often each row occurs.
    pub(in crate::rows) tells_seen: bool,
}

/// Whether a rank with `blocks` sends masks of the subtrees in which each row has sums; with a
/// single subtree, every row has one sum.
pub(in crate::rows) fn is_masked(blocks: Blocks) -> bool {
    blocks.subtrees().nth(1).is_some()
}

/// Sums of one rank's bags for one table's rows, as received.
#[derive(Clone, Copy, Debug)]
pub(in crate::rows) struct RankSums<'a> {
    rows: usize,
    /// Masks of the subtrees in which each requested row has a sum; empty if there is one subtree,
    /// in which every row has a sum. // (rows)
    subtrees: &'a [u32],
    /// Examples and positive examples with each row; empty if not needed. // (rows, 2)
    seen: &'a [u32],
    /// The sums, row by row. // (sums, width)
    sums: &'a [f32],
}

impl<'a> RankSums<'a> {
    /// Reads the sums of the next table from a rank with `blocks`.
    pub(in crate::rows) fn read(
        reader: &mut stepwell_fabric::Reader<'a>,
        RowsSummed { rows, width, tells_seen }: RowsSummed,
        blocks: Blocks,
    ) -> Result<Self, Malformed> {
        let (mut subtrees, mut count): (&[u32], usize) = (&[], rows);
        if is_masked(blocks) {
            subtrees = reader.take_exactly(rows)?;
            let all = (1u64 << blocks.subtrees().count()) - 1;
            if subtrees.iter().any(|mask| *mask == 0 || u64::from(*mask) > all) {
                return Err(Malformed::Wrong("it sums subtrees that its sender does not have"));
            }
            count = subtrees.iter().map(|mask| mask.count_ones() as usize).sum();
        }
        let seen = if tells_seen { reader.take_exactly(2 * rows)? } else { &[] };
        Ok(Self { rows, subtrees, seen, sums: reader.take_exactly(count * width)? })
    }

    /// Mask of the subtrees in which row `number` has sums.
    #[inline(always)]
    fn mask(&self, number: usize) -> u32 {
        self.subtrees.get(number).copied().unwrap_or(1)
    }

    /// How row `number` occurs: once, if that was not sent.
    #[inline(always)]
    fn seen(&self, number: usize) -> (u32, u32) {
        match self.seen.get(2 * number..2 * number + 2) {
            Some(seen) => (seen[0], seen[1]),
            None => (1, 0),
        }
    }
}

/// Sums of all ranks for one table's rows.
#[derive(Debug)]
pub(in crate::rows) struct Partials<'a> {
    /// Sums of each rank.
    ranks: Vec<RankSums<'a>>,
    /// First block of each rank's subtrees. // (ranks) of (subtrees)
    firsts: Vec<Vec<u32>>,
    /// Where each rank's requested rows end among all requested rows. // (ranks)
    ends: Vec<u32>,
    /// Number of each requested row's first sum among its rank's sums. // (requested)
    places: Vec<u32>,
    /// Number of each requested row among those with sums from its rank; empty if all have. //
    /// (requested)
    numbers: Vec<u32>,
    /// The requesters of each row, by number among all requested rows.
    asked: &'a BagsByRow,
}

impl<'a> Partials<'a> {
    /// Sums of `ranks`; `asked` gives the requesters of each row, `askers` which rows have sums,
    /// and `blocks` are those of all ranks.
    pub(in crate::rows) fn new(
        ranks: Vec<RankSums<'a>>,
        blocks: Blocks,
        asked: &'a BagsByRow,
        askers: &Askers,
        request: &Request,
    ) -> Self {
        let firsts = |rank| {
            let own = blocks.of_rank(RankOf { rank, ranks: ranks.len() });
            own.subtrees().map(|subtree| (own.first() + subtree.start) as u32).collect()
        };
        let firsts = (0..ranks.len()).map(firsts).collect();
        let mut ends = Vec::with_capacity(ranks.len());
        let mut places = Vec::with_capacity(asked.bags.len());
        let mut numbers = Vec::new();
        for (rank, sums) in ranks.iter().enumerate() {
            let (mut before, mut number) = (0, 0);
            for row in &request.occurrence_rows[askers.range(rank)] {
                places.push(before);
                if !askers.loans.is_empty() {
                    numbers.push(number as u32);
                }
                if askers.loan(*row as usize) == Loan::None {
                    before += sums.mask(number).count_ones();
                    number += 1;
                }
            }
            assert_eq!(number, sums.rows, "sums for all rows that were requested and not lent");
            ends.push(places.len() as u32);
        }
        Self { ranks, firsts, ends, places, numbers, asked }
    }
}

/// Combines the sums of one row after another.
pub(in crate::rows) struct Combined<'a> {
    partials: &'a Partials<'a>,
    /// The stack. // (sums, width)
    sums: &'a mut [f32],
    width: usize,
}

impl<'a> Combined<'a> {
    #[inline(always)]
    pub(in crate::rows) fn new(
        partials: &'a Partials<'a>,
        width: usize,
        room: &'a mut SumsRoom,
    ) -> Self {
        let last = partials.firsts.iter().flatten().max().map_or(1, |last| *last as usize + 1);
        Self { partials, sums: room.stack(width, last), width }
    }

    /// Pushes a sum onto the stack of `depth`, whose subtrees begin at `firsts`; returns the new
    /// depth.
    #[inline(always)]
    fn push(&mut self, sum: &[f32], first: u32, firsts: &mut [u32], mut depth: usize) -> usize {
        while depth > 1 && firsts[depth - 2] ^ firsts[depth - 1] < firsts[depth - 1] ^ first {
            depth -= 1;
            self.meet(depth);
        }
        firsts[depth] = first;
        copy(&mut self.sums[depth * self.width..(depth + 1) * self.width], sum);
        depth + 1
    }

    /// Adds sum number `upper` of the stack to the one below it.
    #[inline(always)]
    fn meet(&mut self, upper: usize) {
        let (below, above) = self.sums.split_at_mut(upper * self.width);
        add(&mut below[(upper - 1) * self.width..], &above[..self.width]);
    }
}

impl RowGradients for Combined<'_> {
    #[inline(always)]
    fn of(&mut self, row: usize) -> (&[f32], Occurrence) {
        let (partials, width) = (self.partials, self.width);
        let (mut seen, mut firsts, mut depth) = (Occurrence::default(), [0; SumsRoom::DEPTH], 0);
        let mut rank = 0;
        for asked in partials.asked.of(row) {
            while *asked >= partials.ends[rank] {
                rank += 1;
            }
            let before = if rank == 0 { 0 } else { partials.ends[rank - 1] };
            let number = partials.numbers.get(*asked as usize).copied();
            let number = number.unwrap_or(asked - before) as usize;
            let of_rank = &partials.ranks[rank];
            let (examples, positives) = of_rank.seen(number);
            seen.examples += examples;
            seen.positives += positives;
            let mut place = partials.places[*asked as usize] as usize * width;
            let mut mask = of_rank.mask(number);
            while mask != 0 {
                let first = partials.firsts[rank][mask.trailing_zeros() as usize];
                let sum = &of_rank.sums[place..place + width];
                depth = self.push(sum, first, &mut firsts, depth);
                place += width;
                mask &= mask - 1;
            }
        }
        while depth > 1 {
            depth -= 1;
            self.meet(depth);
        }
        (&self.sums[..width], seen)
    }
}

/// Adds the sums for the owner of `rows` of one table to `message`, in the format of
/// [`RankSums::read`]: the sums of `width` weights over each row's bags of each subtree of blocks,
/// and how often each row occurs if `tells_seen`.
pub(in crate::rows) fn write<G: FnMut(std::ops::Range<usize>, &mut [f32]) -> Occurrence>(
    message: &mut Message,
    rows: &[u32],
    width: usize,
    tells_seen: bool,
    of: &TableBags<'_>,
    mut sum: G,
) {
    let TableBags { bags, blocks, .. } = *of;
    let fields = of.fields.len();
    let ends: Vec<u32> =
        blocks.subtrees().map(|subtree| (blocks.start(subtree.end) * fields) as u32).collect();
    let of_subtrees = |row: u32| {
        let mut from = bags.before(row as usize);
        let all = bags.of(row as usize);
        let start = from;
        ends.iter().map(move |end| {
            let to = start + all.partition_point(|bag| bag < end);
            std::mem::replace(&mut from, to)..to
        })
    };
    let mut count = rows.len();
    if is_masked(blocks) {
        count = 0;
        let masks: &mut [u32] = message.room(rows.len());
        for (mask, row) in masks.iter_mut().zip(rows) {
            let bits = of_subtrees(*row).enumerate().filter(|(_, bags)| !bags.is_empty());
            *mask = bits.map(|(subtree, _)| 1 << subtree).sum();
            count += mask.count_ones() as usize;
        }
    }
    let (seen_of_rows, sums): (&mut [u32], &mut [f32]) = match tells_seen {
        true => message.two_rooms(2 * rows.len(), count * width),
        false => (&mut [], message.room(count * width)),
    };
    let mut seen_of_rows = seen_of_rows.chunks_exact_mut(2);
    let mut places = sums.chunks_exact_mut(width.max(1));
    for row in rows {
        let mut all = Occurrence::default();
        for bags in of_subtrees(*row).filter(|bags| !bags.is_empty()) {
            let Some(place) = places.next() else { continue };
            let seen = sum(bags, place);
            all.examples += seen.examples;
            all.positives += seen.positives;
        }
        if let Some(seen) = seen_of_rows.next() {
            seen.copy_from_slice(&[all.examples, all.positives]);
        }
    }
}

#[cfg(test)]
mod tests;
