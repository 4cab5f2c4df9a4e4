//! Ids of an example in the data.

use crate::dice::Dice;

/// Dense features of an example in the data.
pub(crate) const DENSE: usize = 13;

/// Distribution of a slot's ids.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ids {
    /// `count` ids, some of them far more frequent than others.
    Skewed { count: u64, power: u32 },
    /// `count` ids in rotation, each for `run` examples.
    Cycle { count: u64, run: u64 },
}

impl Ids {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let count = dice.pick(&[1, 2, 4, 16, 64, 256]);
        if dice.once_in(3) {
            return Self::Cycle { count, run: dice.within(1, 12) };
        }
        Self::Skewed { count, power: dice.within(1, 4) as u32 }
    }

    pub(crate) fn id(self, example: u64, dice: &mut Dice) -> u64 {
        match self {
            Self::Skewed { count, power } => (dice.part().powi(power as i32) * count as f64) as u64,
            Self::Cycle { count, run } => example / run % count,
        }
    }
}
