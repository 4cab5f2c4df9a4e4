//! Faults of a schedule's disk: none, or one at a random moment.

use std::io::ErrorKind;

use stepwell_disk::{Failure, Faults, FaultyDisk, Flip, Lasting, Operation, Survival};

use crate::dice::Dice;

/// Operations that may fail individually.
const OPERATIONS: [Operation; 9] = [
    Operation::Read,
    Operation::Write,
    Operation::Sync,
    Operation::Create,
    Operation::Open,
    Operation::Rename,
    Operation::Link,
    Operation::Remove,
    Operation::Truncate,
];

/// How often a run used its disk.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    counts: Vec<u64>,
    mutations: u64,
}

impl Uses {
    /// Operations of `disk` so far.
    pub fn of(disk: &FaultyDisk) -> Self {
        let counts = OPERATIONS.iter().map(|operation| disk.count(*operation)).collect();
        Self { counts, mutations: disk.mutations() }
    }

    /// Mutations that the run made.
    pub fn mutations(&self) -> u64 {
        self.mutations
    }

    fn moment(&self, operation: Operation, dice: &mut Dice) -> u64 {
        let place = OPERATIONS.iter().position(|other| *other == operation);
        let count = place.map_or(0, |place| self.counts[place]);
        dice.below(count.max(1))
    }
}

/// A fault of a disk.
#[derive(Clone, Copy, Debug)]
pub enum Mishap {
    /// A power failure.
    Cut {
        /// Mutations before it.
        after: u64,
        /// Unsynced changes that survive.
        survival: Survival,
    },
    /// An operation fails, or silently does something else.
    Faults(Faults),
}

impl Mishap {
    /// Draws a fault other than a power failure, for a run with this use of its disk.
    pub fn draw(dice: &mut Dice, uses: &Uses) -> Self {
        let none = Faults::default();
        Self::Faults(match dice.below(8) {
            0 | 1 => Faults { failure: Some(failure(dice, uses)), ..none },
            2 => Faults { failure: Some(full(dice, uses)), ..none },
            3 | 4 => {
                let (after, bit) = (uses.moment(Operation::Read, dice), dice.any());
                Faults { flip: Some(Flip { after, bit }), ..none }
            }
            5 => {
                let after = uses.moment(Operation::Read, dice);
                Faults { short_read_after: Some(after), ..none }
            }
            6 => {
                let after = uses.moment(Operation::Write, dice);
                Faults { misdirected_write_after: Some(after), ..none }
            }
            _ => {
                let after = uses.moment(Operation::Write, dice);
                Faults { lost_write_after: Some(after), ..none }
            }
        })
    }

    /// Draws a power failure.
    pub fn cut(dice: &mut Dice, uses: &Uses) -> Self {
        let after = dice.below(uses.mutations.max(1));
        let torn = dice.any();
        let all = [Survival::SyncedAlone, Survival::Everything, Survival::Torn(torn)];
        Self::Cut { after, survival: dice.pick(&all) }
    }

    /// The corresponding faults of the disk.
    pub fn faults(&self) -> Faults {
        match self {
            Self::Cut { after, .. } => Faults { cut_after: Some(*after), ..Faults::default() },
            Self::Faults(faults) => *faults,
        }
    }
}

fn failure(dice: &mut Dice, uses: &Uses) -> Failure {
    let operation = dice.pick(&OPERATIONS);
    Failure {
        operation: Some(operation),
        after: uses.moment(operation, dice),
        kind: dice.pick(&[ErrorKind::Other, ErrorKind::PermissionDenied, ErrorKind::TimedOut]),
        lasting: dice.pick(&[Lasting::Once, Lasting::FromThenOn]),
    }
}

/// Operations that need space fail, from some moment on.
fn full(dice: &mut Dice, uses: &Uses) -> Failure {
    let operation = dice.pick(&[Operation::Write, Operation::Create]);
    Failure {
        operation: Some(operation),
        after: uses.moment(operation, dice),
        kind: ErrorKind::StorageFull,
        lasting: Lasting::FromThenOn,
    }
}
