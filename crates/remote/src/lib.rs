//! Objects in S3-compatible stores, on web servers and in HDFS, read by callers that wait.
//!
//! - **Why.** Data often lies elsewhere than on a disk of the machine that trains. This crate
//!   brings its bytes, and keeps the runtime, the protocols and the libraries for it to itself.
//! - **How.** [`Remote`] owns a runtime of two threads. `s3` asks through `object_store`; `web` and
//!   `hdfs` ask through the HTTP client that `object_store` brings along. All three append bytes of
//!   a range to a buffer (`place.rs`); `range.rs` makes of that a range that is whole, and
//!   `ahead.rs` ranges that are under way before they are asked for.
//! - **Invariants.** Bytes of two versions are never mixed: each answer is of the version that
//!   [`Objects::about`](stepwell_base::objects::Objects::about) told, or an error. No time that an
//!   answer takes reaches what is read.
//! - **Failure.** Every request has a time limit. What may pass by itself (no answer, an answer
//!   that is cut short, a server's error) is tried again, [`Limits::tries`] times, each time from
//!   where the last one stopped; all else is one line that says what helps, without credentials.
//! - **Cost.** A reader holds [`Limits::ranges`] ranges under way and one that is read, of
//!   [`Limits::range_bytes`] each.

#![forbid(unsafe_code)]

mod ahead;
mod environment;
mod fault;
mod hdfs;
mod limits;
mod place;
mod range;
mod remote;
mod s3;
mod web;

pub use environment::Environment;
pub use limits::Limits;
pub use remote::Remote;
