use stepwell_base::owner::RankOf;
use stepwell_base::random::Stream;

use super::*;
use crate::request::{Bags, Field, Grouper};
use crate::rows::sums::{Gradients, Sums};

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

    /// The bags by row.
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

/// Message of a rank with `blocks` about all of its rows, and their keys.
fn sums_of(whole: &Of, fields: &[Field], blocks: Blocks, tells: bool) -> (Message, Bags) {
    let own = whole.of_rank(blocks);
    let (request, by_row) = own.by_row();
    let bags = own.table(&by_row, fields, blocks);
    let (mut message, mut room) = (Message::new(), SumsRoom::default());
    let rows: Vec<u32> = (0..request.distinct.len() as u32).collect();
    let mut sums = Sums::<true>::new(&bags, DIM, DIM + 1, &mut room);
    write(&mut message, &rows, DIM + 1, tells, &bags, |bags, place| {
        let (sum, seen) = sums.gradient(bags);
        place.copy_from_slice(sum);
        seen
    });
    let ends = vec![request.distinct.len() as u32];
    (message, Bags { keys: request.distinct, ends, ..Bags::default() })
}

/// Where each rank's requests end.
fn ends(sent: &[(Message, Bags)]) -> Vec<u32> {
    let mut end = 0;
    let of_rank = |(_, rows): &(Message, Bags)| {
        end += rows.keys.len() as u32;
        end
    };
    sent.iter().map(of_rank).collect()
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
        let mut wanted = Sums::<true>::new(&bags, DIM, DIM + 1, &mut room);
        for (ranks, tells_seen) in (1..=count.min(9)).flat_map(|n| [(n, true), (n, false)]) {
            let own = |rank| blocks.of_rank(RankOf { rank, ranks });
            let sent: Vec<_> =
                (0..ranks).map(|rank| sums_of(&whole, &fields, own(rank), tells_seen)).collect();
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
            let of_asked = Askers { ends: ends(&sent), ..Askers::default() };
            let partials = Partials::new(of_ranks, blocks, &askers, &of_asked, &union);
            let mut room = SumsRoom::default();
            let mut combined = Combined::new(&partials, DIM + 1, &mut room);
            for row in 0..union.distinct.len() {
                let (sum, seen) = wanted.of(row);
                let (same, also) = combined.of(row);
                assert_eq!(same, sum, "row {row} of {keys} keys, {count} blocks, {ranks} ranks");
                let (seen, also) =
                    ((seen.examples, seen.positives), (also.examples, also.positives));
                // The owner knows in any case that a row occurs.
                let known = if tells_seen { also == seen } else { also.0 > 0 };
                assert!(known, "row {row}, {ranks} ranks: {also:?}, {seen:?}");
            }
        }
    }
}

/// A rank that alone has a row sums its gradient over all of its blocks at once, as for borrowed
/// rows.
#[test]
fn what_one_rank_alone_sums_has_the_bits_of_one() {
    let mut random = Stream::named(3, b"combine");
    let fields: Vec<Field> = (0..FIELDS).map(|field| Field::sum(field * DIM)).collect();
    let mut alone = 0;
    for (keys, count) in [(40, 8), (400, 8), (400, 5), (400, 13), (400, 64)] {
        let whole = Of::draw(&mut random, keys);
        let (request, by_row) = whole.by_row();
        let blocks = Blocks::new(EXAMPLES, count);
        let bags = whole.table(&by_row, &fields, blocks);
        let (mut room, mut own_room) = (SumsRoom::default(), SumsRoom::default());
        let mut wanted = Sums::<true>::new(&bags, DIM, DIM + 1, &mut room);
        for ranks in 1..=count.min(9) {
            for rank in 0..ranks {
                let own_blocks = blocks.of_rank(RankOf { rank, ranks });
                let own = whole.of_rank(own_blocks);
                let (asked, own_by_row) = own.by_row();
                let bags = own.table(&own_by_row, &fields, own_blocks);
                let mut sums = Sums::<true>::new(&bags, DIM, DIM + 1, &mut own_room);
                for (row, key) in asked.distinct.iter().enumerate() {
                    let in_all = request.distinct.iter().position(|known| known == key).unwrap();
                    if by_row.of(in_all).len() == own_by_row.of(row).len() {
                        alone += 1;
                        assert_eq!(sums.of(row).0, wanted.of(in_all).0, "{ranks} ranks, {rank}");
                    }
                }
            }
        }
    }
    assert!(alone > 1000, "{alone}");
}

#[test]
fn sums_that_nobody_could_have_sent_are_refused() {
    let mut random = Stream::named(2, b"combine");
    let whole = Of::draw(&mut random, 20);
    let fields: Vec<Field> = (0..FIELDS).map(|field| Field::sum(field * DIM)).collect();
    // With two subtrees, and with one.
    let ranks = [RankOf { rank: 1, ranks: 3 }, RankOf { rank: 0, ranks: 2 }];
    for (rank, tells_seen) in ranks.into_iter().flat_map(|of| [(of, true), (of, false)]) {
        let blocks = Blocks::new(EXAMPLES, 8).of_rank(rank);
        let (message, rows) = sums_of(&whole, &fields, blocks, tells_seen);
        let of = RowsSummed { rows: rows.keys.len(), width: DIM + 1, tells_seen };
        let read = |message: &Message, blocks, of| {
            let mut reader = message.reader();
            RankSums::read(&mut reader, of, blocks).and_then(|_| reader.end())
        };
        assert_eq!(read(&message, blocks, of), Ok(()));
        let ranks = if is_masked(blocks) { 2 } else { 3 };
        let other = Blocks::new(EXAMPLES, 8).of_rank(RankOf { rank: 1, ranks });
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
