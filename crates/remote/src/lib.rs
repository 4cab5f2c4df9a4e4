//! Objects in S3-compatible stores, on web servers and in HDFS, with a synchronous interface.
//!
//! - **Why.** Data is often not on a disk of the training machine. This crate reads it, and hides
//!   the runtime, protocols and libraries that this takes.
//! - **How.** [`Remote`] owns a runtime of two threads. `s3` uses `object_store`; `web` and `hdfs`
//!   use the HTTP client that `object_store` depends on. All three append bytes of a range to a
//!   buffer (`place.rs`); `range.rs` repeats requests until the range is complete, and `ahead.rs`
//!   requests ranges before they are read.
//! - **Invariants.** Bytes of two versions are never mixed: each answer has the version returned by
//!   [`Objects::about`](stepwell_base::objects::Objects::about), or is an error. Timing does not
//!   affect what is read.
//! - **Failure.** Every request has a time limit. Temporary failures (no answer, a truncated
//!   answer, a server error) are retried, [`Limits::tries`] times, each time from where the last
//!   try stopped. Any other failure is one line with a fix, without credentials.
//! - **Cost.** A reader holds [`Limits::ranges`] ranges in flight and the one being read, of
//!   [`Limits::range_bytes`] each.

#![forbid(unsafe_code)]

mod ahead;
mod bounds;
mod clients;
mod environment;
mod fault;
mod hdfs;
mod limits;
mod place;
mod range;
mod remote;
mod runtime;
mod s3;
mod web;

pub use environment::Environment;
pub use limits::Limits;
pub use remote::Remote;
