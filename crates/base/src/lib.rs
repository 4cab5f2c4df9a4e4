//! The ground floor: names, hashes, random numbers, initial weights, memory for rows, queues,
//! stages, clock, budgets.
//!
//! Contains only what several floors use and what does no I/O.

#![deny(unsafe_code)]

pub mod budget;
pub mod bytes;
pub mod clock;
mod cores;
mod counted;
pub mod hash;
pub mod huge;
mod ids;
pub mod initial;
mod mend;
mod namespace;
pub mod objects;
pub mod owner;
pub mod prefetch;
pub mod queue;
pub mod random;
pub mod rules;
pub mod scatter;
pub mod slab;
mod splitmix64;
pub mod stage;
pub mod stop;
pub mod tiles;

pub use bytes::ByteCount;
pub use cores::{cores, processor};
pub use counted::counted;
pub use ids::{Key, SlotIndex, TableId};
pub use mend::{NO_THREAD, is_exhausted, mend};
pub use namespace::{KEY_HASH_NAME, Namespace, NamespaceError, key_of};
