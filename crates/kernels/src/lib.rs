//! The arithmetic of a device, in CUDA C++, that runs on this processor as well.
//!
//! - **Why.** Rows that lie in a device's memory are moved, pooled and updated there, and the model
//!   must have the bits that it has without a device. So there is one text of every kernel, which
//!   NVRTC compiles for a device, and the C++ compiler for this processor, where tests compare it
//!   with what the rest of the system computes.
//! - **How.** `cuda/*.cu` are the kernels. Each declares what it does with every parameter, in
//!   macros from which the build makes the table [`kernels`]. `shim/` is what a kernel sees of a
//!   device here: blocks in an order drawn by chance, threads that meet as fibers, shared memory
//!   between red zones. [`source`] gives a file as NVRTC takes it; [`host::run`] launches a kernel
//!   of this processor.
//! - **Invariants.** K1: no kernel's result depends on the order of blocks or threads; no floating
//!   point number is added atomically. K2: what is computed in f32 has the bits of
//!   `stepwell-optim` and of the engine's pooling and sums, NaNs aside, whose payloads a device
//!   chooses. K3: kernels have no `#if`; the prelude alone knows its compiler.
//! - **Failure.** What a device would leave undefined, and can be seen, ends a launch of [`host`]
//!   with a [`host::Fault`] that names file, line, block and thread.
//!
//! `README.md` beside this crate says how a kernel is added.

#![deny(unsafe_code)]

pub mod host;
mod kernel;
mod layout;
mod shapes;
mod tables;

pub use kernel::{
    Access, Kernel, Kind, NVRTC_OPTIONS, Param, ScalarType, find, kernels, named, source,
};
pub use layout::{NONE, PoolTable, RULE_ADAGRAD, RULE_ADAM, RULE_SGD, UpdateTable};
pub use layout::{STORAGE_BF16, STORAGE_F16, STORAGE_F32};
pub use shapes::{DEVICE_OF_NAME, DEVICES_MAX, FREQUENT_BAGS, SCAN_TILE, SORT_DIGITS, SORT_TILE};
pub use shapes::{TABLE_OWN_PLACES, device_of};
