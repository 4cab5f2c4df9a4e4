//! Messages between ranks, behind one small trait.
//!
//! ```text
//!             ┌───────────── Fabric ─────────────┐
//!  caller ──► │ send ──► Carrier ──────────────┼──► the Inbox of another rank
//!         ◄── │ receive ◄── Inbox ◄────────────┼─── the Carrier of another rank
//!             └──────────────────────────────────┘
//! ```
//!
//! - **Why.** Ranks train one model together. Whatever joins them (threads of one process, MPI, a
//!   scheduler that simulates a network, or a carrier that loses messages) keeps the same promises,
//!   so all code above is written once and tested on each of them.
//! - **How.** A [`Carrier`] takes parcels from one rank to another and does nothing else.
//!   Everything that callers use is built on that, once: messages by tag, all-to-all, gather,
//!   broadcast and barrier ([`collective`]), windows that others put bytes into. Everything is
//!   started and polled; nothing blocks.
//! - **Order.** Messages from one rank to another arrive once, in the order in which they were
//!   sent. Between different pairs of ranks there is no order.
//! - **Failure.** A rank that fails sends its reason to all, and from then on the sends and
//!   receives of all ranks report it; a rank that vanishes is named by its carrier. No message is
//!   lost as long as no rank is reported gone.
//! - **Bounds.** [`QUEUED_MAX`] messages of a pair and tag wait to be taken; [`Fabric::message`]
//!   reuses buffers of taken messages, of which [`SPARES_MAX`] are kept.
//!
//! One conformance suite, [`conformance::run`], checks all carriers for these promises.

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

pub use carrier::{Carrier, KnownBy, Parcel, Tag, WindowNumber};
pub use error::{Error, Result};
pub use fabric::{Fabric, Sent};
pub use faulty::{Faults, FaultyCarrier};
pub use inbox::{Inbox, QUEUED_MAX, SPARES_MAX};
pub use message::{Malformed, Message, Reader};
pub use network::Network;
pub use simulated::Post;
pub use slow::SLOW_MAX;
pub use threads::threads;
