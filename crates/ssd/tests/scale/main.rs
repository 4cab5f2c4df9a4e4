//! Stores of many segments, and of many rows.
//!
//! Each test starts itself as a child, whose memory and open files are then its own. What it takes
//! is printed: `STEPWELL_LONG=1 cargo test --release -p stepwell-ssd --test scale -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests")]
#![expect(clippy::print_stdout, reason = "the child says what it took")]

mod child;
mod many_segments;
mod two_stores;
mod watch;
