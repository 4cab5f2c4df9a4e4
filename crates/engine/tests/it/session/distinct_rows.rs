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
    let tiers = Tiers { memory: ByteCount(memory), ..Tiers::default() };
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
