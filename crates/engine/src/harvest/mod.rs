//! Rows that came up beside others, before anybody asked for them.
//!
//! - **Why.** A cold row costs a page of the disk; rows that left memory together lie on one, and
//!   tend to be needed together again. The planner knows the keys of coming mini-batches, so of
//!   each page that is read, every row that is wanted soon comes up with it.
//! - **How.** [`Outlook`] says which keys are wanted and when: the planner writes it, the puller's
//!   reader looks into it. [`Basket`] has the rows until their fills come, and [`Harvester`] goes
//!   between them.
//! - **Invariants.** A row in the basket is the one that the store has. It is put there only where
//!   it is not on its way down and the index names the very place where it was found, in this
//!   order: what is not staged when one looks, and landed before, has another place by then. It
//!   goes when its key is staged ([`Basket::forget`], rule H15); none but the puller's thread
//!   stages. While its key has a slot, the slot's row may be newer: nobody looks into the basket
//!   for that, and it is staged before it leaves.
//! - **Bounds.** A number of bytes, which both have together.

mod basket;
mod harvester;
mod outlook;

use self::basket::Basket;
pub(crate) use self::basket::BasketCount;
pub(crate) use self::harvester::Harvester;
pub(crate) use self::outlook::Outlook;

/// How much comes up beside other rows of one table group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarvestSize {
    /// Rows that wait at once at most; none for none.
    pub rows: usize,
    /// Bytes that are read around a row at most.
    pub unit_bytes: usize,
}

/// Keys that an outlook has room for, for each row of a basket.
const KEYS_PER_ROW: usize = 4;

/// Bytes of `rows` rows of a basket, with the outlook on it, which knows so many mini-batches.
pub(crate) fn bytes_max(rows: usize, row_lanes: usize, mini_batches: usize) -> u64 {
    let outlook = (rows * KEYS_PER_ROW * Outlook::KEY_BYTES) as u64;
    Basket::bytes_max(rows, row_lanes, mini_batches) + outlook
}

/// Rows of a basket of so many lanes that `bytes` bytes hold with the outlook on it.
pub(crate) fn rows_within(bytes: u64, row_lanes: usize) -> usize {
    let row = Basket::row_bytes(row_lanes) + KEYS_PER_ROW * Outlook::KEY_BYTES;
    usize::try_from(bytes / row as u64).unwrap_or(usize::MAX).min(1 << 28)
}

/// An outlook for a basket of so many rows.
pub(crate) fn outlook_for(size: HarvestSize) -> Outlook {
    Outlook::new(size.rows * KEYS_PER_ROW)
}
