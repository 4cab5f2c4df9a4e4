//! Tests of the checkers: without each rule they find a violation, and with it none in the same
//! schedules of the same job. `schedules.rs` runs the other jobs with all rules.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]
#![expect(clippy::print_stdout, reason = "the test prints what it found")]

use stepwell_base::rules::{Rule, Rules};
use stepwell_disk::MemDisk;
use stepwell_sim::{
    Case, Dice, Finding, Ranked, RanksTally, SCHEDULES_PER_JOB, Shape, Tally, pools, run_job,
};

/// Most jobs until a hazard must occur.
const JOBS_MAX: u64 = 20;

/// Searches for a schedule with a violation without `rule`; one of `checkers` must find it.
fn breaks(rule: Rule, checkers: &[&str]) {
    let pools = pools().unwrap();
    let (mut without, mut with) = (Tally::default(), Tally::default());
    for job in 0..JOBS_MAX {
        let seeds = job * SCHEDULES_PER_JOB..(job + 1) * SCHEDULES_PER_JOB;
        let outcome = run_job(seeds.clone(), Rules::without(rule), &pools, &mut without);
        let Err(found) = outcome else { continue };
        run_job(seeds.start..found.seed + 1, Rules::default(), &pools, &mut with)
            .unwrap_or_else(|found| panic!("with all rules: {found}"));
        let (runs, seed, finding) = (without.runs, found.seed, found.finding);
        println!("without {rule:?}, after {runs} runs, seed {seed}: {finding}");
        assert!(checkers.contains(&finding.checker()), "{finding} is not of {checkers:?}");
        return;
    }
    panic!("without {rule:?} nothing is found in {} runs", without.runs);
}

#[test]
fn h1_without_looking_at_rows_on_their_way_down_one_is_stale() {
    breaks(Rule::Forward, &["wrong row"]);
}

#[test]
fn h2_without_pins_a_planned_row_leaves() {
    breaks(Rule::Pin, &["wrong row", "panic"]);
}

#[test]
fn h3_filling_before_copying_loses_the_row_that_leaves() {
    breaks(Rule::CopyBeforeFill, &["wrong row", "wrong model", "wrong checkpoint"]);
}

#[test]
fn h4_reading_early_misses_updates() {
    breaks(Rule::ReadLate, &["wrong row"]);
}

#[test]
fn h6_writing_out_of_order_brings_an_older_row_back() {
    breaks(Rule::WriteInOrder, &["wrong row", "wrong model", "wrong checkpoint"]);
}

#[test]
fn h7_rows_that_begin_in_order_of_creation_differ() {
    breaks(Rule::BeginByKey, &["wrong row"]);
}

#[test]
fn h8_touching_at_plan_counts_too_much() {
    breaks(Rule::TouchAtRetire, &["wrong figures"]);
}

#[test]
fn h9_a_checkpoint_in_flight_is_not_the_model_after_its_step() {
    breaks(Rule::DrainBeforeCheckpoint, &["wrong checkpoint", "wrong row"]);
}

#[test]
fn h10_evaluations_that_keep_their_pins_leave_no_slot() {
    breaks(Rule::RetireEvaluated, &["panic", "deadlock"]);
}

#[test]
fn h11_forgetting_before_writing_makes_a_row_stale() {
    breaks(Rule::PutBeforeForget, &["wrong row", "wrong model"]);
}

#[test]
fn h12_a_batch_that_is_never_cut_waits_for_ever() {
    breaks(Rule::CutBatch, &["deadlock"]);
}

#[test]
fn h13_keys_of_several_tables_that_are_not_salted_meet() {
    breaks(Rule::SaltKeys, &["wrong row"]);
}

#[test]
fn h14_a_table_whose_rows_may_leave_does_not_say_that_it_has_no_room() {
    breaks(Rule::KeepWhole, &["wrong end", "wrong figures"]);
}

