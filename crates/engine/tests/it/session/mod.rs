//! The engine for applications with their own model: evaluating and abandoned steps leave no trace,
//! and turns, waits and learning rates are as a caller expects.

#![expect(clippy::unwrap_used, reason = "a test panics on unexpected results")]

mod by_key;
mod distinct_rows;
mod errors;
mod ranks;
mod saved;

use stepwell_base::initial::Initial;
use stepwell_base::random::Stream;
use stepwell_base::{ByteCount, Key, TableId};
use stepwell_engine::{
    Admission, Bags, BagsRef, Columns, Field, Life, Next, Pooled, Pooling, Purpose, SavedSession,
    Session, Shape, TableSpec, Tiers,
};
use stepwell_optim::{Course, RowOptimizer, Rule, Schedule};

const EXAMPLES: usize = 16;

/// Two table groups: rows of 4 weights, with two fields in one table and one in another; rows of 2
/// weights with one field.
fn open(tiers: &Tiers) -> Result<Session, String> {
    open_living(tiers, [None; 3])
}

fn table(name: &str, dim: usize) -> TableSpec {
    let spec = TableSpec::new(0, name, dim, RowOptimizer::new(Rule::sgd(0.1)).unwrap());
    TableSpec { initial: Initial::Uniform { range: 0.5 }, seed: 1, ..spec }
}

/// Like [`open`], with a life for each table.
fn open_living(tiers: &Tiers, lives: [Option<Life>; 3]) -> Result<Session, String> {
    let table = |id, name, dim| TableSpec { id: TableId(id), ..table(name, dim) };
    let mut tables = vec![table(0, "items", 4), table(1, "places", 2), table(2, "pages", 4)];
    tables[2].optimizer = RowOptimizer::new(Rule::sgd(0.3)).unwrap();
    tables.iter_mut().zip(lives).for_each(|(table, life)| table.life = life);
    let mean = Field { column: 4, pooling: Pooling::Mean };
    let of_fields = vec![vec![Field::sum(0), mean], vec![Field::sum(8)], vec![Field::sum(10)]];
    let columns = Columns { of_fields, count: 14 };
    let shape = Shape { blocks: 4, ..Shape::default() };
    Session::open(tables, columns, shape, tiers).map_err(|error| error.to_string())
}

fn drawn(number: u64) -> [Bags; 3] {
    let mut dice = Stream::named(number, b"session");
    let mut bags = |count: usize| {
        let mut bags = Bags::default();
        for _ in 0..count {
            let ids = dice.next_u64() % 4;
            bags.keys.extend((0..ids).map(|_| Key(dice.next_u64() % 3000)));
            bags.ends.push(bags.keys.len() as u32);
        }
        bags
    };
    let [items, places, mut pages] = [2 * EXAMPLES, EXAMPLES, EXAMPLES].map(&mut bags);
    pages.weights = pages.keys.iter().map(|key| 0.5 + (key.0 % 3) as f32).collect();
    [items, places, pages]
}

/// Trains on 300 mini-batches; every `other`th is fed a second time, to be evaluated or abandoned.
fn train(tiers: &Tiers, lives: [Option<Life>; 3], other: u64) -> String {
    let mut session = open_living(tiers, lives).unwrap();
    let mut waiting = Vec::new();
    for number in (0..300).rev() {
        waiting.push((number, Some(true)));
        if other > 0 && number % other == 0 {
            waiting.push((number, [None, Some(false)][(number / other % 2) as usize]));
        }
    }
    let mut taken = std::collections::VecDeque::new();
    loop {
        while session.has_room()
            && let Some((number, trains)) = waiting.pop()
        {
            let purpose = if trains.is_none() { Purpose::Evaluate } else { Purpose::Train };
            session.feed(&drawn(number), &[1.0; EXAMPLES], purpose).unwrap();
            taken.push_back(trains);
        }
        let Some(turn) = session.ready().unwrap() else { break };
        assert_eq!(turn.trains(), taken.front().unwrap().is_some());
        if taken.pop_front().unwrap() == Some(true) {
            let mut x = turn.embeddings();
            x.iter_mut().for_each(|x| *x -= 0.25);
            turn.push(&x, &[0.0; EXAMPLES]).unwrap();
        }
    }
    assert_eq!(session.steps(), 300);
    session.finish().unwrap()
}

