//! The outside world of other ranks: messages behind one small trait.
//!
//! ```text
//!             ┌───────────── Fabric ─────────────┐
//!  caller ──► │ send ──► Carrier ──────────────┼──► the Inbox of another rank
//!         ◄── │ receive ◄── Inbox ◄────────────┼─── the Carrier of another rank
//!             └──────────────────────────────────┘
//! ```
//!
//! - **Why.** Ranks train one model together. Whatever joins them, threads of one process, MPI, a
//!   scheduler that simulates a network, or one that loses messages, keeps the same promises, so
//!   that all above is written once and tested on every one of them.
//! - **How.** A [`Carrier`] takes parcels from one rank to another and does nothing else. All that
//!   callers have is made of that, once: messages by tag, all-to-all, gather, broadcast and barrier
//!   ([`collective`]), windows that others put bytes into. Everything is started and polled,
//!   nothing waits.
//! - **Order.** What one rank sends another arrives in the order in which it was sent, once.
//!   Between different pairs of ranks there is no order.
//! - **Failure.** A rank that fails says why to all, and from then on everybody's sends and
//!   receives say it; one that goes without a word is named by its carrier. No message is lost as
//!   long as nobody is said to be gone.
//! - **Bounds.** [`QUEUED_MAX`] messages of a pair and tag wait to be taken; [`Fabric::message`]
//!   gives memory of messages that were taken, of which [`SPARES_MAX`] are kept.
//!
//! One conformance suite, [`conformance::run`], holds all carriers to these promises.

#![deny(unsafe_code)]

mod carrier;
pub mod collective;
pub mod conformance;
mod error;
mod fabric;
mod faulty;
mod inbox;
mod message;
#[cfg(feature = "mpi")]
pub mod mpi;
mod network;
mod simulated;
mod slow;
pub mod speed;
mod threads;
mod window;

pub use carrier::{Carrier, Parcel, Tag, WindowNumber};
pub use error::{Error, Result};
pub use fabric::{Fabric, Sent};
pub use faulty::{Faults, FaultyCarrier};
pub use inbox::{Inbox, QUEUED_MAX, SPARES_MAX};
pub use message::{Malformed, Message, Reader};
pub use network::Network;
pub use simulated::Post;
pub use slow::SLOW_MAX;
pub use threads::threads;
