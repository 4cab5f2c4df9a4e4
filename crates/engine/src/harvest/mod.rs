//! Harvest: rows from pages that were read for other rows, kept for coming mini-batches.
//!
//! - **Why.** A cold row costs a disk page; rows that left memory together share one, and tend to
//!   be needed together again. The planner knows the keys of coming mini-batches, so every row on a
//!   page that is needed soon is kept when the page is read.
//! - **How.** [`Outlook`] knows which keys are wanted and when: the planner writes it, the puller's
//!   reader consults it. [`Basket`] keeps the rows until their fills; the puller moves rows into it
//!   and out of it.
//! - **Invariants.** A row in the basket equals the store's. It is added only if it isn't in
//!   staging and the index still names the place where it was read, checked in this order: a row
//!   that is not staged any more, because it landed, has a new place by then. It is dropped when
//!   its key is staged ([`Basket::forget`], rule H15); only the puller's thread stages. While its
//!   key has a slot, the slot's row may be newer: the basket isn't consulted then, and the row is
//!   staged before it leaves.
//! - **Bounds.** A number of bytes for basket and outlook together.

mod basket;
mod outlook;

pub(crate) use self::basket::{Basket, BasketCount};
pub(crate) use self::outlook::Outlook;

/// Size of the harvest of one table group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarvestSize {
    /// Maximum number of waiting rows; 0 turns harvesting off.
    pub rows: usize,
    /// Maximum bytes read around a row.
    pub unit_bytes: usize,
}

/// Keys of an outlook per row of a basket.
const KEYS_PER_ROW: usize = 4;

/// Bytes of a basket of `rows` rows with its outlook, which knows `mini_batches` mini-batches.
pub(crate) fn bytes_max(rows: usize, row_lanes: usize, mini_batches: usize) -> u64 {
    let outlook = (rows * KEYS_PER_ROW * Outlook::KEY_BYTES) as u64;
    Basket::bytes_max(rows, row_lanes, mini_batches) + outlook
}

/// Number of rows of `row_lanes` lanes whose basket and outlook fit into `bytes`.
pub(crate) fn rows_within(bytes: u64, row_lanes: usize) -> usize {
    let row = Basket::row_bytes(row_lanes) + KEYS_PER_ROW * Outlook::KEY_BYTES;
    usize::try_from(bytes / row as u64).unwrap_or(usize::MAX).min(1 << 28)
}

/// An outlook for a basket of this size.
pub(crate) fn outlook_for(size: HarvestSize) -> Outlook {
    Outlook::new(size.rows * KEYS_PER_ROW)
}
