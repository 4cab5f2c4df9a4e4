//! What waits for everybody has the bits of a plain loop, whatever the order of delivery.

use stepwell_base::random::Stream;
use stepwell_nn::tree_sum;
use stepwell_sync::{Descent, Kind, Learner, Options, Rate, Schedule};

use crate::schedule;

pub(crate) const LANES: usize = 37;

/// A gradient that depends on the parameters, the rank and the step.
pub(crate) fn gradient(rank: usize, step: u64, parameters: &[f64], gradient: &mut [f64]) {
    let name = [(rank as u64).to_le_bytes(), step.to_le_bytes()].concat();
    let mut stream = Stream::named(3, &name);
    for (place, (slope, w)) in gradient.iter_mut().zip(parameters).enumerate() {
        *slope = w * 0.3 + stream.next_f64() - 0.5 + 1e-3 * place as f64;
    }
}

pub(crate) fn options() -> Options {
    let schedule = Schedule::Exponential { factor: 0.9, every: 3 };
    let mut options = Options::new(11, Rate { base: 0.3, schedule });
    (options.momentum, options.weight_decay) = (0.9, 0.01);
    options
}

pub(crate) fn begin() -> Vec<f64> {
    let mut stream = Stream::named(1, b"begin");
    (0..LANES).map(|_| stream.next_f64()).collect()
}

/// The mean of all workers' gradients, step by step.
pub(crate) fn plain_loop(workers: std::ops::Range<usize>, options: &Options) -> Vec<f64> {
    let mut parameters = begin();
    let (momentum, decay) = (options.momentum, options.weight_decay);
    let mut descent = Descent::new(options.rate.clone(), momentum, decay, LANES);
    let mut sum = vec![0.0; LANES];
    for step in 0..options.steps {
        let of = |rank| {
            let mut values = vec![0.0; LANES];
            gradient(rank, step, &parameters, &mut values);
            values
        };
        let all: Vec<Vec<f64>> = workers.clone().map(of).collect();
        tree_sum(&all.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut sum);
        descent.apply(&mut parameters, &sum, 1.0 / workers.len() as f64, step as f64);
    }
    parameters
}

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
