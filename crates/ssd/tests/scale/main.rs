//! Stores of many segments, and of many rows.
//!
//! Each test runs itself in a child process, to measure its memory and open files separately, and
//! prints them: `STEPWELL_LONG=1 cargo test --release -p stepwell-ssd --test scale -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]
#![expect(clippy::print_stdout, reason = "the child says what it took")]

mod child;
mod many_segments;
mod two_stores;
mod watch;
