//! The last step of a run whose rows have histories.
//!
//! - **Why.** A history names the step of last use in 32 bits. A step beyond would pass for an
//!   early one, and rows would cease to exist that were just trained.
//! - **How.** After the last step that has a name the stage that trains asks the run to stop, as by
//!   a signal: nothing beyond it is trained, and the checkpoint of exactly that step is written.
//!   Then the run ends with an error that says why. A checkpoint that leaves no step is refused at
//!   once.

use stepwell_engine::{Checkpoint, History};
use stepwell_settings::Config;

use crate::{Error, Result};

/// The last step that may be trained, as `config` keeps rows.
fn last_step(config: &Config) -> u64 {
    let of_tables = config.tables.iter().map(|table| table.rules(config).life);
    let mut lives = of_tables.chain([config.life.clone()]).map(|life| life.life());
    if lives.any(|life| life.is_some()) { History::STEPS_MAX } else { u64::MAX }
}

/// Refuses to go on from `checkpoint` where no step is left to train.
pub(super) fn check(config: &Config, checkpoint: &Checkpoint) -> Result<()> {
    let (step, last) = (checkpoint.step, last_step(config));
    if step >= last { Err(Error::LastStep { step, last }) } else { Ok(()) }
}

/// Refuses to look at `checkpoint` where its histories went beyond what they count.
pub(super) fn check_counts(config: &Config, checkpoint: &Checkpoint) -> Result<()> {
    let (step, last) = (checkpoint.step, last_step(config));
    if step > last { Err(Error::LastStep { step, last }) } else { Ok(()) }
}
