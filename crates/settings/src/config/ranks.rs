//! Ranks, and how they exchange rows.

/// Ranks that train one model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RanksConfig {
    /// Number of ranks.
    pub count: usize,
    /// How ranks exchange rows.
    pub exchange: ExchangeKind,
    /// Seconds of silence after which a rank is given up.
    pub timeout: f64,
}

/// How ranks exchange rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// In every mini-batch: the owner sends weights, gets gradients and updates the row.
    Owner,
    /// As `Owner`, except that a row that only one rank needs in several mini-batches of a batch is
    /// lent to it for that batch.
    WorkingSet,
}

impl ExchangeKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Owner, Self::WorkingSet];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::WorkingSet => "working_set",
        }
    }
}
