//! The same protocols on threads.

use stepwell_fabric::{Fabric, threads};
use stepwell_sync::{Counts, Kind, drive};

use crate::problem::{begin, gradient, on_threads, options, plain_loop};

#[test]
fn every_protocol_ends_with_no_gradient_lost() {
    for kind in Kind::ALL {
        for ranks in 2..6 {
            let all = on_threads(kind, ranks, &options());
            let counts = Counts::sum(all.iter().map(|rank| rank.counts));
            assert_eq!(counts.lost(), 0, "{kind}, {ranks} ranks: {counts:?}");
            let finite = all[0].model.iter().all(|value| value.is_finite());
            assert!(finite && all[0].model != begin(), "{kind}: {:?}", all[0].model);
            if [Kind::Bsp, Kind::SyncDsgd].contains(&kind) {
                let workers = ranks - kind.workers(ranks)..ranks;
                assert_eq!(all[0].model, plain_loop(workers, &options()), "{kind}, {ranks} ranks");
            }
        }
    }
}

#[test]
fn a_learner_that_panics_ends_all_ranks() {
    let ends = threads(3);
    let outcomes = std::thread::scope(|scope| {
        let one = |fabric: &Fabric| {
            let rank = fabric.rank();
            let mut learner = move |step: u64, w: &[f64], g: &mut [f64]| {
                assert!(rank != 1 || step < 2, "this one ends");
                gradient(rank, step, w, g);
            };
            let protocol = Kind::Bsp.begin(fabric, begin(), &options()).unwrap();
            drive(fabric, protocol, &mut learner)
        };
        let all: Vec<_> = ends.iter().map(|fabric| scope.spawn(move || one(fabric))).collect();
        all.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    assert!(outcomes[1].is_err(), "its panic goes on");
    for rank in [0, 2] {
        let error = outcomes[rank].as_ref().unwrap().as_ref().unwrap_err().to_string();
        assert_eq!(error, "rank 1 failed: its learner panicked");
    }
}
