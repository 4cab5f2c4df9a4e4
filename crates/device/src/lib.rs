//! The outside world of accelerators: memory, streams and kernels of a device behind one interface.
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
//!   Code that passes on the emulated device, which is stricter than any hardware, runs on a GPU;
//!   callers don't know which one they have.
//! - **How.** A [`Driver`](driver::Driver) allocates, copies, launches and signals, and does
//!   nothing else. Types, bounds, the memory budget, keeping memory alive until the device is done
//!   with it, and the check of order are implemented once, on top of drivers.
//! - **Order.** Operations of a [`Stream`] run in order. Between two streams, and between a stream
//!   and the host, only an [`Event`], or waiting for a stream, establishes an order.
//! - **Failure.** An error that a driver reports late is returned by the next call that waits. A
//!   lost device stays lost: every later call returns that error.
//! - **Bounds.** Device memory comes from one pool of fixed size, pinned memory from another; a
//!   stream holds up to [`STREAM_OPERATIONS_MAX`] operations, and submitting more blocks.

#![deny(unsafe_code)]

mod access;
mod capture;
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
mod shared;
mod stream;

pub use access::{RowsAt, Touched};
pub use choice::{Choice, DEVICES_MAX, Offer, Wanted, said};
pub use device::Device;
pub use driver::{About, STREAM_OPERATIONS_MAX};
pub use error::{Error, Result};
pub use event::Event;
pub use graph::Graph;
pub use launch::Arg;
pub use memory::{Buffer, Pinned};
pub use product::{
    Layout, PlainProducts, Precision, Product, Products, Shape, WORKSPACE_BYTES_MAX,
};
pub use stream::{Matrices, Stream};
