//! Protocols in orders of delivery drawn from seeds, on threads, and next to plain loops.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where something is wrong")]
#![expect(clippy::print_stdout, reason = "a test says what it met")]

mod bits;
mod ledger;
mod problem;
mod rows;
mod rules;
mod schedule;
mod schedules;
mod segments;
mod threads;
