//! Results of a salvage.

use serde::Serialize;
use stepwell_base::Key;

/// Outcome of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Salvaged {
    /// Number of rows in the new store.
    pub rows: u64,
    /// Number of lost rows whose keys are known.
    pub rows_lost: u64,
    /// Keys of lost rows, at most 100,000.
    #[serde(skip)]
    pub keys_lost: Vec<Key>,
    /// Number of damaged pages.
    pub pages_damaged: u64,
    /// Number of damaged pages whose keys are unknown.
    pub pages_unknown: u64,
    /// Number of segments that are missing or cannot be opened.
    pub segments_lost: u64,
    /// Number of segments without an intact footer: rows of pages missing at their ends are lost,
    /// and so are their deletions.
    pub segments_unlisted: u64,
    /// Number of rows by the manifest; 0 if it is lost.
    pub rows_named: u64,
    /// Whether the manifest was damaged or missing; uncommitted segments count then, too.
    pub manifest_lost: bool,
}

impl Salvaged {
    /// Whether nothing is known to be lost.
    pub fn is_whole(&self) -> bool {
        let unlisted = self.segments_lost + self.segments_unlisted + self.pages_damaged;
        unlisted == 0 && self.rows_lost == 0 && !self.manifest_lost && self.rows >= self.rows_named
    }
}
