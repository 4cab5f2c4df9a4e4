//! Bytes of a buffer that an operation reads or writes, for the check of order.

use std::ops::Range;
use std::sync::Arc;

/// Some rows of a slab in a buffer.
#[derive(Clone, Debug)]
pub struct RowsAt {
    /// First byte of the slab.
    pub start: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Slots of the rows.
    pub slots: Arc<[u32]>,
}

impl RowsAt {
    /// Range of bytes of each row.
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
    /// A range of bytes.
    Bytes(Range<usize>),
    /// Some rows of some slabs.
    Rows(Vec<RowsAt>),
}

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
    /// Atomic changes: two of them need no order.
    Atomic,
}

impl Mode {
    /// Whether an access of this kind and an `earlier` one to the same bytes need an order.
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
