//! A parameter server for an application that owns its loop and computes on a device: tables of
//! rows that all workers update, and local data that one worker has for itself.
//!
//! ```text
//!            application (one thread a rank)
//!      Read  PreUpdate  LocalAccess │ ▲ buffers     │ PostRead  Update  PostLocalAccess
//!                                   ▼ │             ▼ TableClock
//!   sequence ─foresees─► line ─► allocator       reclaimer
//!                                 │ fills          │ saves            memory of the device,
//!              ┌──────────────────┴───┬────────────┴──┐               or of the host
//!              │ local data           │ cache         │ updates
//!              │ pinned │ swapped out │ pinned │ host │ of a clock
//!              └──────────────────────┴──▲────────────┴──┘
//!                                 puller │            │ pusher
//!   ═════════════════════════════════════╪════════════╪══════════════ fabric
//!                              snapshots │            ▼ pushes
//!                                      keeper: a shard of all tables   (each rank)
//! ```
//!
//! - **Why.** An application on a device cannot hand out updates by the row, nor wait for copies
//!   between host and device, nor hold more than the device has. So the server owns its buffers:
//!   they are filled ahead, given back without waiting, and swapped out while they are not used.
//!   Source: Cui et al., "GeePS: Scalable deep learning on distributed GPUs with a GPU-specialized
//!   parameter server" (EuroSys 2016).
//! - **How.** [`Geeps`] has the calls of the paper's table 1. Five machines do the rest, each a
//!   [`Stage`](stepwell_base::stage::Stage) in a file of its own: keeper, pusher and puller between
//!   ranks, allocator and reclaimer within one. [`Running`] gives each a thread; a scheduler that
//!   simulates polls the same ones. A virtual iteration tells which operations will come: indexes,
//!   what to pin ([`placement`]) and what to bring ahead follow from it, and it is a hint alone.
//! - **Freshness.** A worker at clock t of a table reads all updates of all workers up to clock t -
//!   1 - slack ([`Staleness`]), or, without a bound, whatever is there. Its own updates of a clock
//!   that goes on are not among them. Under BSP ([`Applies::ByClock`], [`Staleness::BSP`]) the bits
//!   depend on settings and updates alone.
//! - **Invariants.** Memory of the application's kind never takes more than the budget. A buffer is
//!   used again after the last operation on it. No update is lost: when all ranks have closed, all
//!   that was committed is in the shards.
//! - **Failure.** The first error of a rank is what all its calls say from then on, and ends all
//!   ranks.
//! - **Bounds.** Budget; [`FORESEEN_MAX`] operations ahead; [`Settings::clocks_ahead`] lists of
//!   updates a table, on their way, and as many messages of each worker at a shard. The host holds
//!   every table that is not pinned, its updates, and the own shard: [`Settings::bounds`] lists it.
//! - **Left out.** Shards are not written to disks; [`Running::finish`] hands their rows out. Key
//!   partitions with threads of their own are not there: a table is the grain. Updates of a device
//!   are summed on the host, from where they are sent, and not in its cache; what shards send is
//!   all of a table's part, however few of its rows have changed.

#![forbid(unsafe_code)]

mod access;
mod allocator;
mod bounds;
mod cache;
mod clocks;
mod error;
mod gather;
mod geeps;
mod install;
mod keeper;
mod layout;
mod line;
mod machine;
mod memory;
mod operation;
pub mod placement;
mod pool;
mod puller;
mod pusher;
mod reclaimer;
mod rules;
mod running;
mod sequence;
mod settings;
mod state;
mod statistics;
mod wire;

pub use access::{Access, Request};
pub use error::{Error, Result};
pub use geeps::{Geeps, ShardRows};
pub use operation::{Fetch, LocalId, Save};
pub use rules::{Rule, Rules};
pub use running::{Finished, Running};
pub use settings::{
    Applies, CLOCKS_AHEAD, CLOCKS_AHEAD_MAX, FORESEEN_MAX, Initial, LocalSettings, Place,
    ROW_FLOATS_MAX, Settings, Staleness, TABLES_MAX, TableSettings,
};
pub use statistics::Statistics;
