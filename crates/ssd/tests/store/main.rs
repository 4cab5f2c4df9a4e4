//! The store as its callers see it: against a plain map, through crashes, damage, full disks and
//! several threads.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]

mod behaviour;
mod common;
mod model;
