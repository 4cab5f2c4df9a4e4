//! Which bytes of a buffer an operation reads or writes, as the check of order is told.

use std::ops::Range;
use std::sync::Arc;

/// Some rows of a slab within a buffer.
#[derive(Clone, Debug)]
pub struct RowsAt {
    /// Byte at which the slab begins.
    pub start: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Which rows.
    pub slots: Arc<[u32]>,
}

impl RowsAt {
    /// The bytes of each row.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.slots.iter().map(|slot| {
            let start = self.start + *slot as usize * self.row_bytes;
            start..start + self.row_bytes
        })
    }
}

/// The part of a buffer that an operation touches.
#[derive(Clone, Debug, Default)]
pub enum Touched {
    /// All of it.
    #[default]
    All,
    /// Some bytes.
    Bytes(Range<usize>),
    /// Some rows of some slabs.
    Rows(Vec<RowsAt>),
}

/// What is done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
    /// Changed in one go: two such accesses need no order between them.
    Atomic,
}

impl Mode {
    /// Whether an access of this kind and an `earlier` one of the same bytes need an order.
    pub(crate) fn conflicts(self, earlier: Self) -> bool {
        !matches!((self, earlier), (Self::Read, Self::Read) | (Self::Atomic, Self::Atomic))
    }
}

/// One access of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) region: u64,
    pub(crate) bytes: usize,
    pub(crate) mode: Mode,
    pub(crate) touched: Touched,
}