#[test]
fn neither_tiers_nor_what_leaves_no_trace_show() {
    let roomy = Tiers { lookahead: 0, ..Tiers::default() };
    let life = |admission, expire_after| Some(Life { admission, expire_after });
    // Tables that share a store expire alike, but may have different admissions.
    let living = [life(Admission::AtOnce, 9), None, life(Admission::After(2), 9)];
    for lives in [[None; 3], living] {
        let expected = train(&roomy, lives, 0);
        for (memory, lookahead, other) in [(64 << 20, 3, 2), (20 << 10, 0, 0), (24 << 10, 4, 3)] {
            let tiers = Tiers { dram: Some(ByteCount(memory)), lookahead, ..Tiers::default() };
            let found = train(&tiers, lives, other);
            assert_eq!(found, expected, "{memory} {lookahead} {other} {lives:?}");
        }
    }
}

/// One table with rows of 4 weights and one field, in `memory` bytes.
fn open_one(memory: u64, lookahead: usize) -> Session {
    open_shaped(memory, lookahead, Shape::default())
}

/// [`open_one`] with other parameters.
fn open_shaped(memory: u64, lookahead: usize, shape: Shape) -> Session {
    let columns = Columns { of_fields: vec![vec![Field::sum(0)]], count: 4 };
    let tiers = Tiers { dram: Some(ByteCount(memory)), lookahead, ..Tiers::default() };
    Session::open(vec![table("items", 4)], columns, shape, &tiers).unwrap()
}

/// One bag for each of `keys`.
fn single(keys: std::ops::Range<u64>) -> Bags {
    let ends = (1..=(keys.end - keys.start) as u32).collect();
    Bags { keys: keys.map(Key).collect(), ends, ..Bags::default() }
}

/// Trains like [`train`] without evaluations, but mini-batches are prepared by another thread, and
/// each turn is asked for twice, with others fed in between.
fn train_in_parts(tiers: &Tiers) -> String {
    let mut session = open(tiers).unwrap();
    let mut preparer = session.preparer();
    let (sender, prepared) = std::sync::mpsc::sync_channel(2);
    let thread = std::thread::spawn(move || {
        for number in 0..300 {
            let bags = drawn(number);
            let bags = bags.each_ref().map(BagsRef::from);
            let labels = [1.0; EXAMPLES];
            let mini = preparer.prepare(EXAMPLES, &bags, Some(&labels), Purpose::Train);
            sender.send(mini.unwrap()).unwrap();
        }
    });
    let mut rest = prepared.iter();
    while session.has_room()
        && let Some(mini) = rest.next()
    {
        session.feed_prepared(mini).unwrap();
    }
    assert!(session.turn().unwrap().is_none(), "nothing was taken");
    while let Next::Ready(()) = session.ready_within(std::time::Duration::MAX).unwrap() {
        let mut x = vec![0.0; EXAMPLES * 14];
        let turn = session.turn().unwrap().unwrap();
        let pooled = Pooled { x: &mut x, width: 14, first_order: &mut [0.0; EXAMPLES] };
        turn.gather(0..EXAMPLES, pooled);
        drop(turn);
        while session.has_room()
            && let Some(mini) = rest.next()
        {
            session.feed_prepared(mini).unwrap();
        }
        x.iter_mut().for_each(|x| *x -= 0.25);
        let turn = session.turn().unwrap().unwrap();
        assert_eq!((turn.examples(), turn.trains()), (EXAMPLES, true));
        turn.push(&x, &[]).unwrap();
        assert!(session.turn().unwrap().is_none(), "its gradients were pushed");
    }
    thread.join().unwrap();
    assert_eq!(session.steps(), 300);
    session.finish().unwrap()
}

