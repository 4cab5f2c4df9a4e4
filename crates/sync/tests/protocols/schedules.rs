//! All protocols, in orders drawn from seeds: no gradient is lost or used twice, no bound broken,
//! no deadlock.

use stepwell_sync::{Counts, Kind};

use crate::ledger::Job;

/// Number of schedules, over all protocols.
fn schedules() -> u64 {
    if std::env::var_os("STEPWELL_LONG").is_some() { 20_000 } else { 2_000 }
}

#[test]
fn no_schedule_loses_a_gradient_breaks_a_bound_or_ends_in_a_deadlock() {
    let (mut runs, each) = (0, schedules() / Kind::ALL.len() as u64 + 1);
    for kind in Kind::ALL {
        let mut all = Vec::new();
        for seed in 0..each {
            let job = Job::drawn(kind, seed);
            let outcome = job.check(seed).unwrap_or_else(|why| panic!("{seed}: {why}: {job:?}"));
            all.push(outcome.counts);
            runs += 1;
        }
        let sum = Counts::sum(all);
        println!("{kind}: {each} runs, {sum:?}");
        assert!(sum.used > each, "gradients were used: {sum:?}");
        // Orders vary enough that the rules about late gradients are needed.
        if kind == Kind::Rna {
            assert!(sum.dropped > 0 && sum.left > 0, "{sum:?}");
        }
    }
    println!("{runs} schedules");
}
