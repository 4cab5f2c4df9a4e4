//! The gradient of a row from the sums of all ranks that have it, as one rank would sum it.
//!
//! A rank sums its bags by subtree ([`Blocks::subtrees`]), each as [`super::sums`] says. Two
//! subtrees meet where two blocks of them would: where the numbers of their first blocks begin to
//! differ. So the same stack of sums is enough, and the sum has the same bits.

use stepwell_base::tiles::{add, copy};
use stepwell_fabric::{Malformed, Message};
use stepwell_mem::Occurrence;

use super::blocks::Blocks;
use super::sums::{RowGradients, SumsRoom};
use crate::request::BagsByRow;

/// Sums of one rank's bags of one table's rows, as they came.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankSums<'a> {
    /// Which of its subtrees each row that it asked for has a sum of. // (rows)
    pub(super) subtrees: &'a [u32],
    /// Examples and positive examples with each row. // (rows, 2)
    pub(super) seen: &'a [u32],
    /// The sums, row by row. // (sums, width)
    pub(super) sums: &'a [f32],
}

impl<'a> RankSums<'a> {
    /// Reads those of the next table.
    pub(super) fn read(
        reader: &mut stepwell_fabric::Reader<'a>,
        (rows, width): (usize, usize),
        blocks: Blocks,
    ) -> Result<Self, Malformed> {
        let subtrees: &[u32] = reader.take_exactly(rows)?;
        let seen = reader.take_exactly(2 * rows)?;
        let all = (1u64 << blocks.subtrees().count()) - 1;
        if subtrees.iter().any(|mask| *mask == 0 || u64::from(*mask) > all) {
            return Err(Malformed::Wrong("it has sums of subtrees that its sender has not"));
        }
        let count: usize = subtrees.iter().map(|mask| mask.count_ones() as usize).sum();
        Ok(Self { subtrees, seen, sums: reader.take_exactly(count * width)? })
    }
}

/// Sums of all ranks for one table's rows.
#[derive(Debug)]
pub(super) struct Partials<'a> {
    /// By rank.
    ranks: Vec<RankSums<'a>>,
    /// First block of each subtree of each rank. // (ranks) of (subtrees)
    firsts: Vec<Vec<u32>>,
    /// Where the rows that each rank asked for end among all that were asked for. // (ranks)
    ends: Vec<u32>,
    /// Number of the first sum of each, among its rank's. // (asked for)
    places: Vec<u32>,
    /// Who asked for each row, by number among all that were asked for.
    asked: &'a BagsByRow,
}

impl<'a> Partials<'a> {
    /// Those of `ranks`, of whose rows `asked` says which is which; `blocks` are those of all.
    pub(super) fn new(ranks: Vec<RankSums<'a>>, blocks: Blocks, asked: &'a BagsByRow) -> Self {
        let firsts = |rank| {
            let own = blocks.of_rank(rank, ranks.len());
            own.subtrees().map(|subtree| (own.first() + subtree.start) as u32).collect()
        };
        let firsts = (0..ranks.len()).map(firsts).collect();
        let mut ends = Vec::with_capacity(ranks.len());
        let mut places = Vec::with_capacity(asked.bags.len());
        for rank in &ranks {
            let mut before = 0;
            places.extend(rank.subtrees.iter().map(|mask| {
                let place = before;
                before += mask.count_ones();
                place
            }));
            ends.push(places.len() as u32);
        }
        assert_eq!(places.len(), asked.bags.len(), "sums for all rows that were asked for");
        Self { ranks, firsts, ends, places, asked }
    }
}

/// Combines the sums of one row after the other.
pub(super) struct Combined<'a> {
    partials: &'a Partials<'a>,
    /// The stack. // (sums, width)
    sums: &'a mut [f32],
    width: usize,
}

impl<'a> Combined<'a> {
    #[inline(always)]
    pub(super) fn new(partials: &'a Partials<'a>, width: usize, room: &'a mut SumsRoom) -> Self {
        let last = partials.firsts.iter().flatten().max().map_or(1, |last| *last as usize + 1);
        Self { partials, sums: room.stack(width, last), width }
    }

    /// Puts a sum on the stack of `depth`, whose subtrees begin at `firsts`; gives its new depth.
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

