//! Tables that aren't pooled: the caller reads and trains distinct rows.

use stepwell_base::random::Stream;
use stepwell_base::{ByteCount, Key};
use stepwell_engine::{Bags, Columns, Field, Pooling, Purpose, Session, Shape, TableSpec, Tiers};
use stepwell_optim::{RowOptimizer, Rule};

use super::{EXAMPLES, single, table};

/// Mini-batch `number` of lists of ids, 0 to 5 an example.
fn lists(number: u64) -> Bags {
    let mut dice = Stream::named(number, b"lists");
    let mut bags = Bags::default();
    for _ in 0..EXAMPLES {
        let ids = dice.next_u64() % 6;
        bags.keys.extend((0..ids).map(|_| Key(dice.next_u64() % 900)));
        bags.ends.push(bags.keys.len() as u32);
    }
    bags
}

/// Trains a table whose bags are summed, by the session or by the caller from distinct rows.
fn train_lists(memory: u64, pools: bool) -> (String, Vec<Vec<f32>>) {
    let pooling = if pools { Pooling::Sum } else { Pooling::None };
    let optimizer = RowOptimizer::new(Rule::adam(0.01)).unwrap();
    let table = TableSpec { optimizer, ..table("items", 4) };
    let columns = Columns { of_fields: vec![vec![Field { column: 0, pooling }]], count: 4 };
    let tiers = Tiers { dram: Some(ByteCount(memory)), ..Tiers::default() };
    // With a single block, the session adds gradients in the order of the data.
    let shape = Shape { blocks: 1, ..Shape::default() };
    let mut session = Session::open(vec![table], columns, shape, &tiers).unwrap();
    let mut all = Vec::new();
    for number in 0..200 {
        let bags = lists(number);
        session.feed(std::slice::from_ref(&bags), &[0.0; EXAMPLES], Purpose::Train).unwrap();
        let turn = session.ready().unwrap().unwrap();
        if pools {
            let x = turn.embeddings();
            let d_x: Vec<f32> = x.iter().map(|x| x - 0.25).collect();
            turn.push(&d_x, &[]).unwrap();
            all.push(x);
            continue;
        }
        let distinct: Vec<Key> = turn.keys(0).collect();
        let mut rows = vec![0.0; 4 * distinct.len()];
        turn.copy_rows(0, &mut rows);
        let places = turn.occurrence_rows(0).to_vec();
        assert!(places.iter().zip(&bags.keys).all(|(row, key)| distinct[*row as usize] == *key));
        let (mut x, mut d_rows) = (vec![0.0; 4 * EXAMPLES], vec![0.0; rows.len()]);
        let bag = |example: usize| {
            let begin = if example == 0 { 0 } else { bags.ends[example - 1] as usize };
            places[begin..bags.ends[example] as usize].iter().map(|row| 4 * *row as usize)
        };
        for example in 0..EXAMPLES {
            let x = &mut x[4 * example..4 * example + 4];
            for row in bag(example) {
                x.iter_mut().zip(&rows[row..row + 4]).for_each(|(x, weight)| *x += weight);
            }
            for row in bag(example) {
                let d_row = &mut d_rows[row..row + 4];
                d_row.iter_mut().zip(&*x).for_each(|(d_row, x)| *d_row += x - 0.25);
            }
        }
        turn.push_all(&[0.0; 4 * EXAMPLES], &[], &[(0, &d_rows)]).unwrap();
        all.push(x);
    }
    (session.finish().unwrap(), all)
}

#[test]
fn distinct_rows_are_read_and_trained_as_a_caller_pools_them() {
    let expected = train_lists(1 << 20, true);
    for memory in [1 << 20, 12 << 10] {
        assert_eq!(train_lists(memory, false), expected, "{memory}");
    }
}

