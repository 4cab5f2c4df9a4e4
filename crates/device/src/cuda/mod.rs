//! Devices of NVIDIA.

mod cache;
pub mod compile;
mod nvrtc;
