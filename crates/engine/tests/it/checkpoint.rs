//! Checkpoints on a disk that loses power or fails, at every possible point.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod crash;
mod faults;
mod harness;
mod judge;
mod life;
