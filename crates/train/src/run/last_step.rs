//! The last step of a run whose rows have histories.
//!
//! - **Why.** A history stores the step of last use in 32 bits. A later step would look like an
//!   early one, and rows that were just trained would expire.
//! - **How.** After the last step that fits, the training stage asks the run to stop, as a signal
//!   would: nothing beyond it is trained, and a checkpoint of exactly that step is written. The run
//!   then ends with an error. A checkpoint that leaves no step is refused at once.

use stepwell_engine::{Checkpoint, History};
use stepwell_settings::Config;

use crate::{Error, Result};

/// The last step that may be trained with the row histories that `config` keeps.
fn last_step(config: &Config) -> u64 {
    let of_tables = config.tables.iter().map(|table| table.rules(config).rows);
    let mut lives = of_tables.chain([config.rows.clone()]).map(|life| life.life());
    if lives.any(|life| life.is_some()) { History::STEPS_MAX } else { u64::MAX }
}

/// Refuses to resume from `checkpoint` if no step is left to train.
pub(super) fn check(config: &Config, checkpoint: &Checkpoint) -> Result<()> {
    let (step, last) = (checkpoint.step, last_step(config));
    if step >= last { Err(Error::LastStep { step, last }) } else { Ok(()) }
}

/// Refuses to score `checkpoint` if its histories exceeded their range.
pub(super) fn check_counts(config: &Config, checkpoint: &Checkpoint) -> Result<()> {
    let (step, last) = (checkpoint.step, last_step(config));
    if step > last { Err(Error::LastStep { step, last }) } else { Ok(()) }
}
