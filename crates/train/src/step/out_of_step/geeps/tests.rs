//! Workers with polls, gradients and messages in orders drawn from a seed.

use std::sync::Arc;

use stepwell_base::clock::ManualClock;
use stepwell_base::random::Stream;
use stepwell_fabric::{Fabric, Post, Tag};
use stepwell_geeps::{Rule, Rules};
use stepwell_nn::{Initial, ParameterSpec};
use stepwell_settings::{Config, RowsKind};
use stepwell_sync::{Descent, OpenEnded as _, Optimizer, Protocol as _, Rate, Share};

use super::{Tables, Worker};
use crate::run_plan::RankPlan;
use crate::talk;

const LANES: usize = 25;
/// Events after which a run that has not ended never will.
const EVENTS_MAX: usize = 1_000_000;

/// A layer with a bias, and one of a single output.
fn parameters() -> Vec<ParameterSpec> {
    let spec = |name: &str, shape: &[usize], range| ParameterSpec {
        name: name.to_owned(),
        shape: shape.to_vec(),
        range,
        initial: Initial::Constant(0.0),
    };
    vec![
        spec("layer/weight", &[5, 3], 0..15),
        spec("layer/bias", &[5], 15..20),
        spec("output/weight", &[1, 5], 20..25),
    ]
}

fn first_values() -> Vec<f32> {
    (0..LANES).map(|lane| lane as f32 - 7.0).collect()
}

fn optimizer() -> Box<dyn Optimizer<f32>> {
    Box::new(Descent::new(Rate::constant(0.5), 0.0, 0.0, LANES))
}

/// A rank's gradient of its `number`-th mini-batch, with these parameters.
type Gradient = fn(usize, u64, &[f32]) -> Vec<f32>;

/// Gradients whose sums have the same bits in every order, for two or four ranks.
fn dyadic(rank: usize, number: u64, parameters: &[f32]) -> Vec<f32> {
    let lane = |lane: usize| ((rank * 5 + lane * 3) as u64 + 7 * number) % 16;
    (0..parameters.len()).map(|place| lane(place) as f32 / 16.0 - 0.25).collect()
}

fn of_parameters(rank: usize, number: u64, parameters: &[f32]) -> Vec<f32> {
    let shift = 0.1 * (rank as f32 - 1.3) + 0.01 * number as f32;
    parameters.iter().map(|parameter| parameter * 0.37 + shift).collect()
}

struct Rank {
    fabric: Fabric,
    worker: Worker,
    /// The gradient that is being computed.
    computing: Option<Vec<f32>>,
    is_told: bool,
}

struct Job {
    ranks: usize,
    rows: RowsKind,
    staleness: u64,
    gradient: Gradient,
    rules: Rules,
}

impl Job {
    fn begin(&self) -> (Arc<Post>, Vec<Rank>) {
        let mut config = Config::default();
        config.ranks.count = self.ranks;
        (config.sync.rows, config.sync.staleness) = (self.rows, self.staleness);
        let mut tables = Tables::new(RankPlan::of(&config), &parameters());
        tables.settings.rules = self.rules;
        let (post, fabrics) = Post::new(self.ranks);
        let begin = |fabric: Fabric| {
            let (tables, clock) = (tables.clone(), Arc::new(ManualClock::default()));
            let end = fabric.clone();
            let worker = Worker::new(tables, end, clock, optimizer(), first_values());
            Rank { fabric, worker, computing: None, is_told: false }
        };
        (post, fabrics.into_iter().map(begin).collect())
    }

    /// Runs, in an order drawn from `seed`, until all have given `last` gradients and ended.
    fn run(&self, post: &Post, all: &mut [Rank], last: u64, seed: u64) {
        let mut stream = Stream::named(seed, b"schedule");
        let (slow, deliver) = (1 + stream.next_u64() % 30, 2 + stream.next_u64() % 6);
        all.iter_mut().for_each(|rank| rank.is_told = false);
        for _ in 0..EVENTS_MAX {
            if all.iter().all(|rank| rank.worker.ended()) {
                return;
            }
            if stream.next_u64().is_multiple_of(deliver) {
                post.deliver(|ways| (stream.next_u64() % ways as u64) as usize);
                continue;
            }
            let number = (stream.next_u64() % all.len() as u64) as usize;
            let gives = number > 0 || stream.next_u64().is_multiple_of(slow);
            self.turn((number, &mut all[number]), last, stream.next_u64() % 4, gives);
        }
        panic!("seed {seed}: no end after {EVENTS_MAX} events");
    }

    fn turn(&self, (number, rank): (usize, &mut Rank), last: u64, what: u64, gives: bool) {
        let Rank { fabric, worker, computing, is_told } = rank;
        if worker.ended() {
            return;
        }
        let given = worker.counts().given;
        match what {
            0 => drop(worker.poll(fabric).unwrap()),
            1 if computing.is_none() && given < last => {
                *computing = worker.begin().map(|step| {
                    assert_eq!(step, given);
                    (self.gradient)(number, step, worker.parameters())
                });
            }
            2 if gives => computing.take().iter_mut().for_each(|gradient| worker.give(gradient)),
            // At the latest when there is nothing else to do.
            3 if !*is_told && (given + 3 > last || gives) => {
                worker.end_after(last);
                *is_told = true;
            }
            _ => {}
        }
    }
}

