//! The ground floor: names, hashes, random numbers, memory of rows, queues, stages, clock, budgets.
//!
//! Only what several floors use and what does no I/O lives here.

pub mod bytes;
pub mod hash;
mod ids;
pub mod random;

pub use bytes::ByteCount;
pub use ids::{Key, SlotIndex, TableId};
