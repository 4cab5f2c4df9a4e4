//! A worker at clock t sees all updates of all workers up to clock t - 1 - slack, and none is lost.

use stepwell_geeps::{Applies, Settings, Staleness};

use crate::support::oracle::{assert_same, trained};
use crate::support::schedule::{Run, Setup, run};
use crate::support::worker::Worker;
use crate::support::{Model, Values};

fn trained_by(model: &Model, ranks: usize, clocks: u64, seed: u64) -> Run {
    // Everything is pinned, or nothing.
    let budget_bytes = if seed.is_multiple_of(2) { 1 << 20 } else { 2 * model.peak_bytes() };
    let settings = |_| Settings { clocks_ahead: 1 + seed % 20, budget_bytes, ..model.settings() };
    let worker = |rank| Worker::new(model, rank, clocks);
    let gathers = !seed.is_multiple_of(3);
    let setup = Setup { seed, ranks, settings: &settings, worker: &worker, gathers };
    run(&setup).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

#[test]
fn no_read_is_older_than_its_bound_and_none_is_lost() {
    for seed in 0..320 {
        let ranks = 1 + seed as usize % 4;
        let slack = seed % 5;
        let applies = [Applies::OnArrival, Applies::ByClock][seed as usize / 5 % 2];
        let rows = [ranks as u64 + 1; 2];
        let model = Model::new(&rows, applies, Staleness::Clocks(slack), Values::Counts);
        let left = trained_by(&model, ranks, 7, seed);
        assert_eq!(left.found, [""; 0], "seed {seed}, slack {slack}");
        assert_same(&left.rows, &trained(&model, ranks, 7), &format!("seed {seed}"));
    }
}

#[test]
fn without_a_bound_no_update_is_lost() {
    for seed in 0..120 {
        let ranks = 1 + seed as usize % 4;
        let rows = [ranks as u64 + 1; 3];
        let model = Model::new(&rows, Applies::OnArrival, Staleness::Unbounded, Values::Counts);
        let left = trained_by(&model, ranks, 9, seed);
        assert_same(&left.rows, &trained(&model, ranks, 9), &format!("seed {seed}"));
        for (&(_, key), row) in &left.rows {
            // Key 3 is row 0, updated by all workers; others are updated by one each.
            let wanted = if key.0 == 3 { 9 * ranks } else { 9 };
            assert!(row.iter().all(|value| *value == wanted as f32), "{key:?}: {row:?}");
        }
    }
}
