//! Checkpoints on a disk that loses power or fails, at every possible point.

#![expect(clippy::unwrap_used, reason = "a test panics on unexpected results")]

mod crash;
mod faults;
mod harness;
mod judge;
mod life;
