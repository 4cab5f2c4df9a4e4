//! Under BSP, updates of all workers are summed in order of ranks, bit for bit, whatever the order
//! of arrival.

use stepwell_geeps::{Applies, Settings, Staleness};

use crate::support::oracle::{assert_same, trained};
use crate::support::schedule::{Setup, run};
use crate::support::worker::Worker;
use crate::support::{Model, Values};

const CLOCKS: u64 = 6;

fn model() -> Model {
    Model::new(&[9, 14, 5], Applies::ByClock, Staleness::BSP, Values::Fractions)
}

#[test]
fn ranks_in_any_order_have_the_bits_of_the_oracle() {
    let model = model();
    for ranks in [1, 2, 4] {
        let wanted = trained(&model, ranks, CLOCKS);
        for seed in 0..40 {
            let settings = |_| Settings { prefetch: seed % 4 != 3, ..model.settings() };
            let worker = |rank| Worker::new(&model, rank, CLOCKS);
            let gathers = seed % 2 == 0;
            let setup = Setup { seed, ranks, settings: &settings, worker: &worker, gathers };
            let left = run(&setup).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(left.found, [""; 0], "seed {seed}");
            assert_same(&left.rows, &wanted, &format!("{ranks} ranks, seed {seed}"));
        }
    }
}

#[test]
fn a_seed_does_the_same_again() {
    let model = model();
    let settings = |_| model.settings();
    let worker = |rank| Worker::new(&model, rank, CLOCKS);
    let setup = Setup { seed: 9, ranks: 3, settings: &settings, worker: &worker, gathers: true };
    let [first, second] = [(); 2].map(|()| run(&setup));
    let [first, second] =
        [first, second].map(|left| left.map(|left| (left.steps, left.statistics)));
    assert!(first.is_ok());
    assert_eq!(first, second);
}

#[test]
fn a_worker_that_ends_holds_nobody_back() {
    let clocks = |rank| [3, 7, 5][rank];
    for seed in 0..60 {
        let applies = [Applies::ByClock, Applies::OnArrival][seed as usize % 2];
        let model = Model::new(&[4, 4], applies, Staleness::BSP, Values::Counts);
        let settings = |_| model.settings();
        let worker = |rank| Worker::new(&model, rank, clocks(rank));
        let setup = Setup { seed, ranks: 3, settings: &settings, worker: &worker, gathers: true };
        let left = run(&setup).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (&(_, key), row) in &left.rows {
            // Keys are squares plus 3: row 0 is updated by all workers, the others by one each.
            let wanted = [15, 3, 7, 5][((key.0 - 3) as f64).sqrt() as usize];
            assert!(row.iter().all(|value| *value == wanted as f32), "seed {seed}: {row:?}");
        }
    }
}
