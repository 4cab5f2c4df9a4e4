//! Ranks, and how rows travel between them.

/// Ranks that train one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RanksConfig {
    /// How many.
    pub count: usize,
    /// How rows travel between them.
    pub exchange: ExchangeKind,
    /// Seconds after which one that is not heard of is given up.
    pub timeout: f64,
}

/// How rows travel between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// In every mini-batch: weights from the owner, gradients back, which updates the row.
    Owner,
    /// The same, but for rows that one rank alone needs in several mini-batches of a batch: these
    /// are that rank's while the batch lasts.
    WorkingSet,
}

impl ExchangeKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Owner, Self::WorkingSet];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::WorkingSet => "working_set",
        }
    }
}
