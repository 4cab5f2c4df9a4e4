//! The error of a full index, and the size that it proposes.

use std::fmt;

use stepwell_base::ByteCount;
use stepwell_ssd::IndexFill;

/// Rows that the proposed index holds, as a multiple of the current rows.
const TIMES_MORE: u64 = 2;
/// The proposed index is a multiple of this many bytes.
const ROUND: u64 = 1 << 16;

/// A full index, and the size of one that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexFull {
    pub(crate) table: String,
    fill: IndexFill,
    /// Bytes of the index of all tables.
    of_all: u64,
    /// Rows of the proposed index.
    wanted_rows: u64,
    /// Bytes of the proposed index of all tables.
    wanted_bytes: u64,
}

impl IndexFull {
    /// The index of the tables `names`, which has a share of `of_all` bytes (0 if it has all);
    /// `bytes_for` gives the bytes of an index for a number of rows.
    pub(crate) fn new(
        names: &str,
        of_all: u64,
        fill: IndexFill,
        bytes_for: impl FnOnce(u64) -> u64,
    ) -> Self {
        let (share, of_all) = (fill.bytes_max, of_all.max(fill.bytes_max));
        let wanted_rows = fill.rows.saturating_mul(TIMES_MORE);
        let bytes = u128::from(bytes_for(wanted_rows)) * u128::from(of_all);
        let bytes = u64::try_from(bytes.div_ceil(u128::from(share.max(1)))).unwrap_or(u64::MAX);
        // At least a quarter more than now, rounded up.
        let bytes = bytes.max(of_all.saturating_add(of_all / 4));
        let wanted_bytes = bytes.checked_next_multiple_of(ROUND).unwrap_or(bytes);
        Self { table: names.to_owned(), fill, of_all, wanted_rows, wanted_bytes }
    }

    /// Rows, bytes, and the proposed size.
    pub(crate) fn figures(&self) -> String {
        let IndexFill { rows, bytes, bytes_max } = self.fill;
        let of = match bytes_max < self.of_all {
            true => format!("its {} of ", ByteCount(bytes_max)),
            false => String::new(),
        };
        format!(
            "{rows} rows on disk take {} of {of}tiers.index = {}; raise tiers.index to {} or more \
             ({}), which holds {} rows",
            ByteCount(bytes),
            ByteCount(self.of_all),
            self.wanted_bytes,
            ByteCount(self.wanted_bytes),
            self.wanted_rows
        )
    }
}

impl fmt::Display for IndexFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the index of table '{}' is full: {}", self.table, self.figures())
    }
}
