//! Protocols in orders of delivery drawn from seeds, on threads, and next to plain loops.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]
#![expect(clippy::print_stdout, reason = "the test prints what it found")]

mod bits;
mod ledger;
mod problem;
mod rows;
mod rules;
mod schedule;
mod schedules;
mod segments;
mod threads;
