//! Who is told how a run goes, and what.

use std::path::Path;
use std::sync::Arc;

use stepwell_engine::{Group, Purpose};

use crate::metrics::{Metrics, Scored};

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// What the last mini-batch was for.
    pub purpose: Purpose,
    /// Examples trained on by this process.
    pub examples: u64,
    /// Examples scored so far of the evaluation at hand.
    pub evaluated: u64,
    /// Steps of the model.
    pub step: u64,
    /// Mean loss of this epoch's training examples before they were trained on, that of all labels.
    pub loss: Option<f64>,
    /// Whether that is the log loss of one label.
    pub is_log_loss: bool,
    /// Those examples.
    pub epoch_examples: u64,
    /// Distinct keys per planned unit that were in memory.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
    /// Of the keys planned on devices the part whose rows were there; none without devices.
    pub on_devices: Option<f64>,
    /// Rows that left their slot: so many fewer than the misses are in memory, and those that a run
    /// began with.
    pub evictions: u64,
    /// Misses that began with their initial value.
    pub initialized: u64,
    /// Rows read from the store.
    pub refilled: u64,
    /// Reads for them, of a page or more.
    pub reads: u64,
    /// Pages that these brought.
    pub pages_read: u64,
}

/// What the tiers hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Rows that fit in memory.
    pub slots: u64,
    /// Rows of the stores, expired ones among them until they are merged away.
    pub disk_rows: u64,
    /// Bytes of the stores' sealed segments.
    pub disk_bytes: u64,
}

impl Held {
    /// By all table groups.
    pub(super) fn of(groups: &[Arc<Group>]) -> Self {
        groups.iter().fold(Self::default(), |held, group| Self {
            slots: held.slots + group.slab.slots() as u64,
            disk_rows: held.disk_rows + group.store.len(),
            disk_bytes: held.disk_bytes + group.store.bytes_files(),
        })
    }
}

impl Snapshot {
    /// Of the keys planned on devices above `groups` the part whose rows were there.
    pub(super) fn on_devices(groups: &[Arc<Group>]) -> Option<f64> {
        Some(groups.first()?.devices()?.count().hit_rate())
    }
}

/// Somebody who is told how the run goes; called from the training thread, so it must be quick.
pub trait Observer: Send + Sync {
    /// After every mini-batch.
    fn progress(&self, _snapshot: &Snapshot) {}

    /// After every mini-batch, before [`Observer::progress`]: `look` looks at the tiers, which
    /// waits for the stores' locks and is for now and then.
    fn tiers(&self, _look: &dyn Fn() -> Held) {}

    /// After every mini-batch that was trained: the logits of its examples before that, and their
    /// labels; not where another rank alone has them.
    fn trained(&self, _scored: Scored<'_>) {}

    /// After every mini-batch of an evaluation: its examples, in the order of the data, with a
    /// logit for each label. [`Loss::prediction`](crate::Loss::prediction) says what they mean.
    fn scored(&self, _scored: Scored<'_>) {}

    /// After the training part of an epoch.
    fn epoch_trained(&self, _metrics: &Metrics) {}

    /// After an evaluation; `best` is what the true probabilities reach.
    fn evaluated(&self, _metrics: &Metrics, _best: Option<&Metrics>) {}

    /// Before the digest of the model is computed, which reads all rows.
    fn digesting(&self) {}

    /// After a checkpoint was completed.
    fn saved(&self, _step: u64, _path: &Path) {}

    /// After the cache of the data was completed; from another thread than the rest.
    fn cached(&self, _examples: u64, _path: &Path) {}

    /// After the cache of the data was given up, and why; from another thread than the rest.
    fn cache_given_up(&self, _why: &str) {}
}

/// Several who are told, in this order.
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

    fn scored(&self, scored: Scored<'_>) {
        self.0.iter().for_each(|one| one.scored(scored));
    }

    fn epoch_trained(&self, metrics: &Metrics) {
        self.0.iter().for_each(|one| one.epoch_trained(metrics));
    }

    fn evaluated(&self, metrics: &Metrics, best: Option<&Metrics>) {
        self.0.iter().for_each(|one| one.evaluated(metrics, best));
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

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence;

impl Observer for Silence {}
