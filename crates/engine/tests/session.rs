//! The engine for somebody with a model of his own: what does not fit is refused, evaluating and
//! giving up leave no trace, and a directory with rows in it is not taken.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use stepwell_base::random::Stream;
use stepwell_base::{ByteCount, Key, TableId};
use stepwell_engine::{Bags, Columns, Purpose, Session, Shape, TableSpec, Tiers};
use stepwell_optim::{RowOptimizer, Rule, Storage};

const EXAMPLES: usize = 16;

/// Two table groups: rows of 4 weights with two fields, of 2 with one.
fn open(tiers: &Tiers) -> Result<Session, String> {
    let table = |id, name: &str, dim| TableSpec {
        id: TableId(id),
        name: name.to_owned(),
        dim,
        wide: 0,
        storage: Storage::F32,
        optimizer: RowOptimizer::new(Rule::sgd(0.1)).unwrap(),
        init_range: 0.5,
        seed: 1,
        life: None,
    };
    let tables = vec![table(0, "items", 4), table(1, "places", 2)];
    let columns = Columns { of_fields: vec![vec![0, 4], vec![8]], count: 10 };
    let shape = Shape { blocks: 4, staleness: 0, sketch_bytes: 0 };
    Session::open(tables, columns, shape, tiers).map_err(|error| error.to_string())
}

fn drawn(number: u64) -> [Bags; 2] {
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
    [bags(2 * EXAMPLES), bags(EXAMPLES)]
}

/// Trains on 300 mini-batches; every `other`th is fed once more, to be read or to be given up.
fn train(tiers: &Tiers, other: u64) -> String {
    let mut session = open(tiers).unwrap();
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
            turn.push(&x, &[0.0; EXAMPLES]);
        }
    }
    assert_eq!(session.steps(), 300);
    session.finish().unwrap()
}

#[test]
fn neither_tiers_nor_what_leaves_no_trace_show() {
    let roomy = Tiers { lookahead: 0, ..Tiers::default() };
    let expected = train(&roomy, 0);
    for (memory, lookahead, other) in [(64 << 20, 3, 2), (10 << 10, 0, 0), (12 << 10, 4, 3)] {
        let tiers = Tiers { memory: ByteCount(memory), lookahead, ..Tiers::default() };
        assert_eq!(train(&tiers, other), expected, "{memory} {lookahead} {other}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut session = open(&Tiers::default()).unwrap();
    let labels = [0.0; EXAMPLES];
    let [items, places] = drawn(1);
    let (mut short, mut loose) = (items.clone(), items.clone());
    short.ends.pop();
    loose.keys.push(Key(1));
    for (bags, why) in [
        (vec![items.clone()], "bags of 1 tables: give 2"),
        (vec![short, places.clone()], "table 'items': 31 bags, where 32 are due"),
        (vec![items.clone(), items.clone()], "table 'places': 32 bags, where 16 are due"),
        (vec![loose, places.clone()], "do not cut"),
    ] {
        let error = session.feed(&bags, &labels, Purpose::Train).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(session.ready().unwrap().is_none());
    session.feed(&[items, places], &labels, Purpose::Train).unwrap();
    assert_eq!(session.ready().unwrap().unwrap().examples(), EXAMPLES);
    drop(session);
    let none = open(&Tiers { memory: ByteCount(10), ..Tiers::default() }).unwrap_err();
    assert!(none.contains("hold not one row of table 'items'"), "{none}");
}

#[test]
fn a_directory_with_rows_is_not_taken() {
    let home = tempfile::tempdir().unwrap();
    let directory = Some(home.path().join("rows"));
    let tiers = Tiers { directory, memory: ByteCount(10 << 10), ..Tiers::default() };
    let session = open(&tiers).unwrap();
    let error = open(&tiers).unwrap_err();
    assert!(error.contains("rows"), "{error}");
    drop(session);
    // Nothing was ever put into it.
    assert!(open(&tiers).is_ok());
}
