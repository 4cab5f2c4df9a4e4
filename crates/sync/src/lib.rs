//! Protocols by which ranks that train one dense model agree on its parameters, over the fabric.
//!
//! ```text
//!            computing side                       communication side
//!  learner ──► gradient of a mini-batch ── give ──► Protocol ◄── poll ──► Fabric ◄──► other ranks
//!     ▲                                               │
//!     └────────────── begin: parameters ◄─────────────┘
//! ```
//!
//! - **Why.** The blocking sum makes every rank wait for the slowest. Three systems relax it in
//!   three ways; here they run with the same learners, the same fabric and the same clock, so that
//!   they can be compared.
//! - **How.** A [`Protocol`] is one rank's end: a polled state machine that decides when the next
//!   gradient may begin and on which parameters, and takes the gradient when it is computed. It
//!   never blocks and starts no thread, so the same code runs on threads ([`drive`]), over MPI, and
//!   under a scheduler that owns the clock.
//! - **Invariants.** Each given gradient is used once, or dropped by a rule of its protocol and
//!   counted, or left over when the run ends: [`Counts`]. Gradients older than a bound are not
//!   used. Each protocol's file states its own invariants; [`Rule`] names those that a test can
//!   switch off.
//! - **Failure.** A rank that is gone ends all others with its name, through the fabric.
//! - **Bounds.** [`Options::bytes`] is the memory of a rank, without the parameters that its
//!   learner reads.

#![forbid(unsafe_code)]

mod ad_psgd;
mod all_reduce;
mod bsp;
mod eager_majority;
mod group;
mod hazard_rules;
mod kind;
mod number;
mod optimizers;
mod options;
mod protocol;
mod rdma_wild;
mod rna;
mod rows;
mod sync_dsgd;
mod two_threads;
mod windows;
mod worker;

pub use group::{Groups, Timing};
pub use hazard_rules::{Rule, Rules};
pub use kind::Kind;
pub use number::Number;
pub use optimizers::{Descent, Optimizer, Rate, Schedule, Share};
pub use options::{Options, OptionsError, Several};
pub use protocol::{Counts, OpenEnded, Protocol, Work};
pub use rows::{MemoryRows, OwnedRows, RankRows, Staleness, StepKeys};
pub use two_threads::{Driven, Learner, drive};