#[test]
fn a_turn_can_be_asked_for_again_and_mini_batches_prepared_elsewhere() {
    let expected = train(&Tiers::default(), [None; 3], 0);
    for (memory, lookahead) in [(64 << 20, 0), (20 << 10, 0), (20 << 10, 4)] {
        let tiers = Tiers { dram: Some(ByteCount(memory)), lookahead, ..Tiers::default() };
        assert_eq!(train_in_parts(&tiers), expected, "{memory} {lookahead}");
    }
}

#[test]
fn a_wait_for_rows_ends_in_time() {
    let mut session = open_one(16 << 10, 2);
    let none = session.ready_within(std::time::Duration::ZERO).unwrap();
    assert!(matches!(none, Next::End), "{none:?}");
    session.feed(&[single(0..3)], &[0.0; 3], Purpose::Train).unwrap();
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        match session.ready_within(std::time::Duration::from_millis(1)).unwrap() {
            Next::Ready(()) => break,
            Next::Late => assert!(std::time::Instant::now() < limit, "it is never ready"),
            Next::End => panic!("a mini-batch was fed"),
        }
    }
    assert_eq!(session.turn().unwrap().unwrap().examples(), 3);
}

#[test]
fn a_learning_rate_holds_from_the_next_step_on() {
    let mut session = open_one(1 << 20, 0);
    let mut rows = Vec::new();
    for (number, lr) in [0.1, 0.1, 0.5, 0.0].into_iter().enumerate() {
        session.feed(&[single(7..8)], &[0.0], Purpose::Train).unwrap();
        if number > 0 {
            session.set_learning_rate(0, lr).unwrap();
        }
        let turn = session.ready().unwrap().unwrap();
        rows.push(turn.embeddings()[0]);
        turn.push(&[1.0; 4], &[]).unwrap();
    }
    session.feed(&[single(7..8)], &[0.0], Purpose::Evaluate).unwrap();
    rows.push(session.ready().unwrap().unwrap().embeddings()[0]);
    let steps: Vec<f32> = rows.windows(2).map(|pair| pair[0] - pair[1]).collect();
    for (step, lr) in steps.iter().zip([0.1, 0.1, 0.5, 0.0]) {
        assert!((step - lr).abs() < 1e-6, "{steps:?}");
    }
    for (table, lr, why) in [(1, 0.1, "no table 1"), (0, f64::NAN, "lr"), (0, -1.0, "lr")] {
        let error = session.set_learning_rate(table, lr).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_schedule_gives_each_step_its_learning_rate() {
    let course = Course::Step { every: 2, factor: 0.1 };
    let shape = Shape { schedule: Schedule { warmup: 2, course }, ..Shape::default() };
    let mut session = open_shaped(1 << 20, 0, shape);
    let mut rows = Vec::new();
    for _ in 0..5 {
        // An evaluation has no rate.
        for purpose in [Purpose::Evaluate, Purpose::Train] {
            session.feed(&[single(7..8)], &[0.0], purpose).unwrap();
            let turn = session.ready().unwrap().unwrap();
            if purpose == Purpose::Train {
                rows.push(turn.embeddings()[0]);
                turn.push(&[1.0; 4], &[]).unwrap();
            }
        }
    }
    let steps: Vec<f32> = rows.windows(2).map(|pair| (pair[0] - pair[1]) / 0.1).collect();
    for (step, factor) in steps.iter().zip([0.5, 1.0, 1.0, 1.0]) {
        assert!((step - factor).abs() < 1e-5, "{steps:?}");
    }
    session.set_learning_rate(0, 0.2).unwrap();
    session.feed(&[single(7..8)], &[0.0], Purpose::Train).unwrap();
    let before = session.ready().unwrap().unwrap().embeddings()[0];
    session.turn().unwrap().unwrap().push(&[1.0; 4], &[]).unwrap();
    let after = session.read(0, &[Key(7)]).unwrap()[0];
    assert!((before - after - 0.02).abs() < 1e-6, "{before} {after}: 0.2 times 0.1");
    let home = tempfile::tempdir().unwrap();
    session.save(home.path(), 1, &[]).unwrap();
    let saved = SavedSession::open(home.path()).unwrap();
    assert_eq!(saved.tables[0].optimizer.lr(), 0.2);
}

/// The rows of keys 1 to 3 of table 'items', before and after a step in which a bag of each field
/// has all three, and the pooled embeddings of that step.
fn pooled(weights: &[f32]) -> ([Vec<f32>; 2], Vec<f32>) {
    let fields = [Pooling::Sum, Pooling::Mean, Pooling::SqrtN];
    let fields = (0..).zip(fields).map(|(number, pooling)| Field { column: 4 * number, pooling });
    let optimizer = RowOptimizer::new(Rule::sgd(0.5)).unwrap();
    let table = TableSpec { optimizer, ..table("items", 4) };
    let columns = Columns { of_fields: vec![fields.collect()], count: 12 };
    let shape = Shape { blocks: 1, ..Shape::default() };
    let mut session = Session::open(vec![table], columns, shape, &Tiers::default()).unwrap();
    let single = Bags {
        keys: [1, 2, 3].map(Key).to_vec(),
        ends: vec![1, 1, 1, 2, 2, 2, 3, 3, 3],
        ..Bags::default()
    };
    let keys: Vec<Key> = (0..9).map(|at| Key(at % 3 + 1)).collect();
    let whole = Bags { keys, ends: vec![3, 6, 9], weights: weights.to_vec() };
    let feeds = [(single.clone(), Purpose::Evaluate), (whole, Purpose::Train)];
    for (bags, purpose) in feeds.into_iter().chain([(single, Purpose::Evaluate)]) {
        let labels = vec![1.0; bags.ends.len() / 3];
        session.feed(&[bags], &labels, purpose).unwrap();
    }
    let mut rows = || {
        let x = session.ready().unwrap().unwrap().embeddings();
        x.chunks(12).flat_map(|example| example[..4].to_vec()).collect::<Vec<f32>>()
    };
    let before = rows();
    let turn = session.ready().unwrap().unwrap();
    assert!(turn.keys(0).eq([1, 2, 3].map(Key)));
    let x = turn.embeddings();
    let d_x: Vec<f32> = (0..12).map(|column| 0.1 * (column as f32 - 4.0)).collect();
    turn.push(&d_x, &[0.0]).unwrap();
    let mut rows = || {
        let x = session.ready().unwrap().unwrap().embeddings();
        x.chunks(12).flat_map(|example| example[..4].to_vec()).collect::<Vec<f32>>()
    };
    ([before, rows()], x)
}

#[test]
fn bags_are_pooled_and_trained_as_their_fields_and_weights_say() {
    let ours = [2.0, -0.5, 3.0, 0.25, 1.0, 0.0, 1.5, 4.0, -1.0];
    for weights in [&ours[..], &[]] {
        let weight = |at: usize| weights.get(at).copied().unwrap_or(1.0);
        let ([before, after], x) = pooled(weights);
        let factors = [1.0, 1.0 / 3.0, 1.0 / 3f32.sqrt()];
        for lane in 0..4 {
            for (field, factor) in factors.iter().enumerate() {
                let row = |row: usize| before[4 * row + lane] * weight(3 * field + row) * factor;
                let wanted: f32 = (0..3).map(row).sum();
                assert!((x[4 * field + lane] - wanted).abs() < 1e-6, "{field} {lane}: {wanted}");
            }
            for row in 0..3 {
                let gradient = |(field, factor): (usize, &f32)| {
                    0.1 * ((4 * field + lane) as f32 - 4.0) * weight(3 * field + row) * factor
                };
                let d: f32 = factors.iter().enumerate().map(gradient).sum();
                let wanted = before[4 * row + lane] - 0.5 * d;
                assert!((after[4 * row + lane] - wanted).abs() < 1e-6, "{row} {lane}: {wanted}");
            }
        }
    }
}