#[test]
fn h15_a_row_that_came_up_early_is_old_once_a_newer_one_goes_down() {
    breaks(Rule::ForgetHarvested, &["wrong row", "wrong model", "wrong checkpoint"]);
}

#[test]
fn h17_without_pins_a_planned_row_leaves_its_device() {
    breaks(Rule::PinOnDevice, &["wrong row", "panic", "error"]);
}

#[test]
fn h18_without_a_slot_below_a_row_on_a_device_has_nowhere_to_go() {
    breaks(Rule::PinBelow, &["wrong row", "panic"]);
}

#[test]
fn h19_lowering_before_the_last_step_brings_an_old_row_down() {
    breaks(Rule::StepBeforeLower, &["error"]);
}

#[test]
fn h20_lifting_before_the_last_step_overwrites_a_row_in_use() {
    breaks(Rule::StepBeforeLift, &["error"]);
}

#[test]
fn h21_a_step_that_does_not_wait_reads_rows_that_are_not_there() {
    breaks(Rule::WaitForLifted, &["error"]);
}

#[test]
fn h22_reading_before_a_row_has_arrived_is_out_of_order() {
    breaks(Rule::WaitForLowered, &["error"]);
}

#[test]
fn h23_layers_that_do_not_wait_read_what_is_not_pooled() {
    breaks(Rule::WaitForPooled, &["error"]);
}

#[test]
fn h24_weights_of_others_that_nobody_waits_for_are_out_of_order() {
    breaks(Rule::WaitForOthers, &["error"]);
}

#[test]
fn h25_a_row_that_goes_up_while_a_step_has_it_below_loses_that_step() {
    breaks(Rule::WaitForBelow, &["wrong row", "wrong model", "wrong checkpoint"]);
}

#[test]
fn h26_rows_that_do_not_wait_take_gradients_that_are_not_there() {
    breaks(Rule::WaitForPassed, &["error"]);
}

/// Two ranks that train `case` and lend each other rows; `None` if they can't.
fn lend(case: &Case, seed: u64, rules: Rules, tally: &mut RanksTally) -> Option<Finding> {
    let mut shape = Shape::draw(&mut Dice::new(seed, "ranks"), &case.job().config, case.oracle());
    shape.exchange_by(seed, case.oracle());
    if case.job().config.train.blocks < 2 || case.oracle().full.is_some() {
        return None;
    }
    let (world, shape) = (&MemDisk::new(), &shape);
    let process = Ranked { shape, ranks: 2, seed, stop_after: None, world, from: None };
    case.with_ranks(process, rules, tally).err()
}

/// Runs two ranks without `rule` until a wrong model or checkpoint is found.
fn breaks_ranks(rule: Rule) {
    let (pools, mut tally) = (pools().unwrap(), RanksTally::default());
    for job in 0..JOBS_MAX {
        let case = Case::of(job * SCHEDULES_PER_JOB, &pools).unwrap();
        for seed in job * SCHEDULES_PER_JOB..job * SCHEDULES_PER_JOB + 4 {
            let right = lend(&case, seed, Rules::default(), &mut tally);
            assert!(right.is_none(), "with all rules: {right:?}");
            let found = lend(&case, seed, Rules::without(rule), &mut tally);
            let Some(found) = found else { continue };
            let runs = tally.runs / 2;
            println!("without {rule:?}, after {runs} runs, seed {seed}: {found}");
            assert!(["wrong model", "wrong checkpoint"].contains(&found.checker()), "{found}");
            return;
        }
    }
    panic!("without {rule:?} nothing is found: {tally:?}");
}

#[test]
fn h5_a_row_that_is_sent_before_its_update_misses_it() {
    breaks_ranks(Rule::UpdateBeforeSend);
}

#[test]
fn h16_a_row_that_was_lent_and_is_not_taken_back_misses_updates() {
    breaks_ranks(Rule::TakeBack);
}
