//! The last step of a run whose rows have histories.
//!
//! Why       A history names the step of last use in 32 bits. A step beyond would pass for an early
//!           one, and rows would cease to exist that were just trained.
//! How       After the last step that has a name the run is asked to stop, as by a signal: nothing
//!           beyond it is trained, and the checkpoint of exactly that step is written. Then the run
//!           ends with an error that says why. A checkpoint that leaves no step is refused at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stepwell_base::stop::StopRequest;
use stepwell_engine::Purpose;
use stepwell_engine::{Checkpoint, History};
use stepwell_settings::Config;

use crate::metrics::Metrics;
use crate::pipeline::{Observer, Snapshot};
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

/// Watches for the last step on behalf of another observer, which is told everything.
pub(super) struct LastStep {
    inner: Arc<dyn Observer>,
    stop: StopRequest,
    last: u64,
    reached: AtomicBool,
}

impl LastStep {
    pub(super) fn watch(
        config: &Config,
        inner: Arc<dyn Observer>,
        stop: &StopRequest,
    ) -> Arc<Self> {
        let reached = AtomicBool::new(false);
        Arc::new(Self { inner, stop: stop.clone(), last: last_step(config), reached })
    }

    /// The error of a run that ended here.
    pub(super) fn outcome(&self) -> Result<()> {
        let last = self.last;
        match self.reached.load(Ordering::Acquire) {
            true => Err(Error::LastStep { step: last, last }),
            false => Ok(()),
        }
    }
}

impl Observer for LastStep {
    fn progress(&self, snapshot: &Snapshot) {
        if snapshot.purpose == Purpose::Train && snapshot.step >= self.last {
            self.reached.store(true, Ordering::Release);
            self.stop.make();
        }
        self.inner.progress(snapshot);
    }

    fn epoch_trained(&self, metrics: &Metrics) {
        self.inner.epoch_trained(metrics);
    }

    fn evaluated(&self, metrics: &Metrics, best: Option<&Metrics>) {
        self.inner.evaluated(metrics, best);
    }

    fn saved(&self, step: u64, path: &Path) {
        self.inner.saved(step, path);
    }

    fn cached(&self, examples: u64, path: &Path) {
        self.inner.cached(examples, path);
    }

    fn cache_given_up(&self, why: &str) {
        self.inner.cache_given_up(why);
    }
}
