//! Ranks that die and messages that are damaged, at any moment: all others end with the reason, or
//! the bits are right.

use std::sync::Arc;

use stepwell_fabric::{Fabric, Faults, FaultyCarrier};
use stepwell_geeps::{Applies, Settings, Staleness};

use crate::support::oracle::{assert_same, trained};
use crate::support::schedule::{Disturbed, Setup, run_disturbed};
use crate::support::worker::Worker;
use crate::support::{Model, Values};

const CLOCKS: u64 = 5;

#[test]
fn whoever_is_left_of_ranks_names_the_one_that_died() {
    let model = Model::new(&[9, 14], Applies::ByClock, Staleness::BSP, Values::Fractions);
    for seed in 0..60 {
        let settings = |_| model.settings();
        let worker = |rank| Worker::new(&model, rank, CLOCKS);
        let setup = Setup { seed, ranks: 3, settings: &settings, worker: &worker, gathers: true };
        let (dead, at) = (seed as usize % 3, 17 * seed);
        let disturb = |step, post: &stepwell_fabric::Post| {
            if step == at {
                post.kill(dead, seed as usize % 4);
            }
            if step == at + 400 {
                post.give_up(dead);
            }
            (step >= at).then_some(dead)
        };
        let disturbed = Disturbed { carry: &|_, end| end, disturb: &disturb };
        let errors = run_disturbed(&setup, &disturbed).err().unwrap_or_default();
        for rank in (0..3).filter(|rank| *rank != dead) {
            let line = format!("rank {rank}: rank {dead} is lost: nothing was heard of it");
            assert!(errors.contains(&line), "seed {seed}: {errors}");
        }
    }
}

#[test]
fn a_message_that_is_damaged_or_refused_is_named_or_does_no_harm() {
    let model = Model::new(&[9, 14], Applies::ByClock, Staleness::BSP, Values::Fractions);
    let wanted = trained(&model, 3, CLOCKS);
    let (mut named, mut harmless) = (0, 0);
    for seed in 0..120 {
        let settings = |_| Settings { budget_bytes: 1 << 14, ..model.settings() };
        let worker = |rank| Worker::new(&model, rank, CLOCKS);
        let setup = Setup { seed, ranks: 3, settings: &settings, worker: &worker, gathers: true };
        let number = Some(1 + seed / 2);
        let faults = match seed % 2 {
            0 => Faults { damaged: number, ..Faults::default() },
            _ => Faults { refused: number, ..Faults::default() },
        };
        let carry = |rank, end: Fabric| match rank {
            1 => end.carried_by(|inner| Arc::new(FaultyCarrier::new(inner, faults))),
            _ => end,
        };
        let disturbed = Disturbed { carry: &carry, disturb: &|_, _| None };
        match run_disturbed(&setup, &disturbed) {
            Ok(left) => {
                assert_same(&left.rows, &wanted, &format!("seed {seed}"));
                harmless += 1;
            }
            Err(errors) => {
                // Ranks learn of the error from the first rank that notices it.
                let says = if seed % 2 == 0 { "makes no sense" } else { "cannot send to rank" };
                assert_eq!(errors.lines().count(), 3, "seed {seed}: {errors}");
                assert!(errors.lines().all(|line| line.contains(says)), "seed {seed}: {errors}");
                named += 1;
            }
        }
    }
    assert!(named > 60 && harmless > 0, "{named} named, {harmless} harmless");
}