    /// Adds the sum number `upper` of the stack to the one below it.
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
            let (of_rank, number) = (&partials.ranks[rank], (asked - before) as usize);
            seen.examples += of_rank.seen[2 * number];
            seen.positives += of_rank.seen[2 * number + 1];
            let mut place = partials.places[*asked as usize] as usize * width;
            let mut mask = of_rank.subtrees[number];
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

/// Adds to `message` what the owner of `rows` needs of one table, as [`RankSums::read`] reads it:
/// the sums of each of `bags` over the subtrees of `blocks`.
pub(super) fn write<G: FnMut(std::ops::Range<usize>, &mut [f32]) -> Occurrence>(
    message: &mut Message,
    (rows, width): (&[u32], usize),
    bags: &BagsByRow,
    (blocks, fields): (Blocks, usize),
    mut sum: G,
) {
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
    let mut count = 0;
    let masks: &mut [u32] = message.room(rows.len());
    for (mask, row) in masks.iter_mut().zip(rows) {
        let bits = of_subtrees(*row).enumerate().filter(|(_, bags)| !bags.is_empty());
        *mask = bits.map(|(subtree, _)| 1 << subtree).sum();
        count += mask.count_ones() as usize;
    }
    let (seen_of_rows, sums) = message.two_rooms::<u32, f32>(2 * rows.len(), count * width);
    let mut places = sums.chunks_exact_mut(width.max(1));
    for (seen_of_row, row) in seen_of_rows.chunks_exact_mut(2).zip(rows) {
        for bags in of_subtrees(*row).filter(|bags| !bags.is_empty()) {
            let Some(place) = places.next() else { continue };
            let seen = sum(bags, place);
            seen_of_row[0] += seen.examples;
            seen_of_row[1] += seen.positives;
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;
    use crate::rows::Gradients;
    use crate::rows::sums::{Sums, TableBags};
    use crate::{Bags, Field, Grouper, Request};

    const EXAMPLES: usize = 61;
    const FIELDS: usize = 3;
    const DIM: usize = 5;

    /// Gradients of a mini-batch, or of a rank's part of it.
    #[derive(Clone)]
    struct Of {
        d_x: Vec<f32>,
        d_first_order: Vec<f32>,
        labels: Vec<f32>,
        bags: Bags,
    }

    impl Of {
        fn draw(random: &mut Stream, keys: u64) -> Self {
            let mut numbers = |count| (0..count).map(|_| random.next_symmetric(1.0)).collect();
            let (d_x, d_first_order) = (numbers(EXAMPLES * FIELDS * DIM), numbers(EXAMPLES));
            let d_first_order: Vec<f32> = d_first_order;
            let labels = d_first_order.iter().map(|d| f32::from(u8::from(*d > 0.3))).collect();
            let mut bags = Bags::default();
            for _ in 0..EXAMPLES * FIELDS {
                let ids = random.next_u64() % 4;
                bags.keys.extend((0..ids).map(|_| stepwell_base::Key(random.next_u64() % keys)));
                bags.ends.push(bags.keys.len() as u32);
            }
            bags.weights = bags.keys.iter().map(|_| random.next_symmetric(2.0)).collect();
            Self { d_x, d_first_order, labels, bags }
        }

        fn of_rank(&self, blocks: Blocks) -> Self {
            let place = blocks.place();
            let bag = |example: usize| match example * FIELDS {
                0 => 0,
                bags => self.bags.ends[bags - 1] as usize,
            };
            let ids = bag(place.start)..bag(place.end);
            let ends = &self.bags.ends[place.start * FIELDS..place.end * FIELDS];
            let width = FIELDS * DIM;
            Self {
                d_x: self.d_x[place.start * width..place.end * width].to_vec(),
                d_first_order: self.d_first_order[place.clone()].to_vec(),
                labels: self.labels[place].to_vec(),
                bags: Bags {
                    keys: self.bags.keys[ids.clone()].to_vec(),
                    weights: self.bags.weights[ids.clone()].to_vec(),
                    ends: ends.iter().map(|end| end - ids.start as u32).collect(),
                },
            }
        }

        fn gradients(&self) -> Gradients<'_> {
            let Self { d_x, d_first_order, labels, .. } = self;
            Gradients { d_x, d_first_order, labels }
        }

        /// Its bags by row.
        fn by_row(&self) -> (Request, BagsByRow) {
            let request = Grouper::default().group(&self.bags);
            let mut by_row = BagsByRow::default();
            by_row.sort(&request);
            (request, by_row)
        }

        fn table<'a>(
            &'a self,
            bags: &'a BagsByRow,
            fields: &'a [Field],
            blocks: Blocks,
        ) -> TableBags<'a> {
            let (gradients, columns) = (self.gradients(), FIELDS * DIM);
            TableBags { bags, gradients, fields, columns, blocks }
        }
    }

