//! Without any one of the rules, an error is found.

use stepwell_geeps::{Applies, Rule, Rules, Settings, Staleness};

use crate::support::oracle::{same, trained};
use crate::support::schedule::{Setup, run};
use crate::support::worker::{Departs, Worker};
use crate::support::{Model, Values};

const CLOCKS: u64 = 6;
const SEEDS: u64 = 60;

/// Number of runs with an error.
fn found(model: &Model, rule: Option<Rule>, departs: Departs) -> usize {
    let rules = rule.map_or_else(Rules::default, Rules::without);
    let wrong = |seed: &u64| {
        let ranks = 3;
        // Nothing is pinned, so that everything is copied.
        let budget_bytes = 2 * model.peak_bytes();
        let settings = |_| Settings { rules, budget_bytes, ..model.settings() };
        let worker = |rank| Worker::new(model, rank, CLOCKS).departing(departs);
        let setup =
            Setup { seed: *seed, ranks, settings: &settings, worker: &worker, gathers: true };
        match run(&setup) {
            Err(_) => true,
            Ok(left) => {
                let wanted = trained(model, ranks, CLOCKS);
                !left.found.is_empty() || same(&left.rows, &wanted).is_err()
            }
        }
    };
    (0..SEEDS).filter(wrong).count()
}

fn fractions() -> Model {
    Model::new(&[9, 14], Applies::ByClock, Staleness::BSP, Values::Fractions)
}

fn counts(slack: u64) -> Model {
    Model::new(&[4, 4], Applies::OnArrival, Staleness::Clocks(slack), Values::Counts)
}

#[test]
fn with_all_rules_nothing_is_found() {
    assert_eq!(found(&fractions(), None, Departs::default()), 0);
    assert_eq!(found(&counts(1), None, Departs::default()), 0);
    let departs = Departs { clocks_twice: true, ..Departs::default() };
    assert_eq!(found(&counts(0), None, departs), 0);
}

#[test]
fn a_read_that_does_not_wait_for_its_age_is_found() {
    assert!(found(&fractions(), Some(Rule::AgeAtRead), Departs::default()) > 10);
    assert!(found(&counts(1), Some(Rule::AgeAtRead), Departs::default()) > 10);
}

#[test]
fn a_shard_that_does_not_wait_for_all_workers_is_found() {
    assert!(found(&fractions(), Some(Rule::WaitForAllWorkers), Departs::default()) > 10);
}

#[test]
fn a_sum_in_another_order_is_found() {
    assert!(found(&fractions(), Some(Rule::ApplyInOrderOfRanks), Departs::default()) > 10);
}

#[test]
fn local_data_that_is_fetched_before_it_is_saved_is_found() {
    assert!(found(&fractions(), Some(Rule::SaveBeforeFetch), Departs::default()) > 10);
}

#[test]
fn a_clock_that_overtakes_updates_is_found() {
    assert!(found(&fractions(), Some(Rule::UpdatesBeforeClock), Departs::default()) > 10);
}

#[test]
fn what_was_foreseen_for_another_clock_is_found() {
    let departs = Departs { clocks_twice: true, ..Departs::default() };
    assert!(found(&counts(0), Some(Rule::ClockOfForeseen), departs) > 0);
}
