//! Compaction: merges of segments, and when they are due.

mod compact;
pub(in crate::store) mod live_rows;
mod merge;
mod merge_end;
mod pace;
mod pressure;
mod sweep;

pub use self::pressure::StoreSpace;
