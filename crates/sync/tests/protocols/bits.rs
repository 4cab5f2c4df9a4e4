//! Protocols that wait for all ranks have the bits of a plain loop in every order of delivery.

use stepwell_sync::{Kind, Learner};

use crate::problem::{begin, gradient, options, plain_loop};
use crate::schedule;

#[test]
fn steps_of_all_ranks_have_the_bits_of_a_loop() {
    for ranks in 2..8 {
        for kind in [Kind::Bsp, Kind::SyncDsgd] {
            let expected = plain_loop(ranks - kind.workers(ranks)..ranks, &options());
            for seed in 0..10 {
                let learner = |rank| -> Box<dyn Learner<f64>> {
                    Box::new(move |step: u64, w: &[f64], g: &mut [f64]| gradient(rank, step, w, g))
                };
                let outcome = schedule::run((kind, ranks, &options()), &begin(), learner, seed);
                assert_eq!(outcome.unwrap().model, expected, "{kind}, {ranks} ranks, {seed}");
            }
        }
    }
}
