//! Devices of NVIDIA.
//!
//! ```text
//!   find ──► OneDevice : Driver ──► queue: streams, events ──► calls, streams: libcuda
//!                │  │                 └─► held: what operations keep
//!                │  └──► blas: products ─────────────────────► cuBLASLt
//!                └─────► compile ──► cache ──► nvrtc ────────► NVRTC
//! ```
//!
//! - **Why.** Every library is looked for when the program runs. It builds without any of them, and
//!   runs without any of them: [`find`] says in one line what is missing.
//! - **How.** Three floors, as wherever foreign functions are called: `cudarc`'s declarations;
//!   calls that come to results (`calls`, `streams`, `blas`, `nvrtc`), the only ones with unsafe
//!   code; and above them the driver, which knows neither.
//! - **Kernels** are compiled when the first of their file is launched ([`compile`]).

mod blas;
mod cache;
mod calls;
pub mod compile;
mod driver;
mod find;
mod graphs;
mod held;
mod library;
mod nvrtc;
mod queue;
mod streams;

pub use find::{Found, FoundDevice, Settings, blas_version, find, look, look_at, look_for_any};
