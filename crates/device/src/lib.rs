//! The outside world of accelerators: memory, streams and kernels of a device behind one seam.
//!
//! ```text
//!              ┌──────────────── Device ────────────────┐
//!   caller ──► │ Buffer  Pinned   one accounted pool    │
//!              │ Stream ─► copies, launches, in order ──┼──► Driver: emulated, cuda
//!              │ Event  ─► order between streams        │
//!              │        └► Checker: vector clocks       │
//!              └────────────────────────────────────────┘
//! ```
//!
//! - **Why.** Most machines that build this have no GPU, and many that run it have none either.
//!   What passes on the emulated device, which is stricter than any hardware, is what runs on a
//!   GPU; no caller knows which of them it has.
//! - **How.** A [`Driver`](driver::Driver) allocates, copies, launches and signals, and does
//!   nothing else. Types, bounds, the budget of memory, what must stay alive until the device is
//!   done with it, and the check of order are made on top of that, once.
//! - **Order.** What a [`Stream`] is given happens in that order. Between two streams, and between
//!   a stream and the host, nothing is in order but by an [`Event`], or by waiting for a stream.
//! - **Failure.** What a driver reports late is said by the next call that waits. A device that is
//!   lost stays lost: every later call says so.
//! - **Bounds.** Memory comes from one pool of stated size, pinned memory from another; a stream
//!   holds [`STREAM_OPERATIONS_MAX`] operations, and whoever gives it more waits.

#![deny(unsafe_code)]

mod access;
mod check;
mod choice;
pub mod conformance;
#[cfg(feature = "cuda")]
pub mod cuda;
mod device;
pub mod driver;
pub mod emulated;
mod error;
mod event;
mod graph;
mod launch;
mod memory;
mod pool;
mod product;
mod stream;

pub use access::{RowsAt, Touched};
pub use choice::{Choice, DEVICES_MAX, Offer, Wanted, said};
pub use device::{About, Device};
pub use driver::STREAM_OPERATIONS_MAX;
pub use error::{Error, Result};
pub use event::Event;
pub use graph::Graph;
pub use launch::Arg;
pub use memory::{Buffer, Pinned};
pub use product::{
    Layout, Matrices, PlainProducts, Precision, Product, Products, Shape, WORKSPACE_BYTES_MAX,
};
pub use stream::Stream;
