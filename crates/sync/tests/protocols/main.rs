//! Protocols under every order of delivery that a seed draws, on threads, and beside plain loops.

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
