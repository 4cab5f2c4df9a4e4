//! The arithmetic of a device, in CUDA C++ that also runs on this processor.
//!
//! - **Why.** Rows in a device's memory are moved, pooled and updated there, and the model must
//!   have the same bits as without a device. So every kernel has a single source, which NVRTC
//!   compiles for a device and the C++ compiler for this processor, where tests compare it to the
//!   rest of the system.
//! - **How.** `cuda/*.cu` are the kernels. Each declares its use of every parameter, in macros from
//!   which the build makes the table [`kernels`]. `shim/` emulates a device here: blocks in random
//!   order, threads that synchronize as fibers, shared memory between red zones. [`source`] returns
//!   a file as NVRTC takes it; [`host::run`] launches a kernel on this processor.
//! - **Invariants.**
//!   - KERNELS-I1: no kernel's result depends on the order of blocks or threads; floating-point
//!     numbers are never added atomically.
//!   - KERNELS-I2: results in f32 have the bits of `stepwell-optim` and of the engine's pooling and
//!     sums, except NaN payloads, which a device chooses.
//!   - KERNELS-I3: kernels have no `#if`; only the prelude distinguishes compilers.
//! - **Failure.** Detectable behavior that a device leaves undefined ends a launch of [`host`] with
//!   a [`host::Fault`] that names file, line, block and thread.
//!
//! This crate's `README.md` explains how to add a kernel.

#![deny(unsafe_code)]

pub mod host;
mod kernel;
mod kernel_list;
mod layout;
mod shapes;

pub use kernel::{Access, Kernel, Kind, NVRTC_OPTIONS, Param, ScalarType};
pub use kernel_list::{find, kernels, named, source};
pub use layout::{
    NONE, PoolTable, RULE_ADAGRAD, RULE_ADAM, RULE_FTRL, RULE_MOMENTUM, RULE_SGD, UpdateTable,
};
pub use layout::{STORAGE_BF16, STORAGE_F16, STORAGE_F32};
pub use shapes::{DEVICE_OF_NAME, DEVICES_MAX, FREQUENT_BAGS, SCAN_TILE, SORT_DIGITS, SORT_TILE};
pub use shapes::{TABLE_OWN_PLACES, device_of};
