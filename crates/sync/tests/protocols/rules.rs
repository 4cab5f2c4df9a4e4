//! A test that has never failed shows little: without each rule the ledger finds an error, and with
//! it none in the same schedules.

use std::panic::{AssertUnwindSafe, catch_unwind};

use stepwell_sync::{Kind, Rule, Rules};

use crate::ledger::Job;

/// Schedules in which a missing rule must show.
const SCHEDULES_MAX: u64 = 300;

fn breaks(rule: Rule, kind: Kind, says: &str) {
    found_without(rule, says, |seed, rules| {
        let mut job = Job::drawn(kind, seed);
        job.options.rules = rules;
        job.check(seed).map(drop)
    });
}

/// Checks the jobs of seeds with all rules and without one, until an error with this text is found.
pub(crate) fn found_without(
    rule: Rule,
    says: &str,
    check: impl Fn(u64, Rules) -> Result<(), String>,
) {
    for seed in 0..SCHEDULES_MAX {
        check(seed, Rules::default()).unwrap_or_else(|why| panic!("with all rules, {seed}: {why}"));
        let without = || check(seed, Rules::without(rule));
        let why = match catch_unwind(AssertUnwindSafe(without)) {
            Ok(Ok(())) => continue,
            Ok(Err(why)) => why,
            Err(panic) => *panic.downcast::<String>().unwrap_or_default(),
        };
        println!("without {rule:?}, seed {seed}: {why}");
        assert!(why.contains(says), "{why}");
        return;
    }
    panic!("without {rule:?} nothing is found in {SCHEDULES_MAX} schedules");
}

#[test]
fn sync_i1_a_gradient_that_is_overwritten_is_lost() {
    breaks(Rule::WaitForUsed, Kind::RdmaWild, "lost");
}

#[test]
fn sync_i2_a_gradient_that_is_not_noted_is_used_twice() {
    breaks(Rule::NoteUsed, Kind::RdmaWild, "lost");
}

#[test]
fn sync_i3_a_version_before_its_data_names_another_gradient() {
    breaks(Rule::VersionLast, Kind::RdmaWild, "show in the model");
    breaks(Rule::VersionLast, Kind::SyncDsgd, "show in the model");
}

#[test]
fn sync_i4_without_dropping_the_bound_is_broken() {
    breaks(Rule::DropStale, Kind::Rna, "of age");
}

#[test]
fn sync_i5_an_old_answer_starts_a_sum_of_nobody() {
    breaks(Rule::ExpireProbes, Kind::Rna, "");
}

#[test]
fn sync_i6_a_gradient_that_is_not_forgotten_is_used_twice() {
    breaks(Rule::TakeOnce, Kind::Rna, "");
}

#[test]
fn sync_i7_a_change_that_is_pushed_again_counts_twice() {
    breaks(Rule::PushOnce, Kind::Rna, "");
}

#[test]
fn sync_i8_a_step_between_asking_and_averaging_counts_half() {
    breaks(Rule::AverageAtomically, Kind::AdPsgd, "counts");
}

#[test]
fn sync_i9_a_late_gradient_that_is_not_kept_is_lost() {
    breaks(Rule::KeepLate, Kind::EagerMajority, "lost");
}
