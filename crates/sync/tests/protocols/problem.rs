//! A problem of a few lanes, solved by threads or by a plain loop.

use stepwell_base::random::Stream;
use stepwell_fabric::{Fabric, threads};
use stepwell_nn::tree_sum;
use stepwell_sync::{Descent, Driven, Kind, Optimizer as _, Options, Rate, Schedule, Share, drive};

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

/// Descent along the mean of all workers' gradients, step by step.
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
        descent.apply(&mut parameters, &sum, Share::whole(workers.len()), step as f64);
    }
    parameters
}

/// One rank's part, until all have ended.
pub(crate) fn drive_rank(fabric: &Fabric, kind: Kind, options: &Options) -> Driven<f64> {
    let rank = fabric.rank();
    let mut learner = move |step: u64, w: &[f64], g: &mut [f64]| gradient(rank, step, w, g);
    let protocol = kind.begin(fabric, begin(), options).unwrap();
    drive(fabric, protocol, &mut learner).unwrap()
}

/// All ranks on threads.
pub(crate) fn on_threads(kind: Kind, ranks: usize, options: &Options) -> Vec<Driven<f64>> {
    let ends = threads(ranks);
    std::thread::scope(|scope| {
        let one = |fabric| scope.spawn(move || drive_rank(fabric, kind, options));
        let all: Vec<_> = ends.iter().map(one).collect();
        all.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