    /// What a rank with `blocks` sends for all of its rows, and their keys.
    fn sums_of(whole: &Of, fields: &[Field], blocks: Blocks) -> (Message, Bags) {
        let own = whole.of_rank(blocks);
        let (request, by_row) = own.by_row();
        let bags = own.table(&by_row, fields, blocks);
        let (mut message, mut room) = (Message::new(), SumsRoom::default());
        let rows: Vec<u32> = (0..request.distinct.len() as u32).collect();
        let mut sums = Sums::<true>::new(&bags, (DIM, DIM + 1), &mut room);
        write(&mut message, (&rows, DIM + 1), &by_row, (blocks, FIELDS), |bags, place| {
            let (sum, seen) = sums.gradient(bags);
            place.copy_from_slice(sum);
            seen
        });
        let ends = vec![request.distinct.len() as u32];
        (message, Bags { keys: request.distinct, ends, ..Bags::default() })
    }

    #[test]
    fn ranks_sum_to_the_bits_of_one() {
        let mut random = Stream::named(1, b"combine");
        let fields: Vec<Field> = (0..FIELDS).map(|field| Field::sum(field * DIM)).collect();
        for (keys, count) in [(3, 8), (40, 8), (400, 8), (40, 5), (40, 13), (3, 64)] {
            let whole = Of::draw(&mut random, keys);
            let (request, by_row) = whole.by_row();
            let blocks = Blocks::new(EXAMPLES, count);
            let bags = whole.table(&by_row, &fields, blocks);
            let mut room = SumsRoom::default();
            let mut wanted = Sums::<true>::new(&bags, (DIM, DIM + 1), &mut room);
            for ranks in 1..=count.min(9) {
                let own = |rank| blocks.of_rank(rank, ranks);
                let sent: Vec<_> =
                    (0..ranks).map(|rank| sums_of(&whole, &fields, own(rank))).collect();
                let mut asked = Bags::default();
                for (_, rows) in &sent {
                    asked.keys.extend_from_slice(&rows.keys);
                }
                asked.ends = (1..=asked.keys.len() as u32).collect();
                let union = Grouper::default().group(&asked);
                assert_eq!(union.distinct, request.distinct, "in the order of one rank");
                let mut askers = BagsByRow::default();
                askers.sort(&union);
                let mut of_ranks = Vec::new();
                for (rank, (message, rows)) in sent.iter().enumerate() {
                    let shape = (rows.keys.len(), DIM + 1);
                    let sums = RankSums::read(&mut message.reader(), shape, own(rank));
                    of_ranks.push(sums.unwrap());
                }
                let partials = Partials::new(of_ranks, blocks, &askers);
                let mut room = SumsRoom::default();
                let mut combined = Combined::new(&partials, DIM + 1, &mut room);
                for row in 0..union.distinct.len() {
                    let (sum, seen) = wanted.of(row);
                    let (same, also) = combined.of(row);
                    assert_eq!(
                        same, sum,
                        "row {row} of {keys} keys, {count} blocks, {ranks} ranks"
                    );
                    let seen = (seen.examples, seen.positives);
                    assert_eq!((also.examples, also.positives), seen, "{row}, {ranks} ranks");
                }
            }
        }
    }

    #[test]
    fn sums_that_nobody_could_have_sent_are_refused() {
        let mut random = Stream::named(2, b"combine");
        let whole = Of::draw(&mut random, 20);
        let fields: Vec<Field> = (0..FIELDS).map(|field| Field::sum(field * DIM)).collect();
        let blocks = Blocks::new(EXAMPLES, 8).of_rank(1, 3);
        let (message, rows) = sums_of(&whole, &fields, blocks);
        let shape = (rows.keys.len(), DIM + 1);
        let read = |message: &Message, blocks| {
            RankSums::read(&mut message.reader(), shape, blocks).map(|_| ())
        };
        assert_eq!(read(&message, blocks), Ok(()));
        let one_subtree = Blocks::new(EXAMPLES, 8).of_rank(0, 2);
        assert!(matches!(read(&message, one_subtree), Err(Malformed::Wrong(_))));
        let words = message.words();
        for length in 0..words.len() {
            let cut = Message::from_words(words[..length].to_vec());
            assert!(read(&cut, blocks).is_err(), "cut to {length} of {} words", words.len());
        }
    }
}
