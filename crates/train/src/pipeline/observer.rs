//! Observers of a run's progress.

use std::path::Path;
use std::sync::Arc;

use stepwell_engine::{Group, Purpose};

use crate::metrics::{Evaluation, Metrics, Scored};

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// Purpose of the last mini-batch.
    pub purpose: Purpose,
    /// Examples trained on by this process.
    pub examples: u64,
    /// Examples scored so far by the current evaluation.
    pub evaluated: u64,
    /// Steps of the model.
    pub step: u64,
    /// Mean loss, over all labels, of this epoch's training examples before they were trained on.
    pub loss: Option<f64>,
    /// Whether `loss` is the log loss of one label.
    pub is_log_loss: bool,
    /// Number of training examples that `loss` covers.
    pub epoch_examples: u64,
    /// Distinct keys of planned units that were in memory.
    pub hits: u64,
    /// Distinct keys of planned units that were not in memory.
    pub misses: u64,
    /// Share of the keys planned on devices whose rows were there; `None` without devices.
    pub on_devices: Option<f64>,
    /// Rows that left their slot. Rows in memory: misses, less evictions, plus rows that the run
    /// began with.
    pub evictions: u64,
    /// Misses that started with their initial value.
    pub initialized: u64,
    /// Rows read from the store.
    pub refilled: u64,
    /// Disk reads for `refilled`, each of one page or more.
    pub reads: u64,
    /// Pages that `reads` returned.
    pub pages_read: u64,
}

/// Contents of the tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Capacity of memory in rows.
    pub slots: u64,
    /// Rows of the stores, including expired ones that are not yet merged away.
    pub disk_rows: u64,
    /// Bytes of the stores' sealed segments.
    pub disk_bytes: u64,
}

impl Held {
    /// Sums over all table groups.
    pub(super) fn of(groups: &[Arc<Group>]) -> Self {
        groups.iter().fold(Self::default(), |held, group| Self {
            slots: held.slots + group.slab.slots() as u64,
            disk_rows: held.disk_rows + group.store.len(),
            disk_bytes: held.disk_bytes + group.store.bytes_files(),
        })
    }
}

impl Snapshot {
    /// Share of the keys planned on devices above `groups` whose rows were there.
    pub(super) fn on_devices(groups: &[Arc<Group>]) -> Option<f64> {
        Some(groups.first()?.devices()?.count().hit_rate())
    }
}

/// Observes a run's progress; called from the training thread, so it must be quick.
pub trait Observer: Send + Sync {
    /// Called after every mini-batch.
    fn progress(&self, _snapshot: &Snapshot) {}

    /// Called after every mini-batch, before [`Observer::progress`]. `look` inspects the tiers; it
    /// waits for the stores' locks, so it should be called only occasionally.
    fn tiers(&self, _look: &dyn Fn() -> Held) {}

    /// Called after every trained mini-batch with its examples' labels and their logits before the
    /// step; not called if another rank alone has them.
    fn trained(&self, _scored: Scored<'_>) {}

    /// Names of the layers whose outputs [`Observer::scored`] gets when one rank scores data on the
    /// processor.
    fn layers(&self) -> Vec<String> {
        Vec::new()
    }

    /// Called after every mini-batch of an evaluation with its examples in the order of the data
    /// and a logit for each label, which [`Loss::prediction`](crate::Loss::prediction) interprets.
    fn scored(&self, _scored: Scored<'_>) {}

    /// Called after the training part of `epoch`, counted from 0.
    fn epoch_trained(&self, _epoch: u64, _metrics: &Metrics) {}

    /// Called after an evaluation; `best` has the figures of the true probabilities.
    fn evaluated(&self, _evaluation: &Evaluation, _best: Option<&Metrics>) {}

    /// Called before the model's digest is computed, which reads all rows.
    fn digesting(&self) {}

    /// Called after a checkpoint was completed.
    fn saved(&self, _step: u64, _path: &Path) {}

    /// Called from another thread, after the cache of the data was completed.
    fn cached(&self, _examples: u64, _path: &Path) {}

    /// Called from another thread, after the cache of the data was abandoned, with the reason.
    fn cache_given_up(&self, _why: &str) {}
}

/// Several observers, called in this order.
pub struct Observers(pub Vec<Arc<dyn Observer>>);

impl Observer for Observers {
    fn progress(&self, snapshot: &Snapshot) {
        self.0.iter().for_each(|one| one.progress(snapshot));
    }

    fn tiers(&self, look: &dyn Fn() -> Held) {
        self.0.iter().for_each(|one| one.tiers(look));
    }

    fn trained(&self, scored: Scored<'_>) {
        self.0.iter().for_each(|one| one.trained(scored));
    }

    fn layers(&self) -> Vec<String> {
        self.0.iter().flat_map(|one| one.layers()).collect()
    }

    fn scored(&self, scored: Scored<'_>) {
        self.0.iter().for_each(|one| one.scored(scored));
    }

    fn epoch_trained(&self, epoch: u64, metrics: &Metrics) {
        self.0.iter().for_each(|one| one.epoch_trained(epoch, metrics));
    }

    fn evaluated(&self, evaluation: &Evaluation, best: Option<&Metrics>) {
        self.0.iter().for_each(|one| one.evaluated(evaluation, best));
    }

    fn digesting(&self) {
        self.0.iter().for_each(|one| one.digesting());
    }

    fn saved(&self, step: u64, path: &Path) {
        self.0.iter().for_each(|one| one.saved(step, path));
    }

    fn cached(&self, examples: u64, path: &Path) {
        self.0.iter().for_each(|one| one.cached(examples, path));
    }

    fn cache_given_up(&self, why: &str) {
        self.0.iter().for_each(|one| one.cache_given_up(why));
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence;

impl Observer for Silence {}
