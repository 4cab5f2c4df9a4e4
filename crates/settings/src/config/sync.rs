//! How ranks agree on the model.

use std::fmt::{Display, Formatter};

use stepwell_sync::Kind;

use super::Config;

/// How ranks agree on the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncConfig {
    /// How ranks agree on dense parameters.
    pub dense: DenseKind,
    /// Which updates the rows that a rank reads may miss.
    pub rows: RowsKind,
    /// Steps whose updates bounded rows may miss, and under `geeps` dense parameters.
    pub staleness: u64,
    /// Ranks that `rna` probes for each sum.
    pub probes: usize,
    /// Greatest age, in dense updates, of a gradient that `rna` does not drop.
    pub age: u64,
}

/// How ranks agree on dense parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DenseKind {
    /// By a protocol between ranks.
    Protocol(Kind),
    /// In tables of a parameter server, with a shard on every rank; the tables add updates that
    /// ranks compute.
    Geeps,
}

impl DenseKind {
    /// The sum of all ranks' gradients, for which all ranks wait.
    pub const BSP: Self = Self::Protocol(Kind::Bsp);
    /// All kinds.
    pub const ALL: [Self; 7] = {
        let mut all = [Self::Geeps; 7];
        let mut place = 0;
        while place < Kind::ALL.len() {
            all[place] = Self::Protocol(Kind::ALL[place]);
            place += 1;
        }
        all
    };

    /// Name in settings.
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

    /// The ranks whose dense parts are averaged into the model. In tables, parameters are the same
    /// on all ranks, but each rank's optimizer has its own state.
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

/// Which updates the rows that a rank reads may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsKind {
    /// None: they have the updates of all earlier steps.
    Exact,
    /// Updates of the last few steps.
    Bounded,
    /// Updates of all steps in flight.
    Async,
}

impl RowsKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Bounded, Self::Async];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Bounded => "bounded",
            Self::Async => "async",
        }
    }
}

impl Config {
    /// Whether ranks wait for each other in every step. The model then equals, bit for bit, the
    /// model of a single rank.
    pub fn in_step(&self) -> bool {
        self.ranks.count == 1 || self.sync.rows == RowsKind::Exact
    }

    /// Whether runs of this configuration may give different models.
    pub fn depends_on_time(&self) -> bool {
        let waits = self.sync.rows == RowsKind::Bounded && self.sync.staleness == 0;
        let repeats = waits && matches!(self.sync.dense, DenseKind::BSP | DenseKind::Geeps);
        !(repeats || self.in_step())
    }

    /// Number of ranks that only serve dense parameters; they come before the learners.
    pub fn servers(&self) -> usize {
        usize::from(!self.in_step() && self.sync.dense.has_server())
    }

    /// Most steps that a rank may be ahead of the last step that all ranks have ended; 0 in step.
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
