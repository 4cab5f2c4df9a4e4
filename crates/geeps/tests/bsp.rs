//! Under BSP the bits are those of all workers in order, whatever comes when.

mod support;

use stepwell_geeps::{Applies, Settings, Staleness};

use support::oracle::{assert_same, trained};
use support::schedule::{Setup, run};
use support::worker::Worker;
use support::{Model, Values};

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
