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

/// What the sums for one owner are of.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowsSummed {
    /// Rows of one table.
    pub(super) rows: usize,
    /// Weights of each.
    pub(super) width: usize,
    /// Whether the owner is told how often each occurs.
    pub(super) tells_seen: bool,
}

/// Whether a rank that has `blocks` says of which subtrees a row has sums: one that has a single
/// subtree has one sum of each row.
pub(super) fn is_masked(blocks: Blocks) -> bool {
    blocks.subtrees().nth(1).is_some()
}

/// Sums of one rank's bags of one table's rows, as they came.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankSums<'a> {
    rows: usize,
    /// Which of its subtrees each row that it asked for has a sum of; empty where there is one, of
    /// which every row has a sum. // (rows)
    subtrees: &'a [u32],
    /// Examples and positive examples with each row; empty where nobody asks. // (rows, 2)
    seen: &'a [u32],
    /// The sums, row by row. // (sums, width)
    sums: &'a [f32],
}

impl<'a> RankSums<'a> {
    /// Reads those of the next table, from a rank that has `blocks`.
    pub(super) fn read(
        reader: &mut stepwell_fabric::Reader<'a>,
        RowsSummed { rows, width, tells_seen }: RowsSummed,
        blocks: Blocks,
    ) -> Result<Self, Malformed> {
        let (mut subtrees, mut count): (&[u32], usize) = (&[], rows);
        if is_masked(blocks) {
            subtrees = reader.take_exactly(rows)?;
            let all = (1u64 << blocks.subtrees().count()) - 1;
            if subtrees.iter().any(|mask| *mask == 0 || u64::from(*mask) > all) {
                return Err(Malformed::Wrong("it has sums of subtrees that its sender has not"));
            }
            count = subtrees.iter().map(|mask| mask.count_ones() as usize).sum();
        }
        let seen = if tells_seen { reader.take_exactly(2 * rows)? } else { &[] };
        Ok(Self { rows, subtrees, seen, sums: reader.take_exactly(count * width)? })
    }

    /// Which subtrees row `number` has sums of.
    #[inline(always)]
    fn mask(&self, number: usize) -> u32 {
        self.subtrees.get(number).copied().unwrap_or(1)
    }

    /// How row `number` occurs: once, where nobody asks.
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
            places.extend((0..rank.rows).map(|number| {
                let place = before;
                before += rank.mask(number).count_ones();
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

/// Adds to `message` what the owner of `rows` needs of one table, as [`RankSums::read`] reads it:
/// the sums of each of `bags` over the subtrees of `blocks`.
pub(super) fn write<G: FnMut(std::ops::Range<usize>, &mut [f32]) -> Occurrence>(
    message: &mut Message,
    (rows, width, tells_seen): (&[u32], usize, bool),
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
    fn sums_of(whole: &Of, fields: &[Field], blocks: Blocks, tells: bool) -> (Message, Bags) {
        let own = whole.of_rank(blocks);
        let (request, by_row) = own.by_row();
        let bags = own.table(&by_row, fields, blocks);
        let (mut message, mut room) = (Message::new(), SumsRoom::default());
        let rows: Vec<u32> = (0..request.distinct.len() as u32).collect();
        let mut sums = Sums::<true>::new(&bags, (DIM, DIM + 1), &mut room);
        let of = (&rows[..], DIM + 1, tells);
        write(&mut message, of, &by_row, (blocks, FIELDS), |bags, place| {
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
            for (ranks, tells_seen) in (1..=count.min(9)).flat_map(|n| [(n, true), (n, false)]) {
                let own = |rank| blocks.of_rank(rank, ranks);
                let sent: Vec<_> = (0..ranks)
                    .map(|rank| sums_of(&whole, &fields, own(rank), tells_seen))
                    .collect();
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
                    let of = RowsSummed { rows: rows.keys.len(), width: DIM + 1, tells_seen };
                    let mut reader = message.reader();
                    of_ranks.push(RankSums::read(&mut reader, of, own(rank)).unwrap());
                    assert_eq!(reader.end(), Ok(()));
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
                    let (seen, also) =
                        ((seen.examples, seen.positives), (also.examples, also.positives));
                    // That it occurs is known in any case.
                    let known = if tells_seen { also == seen } else { also.0 > 0 };
                    assert!(known, "row {row}, {ranks} ranks: {also:?}, {seen:?}");
                }
            }
        }
    }

    #[test]
    fn sums_that_nobody_could_have_sent_are_refused() {
        let mut random = Stream::named(2, b"combine");
        let whole = Of::draw(&mut random, 20);
        let fields: Vec<Field> = (0..FIELDS).map(|field| Field::sum(field * DIM)).collect();
        // Of two subtrees, and of one.
        for (blocks, tells_seen) in
            [(1, 3), (0, 2)].into_iter().flat_map(|of| [(of, true), (of, false)])
        {
            let blocks = Blocks::new(EXAMPLES, 8).of_rank(blocks.0, blocks.1);
            let (message, rows) = sums_of(&whole, &fields, blocks, tells_seen);
            let of = RowsSummed { rows: rows.keys.len(), width: DIM + 1, tells_seen };
            let read = |message: &Message, blocks, of| {
                let mut reader = message.reader();
                RankSums::read(&mut reader, of, blocks).and_then(|_| reader.end())
            };
            assert_eq!(read(&message, blocks, of), Ok(()));
            let other = Blocks::new(EXAMPLES, 8).of_rank(1, if is_masked(blocks) { 2 } else { 3 });
            assert!(read(&message, other, of).is_err(), "sums of other subtrees");
            let others = RowsSummed { tells_seen: !tells_seen, ..of };
            assert!(read(&message, blocks, others).is_err(), "what nobody asks for, or too little");
            let words = message.words();
            for length in 0..words.len() {
                let cut = Message::from_words(words[..length].to_vec());
                assert!(read(&cut, blocks, of).is_err(), "cut to {length} of {}", words.len());
            }
            let Some(mask) = is_masked(blocks).then(|| words[1] as u32) else { continue };
            for wrong in [0, mask | 1 << 2] {
                let mut words = words.to_vec();
                words[1] = words[1] >> 32 << 32 | u64::from(wrong);
                let wrong = Message::from_words(words);
                assert!(matches!(read(&wrong, blocks, of), Err(Malformed::Wrong(_))));
            }
        }
    }
}
