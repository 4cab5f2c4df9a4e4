//! Simulates the whole pipeline: production code under a scheduler that controls time and order, on
//! a disk that fails, observed by external checkers.
//!
//! - **Why.** The most important guarantee is "never a wrong row", and whether it holds may depend
//!   on which stage runs when. Threads only show a few orders, always nearly the same ones, and
//!   none of them reproducibly.
//! - **How.** A [`Job`] is everything that determines the bits of the model. A [`Shape`] is
//!   everything else: tiers, staging, lookahead, policy, threads, style of scheduling. Nothing is
//!   copied from production: `stepwell_train::train` runs unchanged, with a `World` for the
//!   machine.
//!
//! ```text
//!   seed / 32 ──► Job ──► run in memory ──► Oracle: each row read, each checkpoint, the model
//!                  │                           │
//!   seed ──► Shape, Mishap                     ▼
//!                  └──► train(), polled by Scheduler ──► Checker, Vault ──► Finding
//!                                └──► FaultyDisk ──► MemDisk ──► crash ──► next process
//! ```
//!
//! - **Invariants.** A seed replays everything: the same polls in the same order, the same bytes on
//!   the disk. There is no clock and no randomness except from the seed.
//! - **Failure.** A [`Finding`] names the checker and what it found; [`Found`] adds the command
//!   that replays it.
//! - **Cost.** About 7 ms of processor time for a run of 20 steps and 1,700 polls, at `opt-level =
//!   1`.
//! - **Bounds.** A simulation runs on one thread; several can run concurrently.
//! - **Example.** `tests/it/schedules.rs`.

#![forbid(unsafe_code)]

pub mod clock;
mod dice;
mod expected_panics;

mod conductor;
mod scheduler;
mod styles;

mod bags;
mod checkpoints;
mod devices;
mod disk_faults;
mod ids;
mod job;
mod job_properties;
mod oracle;
mod places;
mod record;
mod shape;
mod tables;
mod tiers;

mod case;
mod finding;
mod judge;
mod out_of_step;
mod process;
mod ranks;
mod search;
mod tally;

pub use case::{Case, Cuts, Pools, SCHEDULES_PER_JOB, pools};
pub use checkpoints::{Kept, Vault};
pub use devices::DeviceFault;
pub use dice::Dice;
pub use disk_faults::{Mishap, Uses};
pub use finding::Finding;
pub use job::{Examples, Job, Length};
pub use job_properties::Traits;
pub use oracle::{Checker, Detail, Oracle, Reads, Recorder, When};
pub use process::{Disks, Exit, Launch};
pub use ranks::{Ranked, RanksEnd, over_jobs};
pub use scheduler::{Log, Scheduler, Trouble};
pub use search::{Found, run_job, search};
pub use shape::Shape;
pub use styles::Style;
pub use tables::Tight;
pub use tally::{RanksTally, TableTally, Tally};
pub use tiers::{Room, Tables};
