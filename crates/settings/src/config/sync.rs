//! How ranks agree.

use stepwell_sync::Kind;

use super::Config;

/// How ranks agree on the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncConfig {
    /// The protocol of the dense part.
    pub dense: Kind,
    /// How old the rows may be that a rank reads.
    pub rows: RowsKind,
    /// Steps whose updates bounded rows may miss.
    pub staleness: u64,
    /// Ranks that `rna` probes for each sum.
    pub probes: usize,
    /// Updates of the dense part after which `rna` drops a gradient.
    pub age: u64,
}

impl SyncConfig {
    /// Its part of [`Config::blank`].
    pub(super) fn blank() -> Self {
        Self { dense: Kind::Rna, rows: RowsKind::Async, staleness: 0, probes: 0, age: 0 }
    }
}

/// How old the rows may be that a rank reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsKind {
    /// They have the updates of all steps before.
    Exact,
    /// They miss those of the last few steps at most.
    Bounded,
    /// They miss those of as many steps as are in flight.
    Async,
}

impl RowsKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Bounded, Self::Async];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Bounded => "bounded",
            Self::Async => "async",
        }
    }
}

impl Config {
    /// Whether ranks wait for each other in every step: then the model is that of one rank, bit for
    /// bit.
    pub fn in_step(&self) -> bool {
        self.ranks.count == 1 || self.sync.rows == RowsKind::Exact
    }

    /// Ranks before the first that computes: a server of the dense part.
    pub fn servers(&self) -> usize {
        usize::from(!self.in_step() && self.sync.dense.has_server())
    }

    /// Steps that a rank may be ahead of the last one that all ranks have ended, where they are not
    /// in step.
    pub fn ahead_max(&self) -> u64 {
        match self.sync.rows {
            RowsKind::Exact => 0,
            RowsKind::Bounded => self.sync.staleness.min(self.in_flight()),
            RowsKind::Async => self.in_flight(),
        }
    }

    /// Steps whose rows can be pinned at once.
    pub(crate) fn in_flight(&self) -> u64 {
        let batches = self.pipeline.lookahead as u64 + 1;
        batches.saturating_mul(self.mini_batches_per_batch() as u64)
    }
}
