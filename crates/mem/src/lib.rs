//! MEM-PS: which row is in which slot of the host slab, and which rows may be evicted.
//!
//! This crate holds no row bytes. It is the metadata of the slab in [`stepwell_base::slab`]: the
//! index from key to slot, pins, dirty bits, known next uses, and the order in which unpinned rows
//! are evicted. A single thread, the planner's, owns it; there are no locks.
//!
//! - **Source.** HPS paper, section 5 and appendix D (cache policy); the horizon is Stepwell's own;
//!   each of the other policies names its paper.

#![forbid(unsafe_code)]

mod cache;
mod capacity;
mod index;
mod links;
mod numbers;
pub mod policy;
mod records;
mod uses;

pub use cache::{Cache, NoPlace, Placed, Victim};
pub use capacity::{bytes_for, bytes_of_known_uses, metadata_bytes, slots_within};
pub use index::Seek;
pub use links::{Links, ListId};
pub use policy::{Occurrence, Policy, PolicyKind};
pub use records::{Records, Spare};