#[test]
fn rows_without_a_gradient_take_a_step_of_zeros() {
    let columns =
        || Columns { of_fields: vec![vec![Field { column: 0, pooling: Pooling::None }]], count: 0 };
    let run = |gives: bool| {
        let tiers = Tiers::default();
        let mut session =
            Session::open(vec![table("items", 4)], columns(), Shape::default(), &tiers).unwrap();
        for _ in 0..3 {
            session.feed(&[single(0..5)], &[0.0; 5], Purpose::Train).unwrap();
            let turn = session.ready().unwrap().unwrap();
            let zeros = [(0, &[0.0; 20][..])];
            turn.push_all(&[], &[], if gives { &zeros } else { &[] }).unwrap();
        }
        session.finish().unwrap()
    };
    assert_eq!(run(true), run(false));
    let mut session =
        Session::open(vec![table("items", 4)], columns(), Shape::default(), &Tiers::default())
            .unwrap();
    let weighed = Bags { weights: vec![1.0; 5], ..single(0..5) };
    let error = session.feed(&[weighed], &[0.0; 5], Purpose::Train).unwrap_err().to_string();
    assert!(error.contains("is not pooled"), "{error}");
}

/// Mini-batch `number` with three bags an example, of which the second's length is a power of two.
fn three_fields(number: u64) -> Bags {
    let mut dice = Stream::named(number, b"three fields");
    let mut bags = Bags::default();
    for bag in 0..3 * EXAMPLES {
        let ids = [1, 1 << (dice.next_u64() % 3), dice.next_u64() % 5][bag % 3];
        bags.keys.extend((0..ids).map(|_| Key(dice.next_u64() % 900)));
        bags.ends.push(bags.keys.len() as u32);
    }
    bags
}

/// Trains a table with three fields; the last one's rows are summed by the session, or given a
/// gradient by the caller. Gradients are such that the order in which they are added doesn't
/// matter.
fn train_three(memory: u64, second: Pooling, pools: bool) -> String {
    let third = if pools { Pooling::Sum } else { Pooling::None };
    let fields = [(0, Pooling::Sum), (4, second), (8, third)];
    let fields = fields.map(|(column, pooling)| Field { column, pooling });
    let columns = Columns { of_fields: vec![fields.to_vec()], count: 12 };
    let tiers = Tiers { dram: Some(ByteCount(memory)), ..Tiers::default() };
    let shape = Shape::default();
    let mut session = Session::open(vec![table("items", 4)], columns, shape, &tiers).unwrap();
    for number in 0..100 {
        let bags = three_fields(number);
        session.feed(std::slice::from_ref(&bags), &[0.0; EXAMPLES], Purpose::Train).unwrap();
        let turn = session.ready().unwrap().unwrap();
        let mut d_x: Vec<f32> =
            (0..12 * EXAMPLES).map(|at| ((at * 7 % 16) as f32 - 8.0) / 64.0).collect();
        let mut d_rows = vec![0.0; 4 * turn.keys(0).len()];
        if !pools {
            for (example, d_x) in d_x.chunks_mut(12).enumerate() {
                let [begin, end] = [1, 2].map(|field| bags.ends[3 * example + field] as usize);
                for row in &turn.occurrence_rows(0)[begin..end] {
                    let d_row = &mut d_rows[4 * *row as usize..4 * *row as usize + 4];
                    d_row.iter_mut().zip(&d_x[8..]).for_each(|(d_row, d_x)| *d_row += d_x);
                }
                d_x[8..].fill(0.0);
            }
        }
        let given = [(0, &d_rows[..])];
        turn.push_all(&d_x, &[], if pools { &[] } else { &given }).unwrap();
    }
    session.finish().unwrap()
}

#[test]
fn a_table_has_pooled_fields_and_others() {
    for second in [Pooling::Sum, Pooling::Mean] {
        let expected = train_three(1 << 20, second, true);
        for memory in [1 << 20, 12 << 10] {
            assert_eq!(train_three(memory, second, false), expected, "{memory} {second:?}");
        }
    }
}
