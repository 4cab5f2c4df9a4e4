//! The virtual clock: results repeat, and times match calculations and threads that really sleep.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use stepwell_fabric::{Fabric, threads};
use stepwell_sim::clock::{BoxedLearner, ClockedRun, Times};
use stepwell_sync::{Counts, Groups, Kind, Options, Rate};

use crate::timed::{Case, LANES, LATENCY, RANKS, gradient, times};

fn learner(rank: usize) -> BoxedLearner<f32> {
    Box::new(move |step: u64, w: &[f32], g: &mut [f32]| gradient(rank, step, w, g))
}

fn clocked(kind: Kind, options: &Options, times: Times) -> ClockedRun<f32> {
    let learners = (0..RANKS).map(learner).collect();
    let mut run = ClockedRun::new(kind, options, &[0.0; LANES], learners, times).unwrap();
    while run.advance().unwrap() {}
    run
}

#[test]
fn a_run_repeats_to_the_bit() {
    for kind in Kind::ALL {
        for groups in [Groups::One, Groups::Several(vec![vec![0, 2], vec![1, 3]])] {
            let options = Options { groups, ..Options::new(30, Rate::constant(0.1)) };
            let [one, other] = [0, 1].map(|_| clocked(kind, &options, times(LATENCY)));
            assert_eq!(one.seconds().to_bits(), other.seconds().to_bits(), "{kind}");
            assert_eq!(one.model(), other.model(), "{kind}");
            assert_eq!((one.counts(), one.bytes_sent()), (other.counts(), other.bytes_sent()));
            assert_eq!(one.counts().lost(), 0, "{kind}: {:?}", one.counts());
        }
    }
}

/// The slowest rank of each step, and two rounds of messages with a quarter of the lanes to three
/// others.
#[test]
fn the_blocking_sum_takes_what_arithmetic_says() {
    let (steps, times) = (50, times(LATENCY));
    let options = Options::new(steps, Rate::constant(0.1));
    let run = clocked(Kind::Bsp, &options, times.clone());
    let computing = &times.computing;
    let slowest = |step| (0..RANKS).map(move |rank| computing.seconds(rank, step, 1.0));
    let computing: f64 = (0..steps).map(|step| slowest(step).fold(0.0, f64::max)).sum();
    let message = (LANES / RANKS * 4 + 32) as f64 / times.network.bytes_per_second;
    let sums = (3 * LANES * 4) as f64 / times.arithmetic;
    let update = (3 * LANES * 4) as f64 / times.arithmetic;
    let round = |messages: f64| times.network.latency_seconds + messages * message;
    let least = computing + steps as f64 * (round(1.0) + sums + round(1.0) + update);
    let most = computing + steps as f64 * (round(6.0) + sums + round(6.0) + update);
    let took = run.seconds();
    assert!((least..most).contains(&took), "{took} is not within {least} and {most}");
}

/// Time of a protocol if ranks are threads that really sleep during delays.
fn measured(case: Case) -> f64 {
    let ends = threads(RANKS);
    let all = std::thread::scope(|scope| {
        let one = |fabric: &Fabric| case.slept(fabric);
        let all: Vec<_> = ends.iter().map(|fabric| scope.spawn(move || one(fabric))).collect();
        all.into_iter().map(|rank| rank.join().unwrap()).collect::<Vec<_>>()
    });
    let counts = Counts::sum(all.iter().map(|rank| rank.counts));
    assert_eq!((counts.lost(), counts.rows_lost()), (0, 0), "{case:?}");
    all.iter().map(|rank| rank.seconds).fold(0.0, f64::max)
}

#[test]
fn predicted_times_are_those_of_threads_that_sleep() {
    // Threads are sometimes late on a busy machine, so one good time in a few suffices.
    for case in Case::all() {
        let predicted = case.predicted(LATENCY);
        let mut ratios = Vec::new();
        let is_near = (0..5).any(|_| {
            ratios.push(measured(case) / predicted);
            ratios.last().is_some_and(|ratio| (ratio - 1.0).abs() < 0.15)
        });
        println!("{case}: predicted {predicted:.3} s, measured over predicted {ratios:.3?}");
        assert!(is_near, "{case}: predicted {predicted} s, measured over that {ratios:?}");
    }
}
