//! Runs of the real `stepwell-lab`.

mod bench;
mod bench_hbm;
mod cache_sim;
#[path = "../../../crates/stepwell/tests/it/common/mod.rs"]
mod common;
mod documents;
mod given;
mod outputs;
mod study;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_stepwell-lab");