/// Checks that nothing was lost or left behind, and that all ranks have the same model; returns it.
fn check(all: &[Rank], last: u64) -> Vec<f32> {
    for Rank { fabric, worker, .. } in all {
        let counts = worker.counts();
        assert_eq!((counts.given, counts.used, counts.updates), (last, last, last));
        assert_eq!((counts.lost(), counts.left, counts.dropped), (0, 0, 0));
        assert_eq!(worker.model(), all[0].worker.model());
        let tags = (talk::TABLES.0..=talk::TABLES.0 + 3 * 3).map(Tag);
        for (from, tag) in (0..all.len()).flat_map(|from| tags.clone().map(move |tag| (from, tag)))
        {
            assert_eq!(fabric.receive(from, tag), Ok(None), "{tag:?} of {from} is left");
        }
    }
    all[0].worker.model().to_vec()
}

fn update(rank: usize, number: u64, ranks: usize, job: &Job, parameters: &[f32]) -> Vec<f32> {
    let mut update = vec![0.0; LANES];
    let gradient = (job.gradient)(rank, number, parameters);
    optimizer().apply(&mut update, &gradient, Share::whole(1), 0.0);
    update.iter_mut().for_each(|lane| *lane *= 1.0 / ranks as f32);
    update
}

#[test]
fn without_staleness_the_model_is_that_of_workers_one_after_another_whatever_the_order() {
    for seed in 0..60 {
        let ranks = 2 + seed as usize % 3;
        let (rows, gradient) = (RowsKind::Bounded, of_parameters as Gradient);
        let job = Job { ranks, rows, staleness: 0, gradient, rules: Rules::default() };
        let mut model = first_values();
        let (post, mut all) = job.begin();
        let mut step = 0;
        // Parameters after a mark may differ from those before it.
        for last in [5, 6, 17] {
            job.run(&post, &mut all, last, seed);
            while step < last {
                let of = |rank| update(rank, step, ranks, &job, &model);
                let updates: Vec<_> = (0..ranks).map(of).collect();
                for update in updates {
                    model.iter_mut().zip(update).for_each(|(sum, lane)| *sum += lane);
                }
                step += 1;
            }
            assert_eq!(check(&all, last), model, "seed {seed}, after {last}");
            assert!(all.iter().all(|rank| rank.worker.counts().age_max == 0));
            model.iter_mut().for_each(|lane| *lane *= 1.25);
            all.iter_mut().for_each(|rank| rank.worker.resume(&model));
        }
    }
}

#[test]
fn whatever_is_missed_is_bounded_and_at_a_mark_every_update_is_in() {
    let mut missed = [0; 3];
    for seed in 0..90 {
        let (rows, staleness) =
            [(RowsKind::Bounded, 1), (RowsKind::Bounded, 2), (RowsKind::Async, 0)][seed % 3];
        let ranks = [2, 4][seed / 3 % 2];
        let job = Job { ranks, rows, staleness, gradient: dyadic, rules: Rules::default() };
        let (post, mut all) = job.begin();
        let mut model = first_values();
        let mut step = 0;
        for last in [30, 33] {
            job.run(&post, &mut all, last, seed as u64);
            while step < last {
                for rank in 0..ranks {
                    let update = update(rank, step, ranks, &job, &model);
                    model.iter_mut().zip(update).for_each(|(sum, lane)| *sum += lane);
                }
                step += 1;
            }
            assert_eq!(check(&all, last), model, "seed {seed}, after {last}");
            all.iter_mut().for_each(|rank| rank.worker.resume(&model));
        }
        for rank in &all {
            let age = rank.worker.counts().age_max;
            assert!(rows == RowsKind::Async || age <= staleness, "seed {seed}: {age}");
            missed[seed % 3] = missed[seed % 3].max(age);
        }
    }
    println!("missed {missed:?}");
    assert!(missed[0] == 1 && missed[1] == 2 && missed[2] > 2, "{missed:?}");
}

#[test]
fn a_read_that_does_not_wait_is_found() {
    let found = (0..40).any(|seed| {
        let rules = Rules::without(Rule::AgeAtRead);
        let (rows, gradient) = (RowsKind::Bounded, dyadic as Gradient);
        let job = Job { ranks: 2, rows, staleness: 1, gradient, rules };
        let (post, mut all) = job.begin();
        job.run(&post, &mut all, 30, seed);
        all.iter().any(|rank| rank.worker.counts().age_max > 1)
    });
    assert!(found);
}

#[test]
fn what_it_takes_is_counted_for_any_number_of_ranks() {
    let mut config = Config::default();
    config.sync.rows = RowsKind::Bounded;
    let bytes =
        |config: &Config, ranks| Tables::new(RankPlan::of(config), &parameters()).bytes_max(ranks);
    let few = bytes(&config, 2).unwrap();
    // The parameters, an update, a server's initial values, its cache, and a message each way.
    assert!(few > 6 * 4 * LANES as u64, "{few}");
    assert!(bytes(&config, 4).unwrap() > few);
    config.sync.staleness = 0;
    assert!(bytes(&config, 2).unwrap() < few, "fewer updates wait");
    let why = bytes(&config, 100_000).unwrap_err().to_string();
    assert!(why.contains("sync.dense = geeps: 100000 ranks"), "{why}");
}
