//! How ranks agree.

use std::fmt::{Display, Formatter};

use stepwell_sync::Kind;

use super::Config;

/// How ranks agree on the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncConfig {
    /// Of the dense part.
    pub dense: DenseKind,
    /// How old the rows may be that a rank reads.
    pub rows: RowsKind,
    /// Steps whose updates bounded rows may miss, and the dense part in tables.
    pub staleness: u64,
    /// Ranks that `rna` probes for each sum.
    pub probes: usize,
    /// Updates of the dense part after which `rna` drops a gradient.
    pub age: u64,
}

impl SyncConfig {
    /// Its part of [`Config::blank`].
    pub(super) fn blank() -> Self {
        Self { dense: DenseKind::Geeps, rows: RowsKind::Async, staleness: 0, probes: 0, age: 0 }
    }
}

/// How ranks agree on the dense part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DenseKind {
    /// By a protocol between them.
    Protocol(Kind),
    /// It is tables of a parameter server, of which every rank is a shard: they add updates that
    /// ranks computed.
    Geeps,
}

impl DenseKind {
    /// The sum of all ranks' gradients, for which all wait.
    pub const BSP: Self = Self::Protocol(Kind::Bsp);
    /// All of them.
    pub const ALL: [Self; 7] = {
        let mut all = [Self::Geeps; 7];
        let mut place = 0;
        while place < Kind::ALL.len() {
            all[place] = Self::Protocol(Kind::ALL[place]);
            place += 1;
        }
        all
    };

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Protocol(kind) => kind.name(),
            Self::Geeps => "geeps",
        }
    }

    /// Whether rank 0 is a server, which computes no gradients.
    pub const fn has_server(self) -> bool {
        match self {
            Self::Protocol(kind) => kind.has_server(),
            Self::Geeps => false,
        }
    }

    /// Which of the ranks' dense parts are the model: their mean. In tables parameters are the same
    /// for all, but each rank's optimizer has a state of its own.
    pub fn model_of(self, ranks: usize) -> std::ops::Range<usize> {
        match self {
            Self::Protocol(kind) => kind.model_of(ranks),
            Self::Geeps => 0..ranks,
        }
    }
}

impl From<Kind> for DenseKind {
    fn from(kind: Kind) -> Self {
        Self::Protocol(kind)
    }
}

impl Display for DenseKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
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

    /// Whether another run of several ranks gives another model, of this same configuration.
    pub fn depends_on_time(&self) -> bool {
        let waits = self.sync.rows == RowsKind::Bounded && self.sync.staleness == 0;
        let repeats = waits && matches!(self.sync.dense, DenseKind::BSP | DenseKind::Geeps);
        !(repeats || self.in_step())
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
