//! Only a fault of the disk that occurred excuses an error of a run.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::io::ErrorKind;

use stepwell_base::rules::Rules;
use stepwell_disk::{Failure, Faults, Lasting, Operation, Survival};
use stepwell_sim::{Case, Cuts, Dice, Finding, Mishap, Shape, Tally, Uses, pools};

const SEED: u64 = 7;

/// A case and a shape that end with an error regardless of the disk: the rows of its largest
/// mini-batch don't fit.
fn too_tight() -> (Case, Shape) {
    let case = Case::of(SEED, &pools().unwrap()).unwrap();
    let mut shape =
        Shape::draw(&mut Dice::new(SEED, "schedule"), &case.job().config, case.oracle());
    shape.tighten(1, 0, case.oracle());
    let slots = shape.slots.iter().map(|slots| slots * 2 / 3).collect();
    shape.give(slots, case.oracle());
    (case, shape)
}

/// An operation that fails after `after` successes.
fn failing(operation: Operation, after: u64) -> Faults {
    let (kind, lasting) = (ErrorKind::Other, Lasting::FromThenOn);
    let failure = Failure { operation: Some(operation), after, kind, lasting };
    Faults { failure: Some(failure), ..Faults::default() }
}

#[test]
fn an_error_without_a_fault_is_found() {
    let (case, shape) = too_tight();
    let (rules, mut tally) = (Rules::default(), Tally::default());
    for faults in [Faults::default(), failing(Operation::Write, u64::MAX)] {
        let outcome = case.disturbed(&shape, SEED, rules, faults, &mut tally);
        assert!(matches!(outcome, Err(Finding::Failed(_))), "{outcome:?}");
    }
    let first = Mishap::Cut { after: u64::MAX, survival: Survival::Everything };
    let cuts = Cuts { first, uses: Uses::default() };
    let outcome = case.cut(&shape, SEED, rules, cuts, &mut Dice::new(SEED, "cuts"), &mut tally);
    assert!(matches!(outcome, Err(Finding::Failed(_))), "{outcome:?}");
    assert_eq!((tally.disturbed, tally.fired, tally.errors), (2, 0, 3));
}

#[test]
fn a_fault_that_fired_excuses_an_error() {
    let (case, shape) = too_tight();
    let mut tally = Tally::default();
    let faults = failing(Operation::Create, 0);
    case.disturbed(&shape, SEED, Rules::default(), faults, &mut tally).unwrap();
    assert_eq!((tally.disturbed, tally.fired, tally.errors), (1, 1, 1));
}
