//! NVIDIA devices.
//!
//! ```text
//!   find ──► OneDevice : Driver ──► queue: streams, events ──► calls, streams: libcuda
//!                │  │                 └─► held: what operations keep
//!                │  └──► blas: products ─────────────────────► cuBLASLt
//!                └─────► compile ──► cache ──► nvrtc ────────► NVRTC
//! ```
//!
//! - **Why.** All libraries are searched for at run time. The program builds and runs without any
//!   of them: [`find`] reports in one line what is missing.
//! - **How.** Three layers: `cudarc`'s declarations; calls with results (`calls`, `streams`,
//!   `blas`, `nvrtc`), the only unsafe code; and above them the driver, which uses neither `cudarc`
//!   nor unsafe code directly.
//! - **Kernels** are compiled when the first one of their file is launched ([`compile`]).

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
mod version;

pub use find::{Found, FoundDevice, Settings, blas_version, find, look, look_at, look_for_any};
pub use version::Version;
