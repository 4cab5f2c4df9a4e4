//! A program with a custom model and the training pipeline, on the same engine: the same sequence
//! of mini-batches gives the same rows, bit for bit.
//!
//! The model is `lr` on data whose dense features are all zero: it reduces to the sum of
//! first-order weights and a bias, which a few lines train as well.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::random::Stream;
use stepwell_base::stage::FullSpeed;
use stepwell_base::{ByteCount, Key, Namespace, TableId};
use stepwell_engine::{
    Bags, Columns, Field, Moment, Pooled, Purpose, Session, Shape, Tiers, Witness,
};
use stepwell_nn::{Objective, Targets, losses};
use stepwell_settings::{ModelKind, OptimizerKind};
use stepwell_train::{Config, Machine, Surroundings, tables, train};

const FIELDS: usize = 26;
const DENSE: usize = 13;
const MINI_BATCH: usize = 16;
const STEPS: usize = 60;

/// The weights of the rows that an evaluation reads.
#[derive(Default)]
struct Evaluated(Mutex<BTreeMap<Key, u32>>);

impl Witness for Evaluated {
    fn read(&self, at: Moment, _: TableId, key: Key, weights: &[f32], _: &[f32]) {
        if at.evaluates {
            self.0.lock().unwrap().insert(key, weights[0].to_bits());
        }
    }
}

/// Examples of a label and an id for each field.
fn examples() -> Vec<(f32, Vec<u64>)> {
    let mut dice = Stream::named(1, b"session");
    let example = |_| {
        let ids: Vec<u64> = (0..FIELDS).map(|_| dice.next_u64() % 300).collect();
        (f32::from(u8::from(ids[0].is_multiple_of(3))), ids)
    };
    // The second half of the examples is for evaluation.
    (0..2 * STEPS * MINI_BATCH).map(example).collect()
}

fn write(examples: &[(f32, Vec<u64>)], path: &Path) {
    let mut text = String::new();
    for (label, ids) in examples {
        let _ = write!(text, "{label}{}", "\t0".repeat(DENSE));
        ids.iter().for_each(|id| {
            let _ = write!(text, "\t{id:x}");
        });
        text.push('\n');
    }
    std::fs::write(path, text).unwrap();
}

fn job(mut config: Config, data: &Path) -> Config {
    config.data.paths = vec![data.display().to_string()];
    config.data.mini_batch = MINI_BATCH;
    config.data.eval_fraction = 0.5;
    config.optim.rows.kind = OptimizerKind::Adam.into();
    // Updates by the smallest possible number are lost in any sum.
    (config.optim.dense.kind, config.optim.dense.lr) = (OptimizerKind::Sgd, Some(1e-45));
    config
}

/// Weights of the pipeline's rows after training.
fn by_pipeline(config: &Config) -> BTreeMap<Key, u32> {
    let witness = Arc::new(Evaluated::default());
    let machine = Machine { witness: Some(Arc::clone(&witness) as _), ..Machine::default() };
    let around = Surroundings { machine, ..surroundings(Arc::new(FullSpeed)) };
    let report = train(config, &around).unwrap();
    assert_eq!(report.steps, STEPS as u64);
    std::mem::take(&mut *witness.0.lock().unwrap())
}

fn bags(examples: &[(f32, Vec<u64>)]) -> Bags {
    let names: Vec<Namespace> = (1..=FIELDS).map(Namespace::of_column).collect();
    let mut bags = Bags::default();
    for (_, ids) in examples {
        for (id, name) in ids.iter().zip(&names) {
            bags.keys.push(name.key_of(format!("{id:x}").as_bytes()));
            bags.ends.push(bags.keys.len() as u32);
        }
    }
    bags
}

/// A mini-batch of one key, in the first field.
fn alone(key: Key) -> Bags {
    Bags { keys: vec![key], ends: vec![1; FIELDS], ..Bags::default() }
}

/// Weights of the rows of `keys` after the same training by a program that feeds a session.
fn by_session(config: &Config, tiers: &Tiers, keys: &[Key]) -> BTreeMap<Key, u32> {
    let columns = Columns { of_fields: vec![vec![Field::sum(0); FIELDS]], count: 0 };
    let shape = Shape { blocks: config.train.blocks, ..Shape::default() };
    let mut session = Session::open(tables(config).unwrap(), columns, shape, tiers).unwrap();
    let examples = examples();
    let train = examples.chunks(MINI_BATCH).take(STEPS);
    let train = train.map(|mini| (bags(mini), mini.iter().map(|one| one.0).collect::<Vec<f32>>()));
    let mut feeds = train
        .map(|(bags, labels)| (bags, labels, Purpose::Train))
        .chain(keys.iter().map(|key| (alone(*key), vec![0.0], Purpose::Evaluate)));
    let mut left = keys.iter();
    let mut weights = BTreeMap::new();
    loop {
        while session.has_room()
            && let Some((bags, labels, purpose)) = feeds.next()
        {
            session.feed(&[bags], &labels, purpose).unwrap();
        }
        let Some(turn) = session.ready().unwrap() else { return weights };
        let count = turn.examples();
        let mut logits = vec![0.0; count];
        turn.gather(0..count, Pooled { x: &mut [], width: 0, first_order: &mut logits });
        if !turn.trains() {
            weights.insert(*left.next().unwrap(), logits[0].to_bits());
            continue;
        }
        // The dense part of `lr` begins at zero, and stays there.
        let mut d_logits = vec![0.0; count];
        let targets =
            Targets { objectives: &[Objective::LOG_LOSS], labels: turn.labels(), weights: &[] };
        losses(&logits, targets, count, &mut d_logits);
        turn.push(&[], &d_logits).unwrap();
    }
}

#[test]
fn a_session_trains_the_rows_that_the_pipeline_trains() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("examples.tsv");
    write(&examples(), &data);
    let expected = by_pipeline(&job(in_memory(ModelKind::Lr), &data));
    let config = job(tiny(ModelKind::Lr, 2), &data);
    assert_eq!(by_pipeline(&config), expected);
    assert!(run(&config).tiers.host.evictions > 0 && expected.len() > 5000);
    let moved = expected.values().filter(|weight| **weight != 0).count();
    assert!(moved > 4000, "{moved} weights moved");
    let keys: Vec<Key> = expected.keys().copied().collect();
    for (memory, lookahead) in [(64 << 20, 0), (48 << 10, 3)] {
        let tiers = Tiers { dram: Some(ByteCount(memory)), lookahead, ..Tiers::default() };
        assert!(by_session(&config, &tiers, &keys) == expected, "{memory} bytes, {lookahead}");
    }
}
