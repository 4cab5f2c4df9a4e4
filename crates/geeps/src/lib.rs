//! A parameter server for an application that owns its loop and computes on a device: tables of
//! rows that all workers update, and local data that each worker keeps for itself.
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
//! - **Why.** An application on a device cannot send updates row by row, wait for copies between
//!   host and device, or hold more than the device's memory. So the server owns its buffers: they
//!   are filled ahead, returned without waiting, and swapped out while unused. Source: Cui et al.,
//!   "GeePS: Scalable deep learning on distributed GPUs with a GPU-specialized parameter server"
//!   (EuroSys 2016).
//! - **How.** [`Geeps`] has the calls of the paper's table 1. Five machines do the rest, each a
//!   [`Stage`](stepwell_base::stage::Stage) in a separate file: keeper, pusher and puller between
//!   ranks, allocator and reclaimer within one. [`Running`] gives each a thread; a simulating
//!   scheduler polls the same machines. A virtual iteration records the operations to come:
//!   indexes, what to pin ([`placement`]) and what to fetch ahead follow from it, and it is only a
//!   hint.
//! - **Freshness.** A worker at clock t of a table reads all updates of all workers up to clock t -
//!   1 - slack ([`Staleness`]), or, without a bound, whatever is there. Its own updates of the
//!   current clock are not included. Under BSP ([`Applies::ByClock`], [`Staleness::BSP`]) the bits
//!   depend only on settings and updates.
//! - **Invariants.** The application's memory never takes more than the budget. A buffer is reused
//!   only after the last operation on it. No update is lost: when all ranks have closed, everything
//!   committed is in the shards.
//! - **Failure.** The first error of a rank is returned by all its later calls, and ends all ranks.
//! - **Bounds.** The budget; [`FORESEEN_MAX`] operations ahead; per table,
//!   [`Settings::clocks_ahead`] lists of updates in flight, and as many messages of each worker at
//!   a shard. The host holds every table that is not pinned, its updates, and this rank's shard:
//!   [`Settings::bounds`] lists it.
//! - **Left out.** Shards are not written to disk; [`Running::finish`] returns their rows. There
//!   are no key partitions with separate threads: a table is the unit. Updates of a device are
//!   summed on the host, from where they are sent, and not in its cache; shards send all of a
//!   table's part, however few of its rows have changed.

#![forbid(unsafe_code)]

mod access;
mod allocator;
mod bounds;
mod cache;
mod clocks;
mod error;
mod gather;
mod geeps;
mod hazard_rules;
mod install_placement;
mod keeper;
mod layout;
mod machine;
mod memory;
mod operation;
pub mod placement;
mod pool;
mod puller;
mod pusher;
mod reclaimer;
mod request_line;
mod sequence;
mod settings;
mod state;
mod statistics;
mod threads;
mod wire;

pub use access::{Access, Request};
pub use error::{Error, Result};
pub use geeps::{Geeps, ShardRows};
pub use hazard_rules::{Rule, Rules};
pub use operation::{Fetch, LocalId, Save};
pub use settings::{
    Applies, CLOCKS_AHEAD, CLOCKS_AHEAD_MAX, FORESEEN_MAX, Initial, LocalSettings, Place,
    ROW_FLOATS_MAX, Settings, Staleness, TABLES_MAX, TableSettings,
};
pub use statistics::Statistics;
pub use threads::{Finished, Running};
