//! The engine moves rows between tiers for any caller: it tracks where each row is, loads rows
//! before they are needed, pools and trains them, evicts them, and writes checkpoints.
//!
//! ```text
//!   keys of a mini-batch ──► Grouper ──► Planner ──► Puller ──► (train) ──► Planner::retire
//!                                           │           │
//!                                         Cache       slab ◄─── initial value, staging or store
//!                                       (metadata)      └─────► staging ──► write_back ──► store
//! ```
//!
//! - **Threads.** While mini-batches are in flight, only the planning thread touches the metadata;
//!   only the pulling thread fills and empties slots; only the training thread reads and changes
//!   pinned, filled rows; only the write-back thread puts rows into the store. Before the first
//!   mini-batch ([`Group::preload`]), and while nothing is in flight (checkpoints,
//!   [`Group::digest`]), any one thread may touch everything.

#![forbid(unsafe_code)]

mod blocks;
mod checkpoint;
mod dense;
mod device;
mod device_tier;
mod digest;
mod error;
mod given_rows;
mod group;
mod group_tables;
mod harvest;
mod hash_lines;
mod hierarchy;
mod ids_without_rows;
mod index_full;
mod life;
mod mini_batch;
mod next_uses;
mod opening;
mod planner;
pub mod process_limits;
mod pull;
mod ranks;
mod request;
mod rewrite;
mod row_directory;
mod rows;
mod session;
mod stages;
mod staging;
mod table_spec;
mod tier_bounds;
mod tiers;
mod unit;
mod working_set;

pub use blocks::Blocks;
pub use checkpoint::{
    Best, Checkpoint, CheckpointWriter, FORMAT_VERSION, Figure, Keep, KeptPart, Lease, ModelPart,
    OLDER, Placement, Rows, RowsView, Saved, Visit, WholeModel, best, identity, is_set_aside,
    lanes, list, open_rows, passed_over, prepare, purge,
};
pub use dense::{Dense, DenseView};
pub use device::PooledAt;
pub use device_tier::{
    DeviceCount, DeviceOptions, DevicePlan, DeviceShare, DeviceTier, Lookup, PoolShape,
};
pub use digest::ModelDigest;
pub use error::{Error, Result, file_error};
pub use given_rows::GivenRows;
pub use group::{Group, IndexWatch, Traffic, TrafficCount, last_step_of, rules_of};
pub use group_tables::{GroupTables, TABLES_MAX};
pub use harvest::HarvestSize;
pub use hierarchy::{Hands, Hierarchy, Next};
pub use ids_without_rows::{IdCount, WithoutRow};
pub use index_full::IndexFull;
pub use life::{Admission, History, Life};
pub use mini_batch::{Cargo, MiniBatch, Purpose};
pub use opening::Begin;
pub use planner::{Asked, Fit, Planner};
pub use pull::{Pull, Puller};
pub use ranks::{Borrowed, Guests, Lender, Routes, put_ask, unite};
pub use request::{Bags, Columns, Field, Grouper, Pooling, Request};
pub use rewrite::Rewrite;
pub use row_directory::{
    DirectoryLock, Scratch, SetAside, name_of_rank, refuse_checkpoint, refuse_store,
};
pub use rows::{
    EarlyRows, EmbeddingBags, Gradients, Laps, Moment, NoLaps, Pooled, Shape, Witness, WorkingRows,
    Workspaces,
};
pub use session::{
    BagsRef, ExpectedBatch, Prepared, Preparer, SavedSession, Session, SessionFigures, TableMemory,
    Tiers, Turn, Waiting,
};
pub use stages::{
    BATCHES_QUEUED, Counters, Ends, Finished, Item, LiftStage, LowerStage, Pause, PlanStage,
    Planned, PrefetchDepth, PullStage, Ready, Retired, Spares, Stages, Times, Unit, stages,
};
pub use staging::{StagedRows, Staging};
pub use table_spec::{DEFAULT_TABLE, RowPart, SALT_NAME, TableSpec};
pub use tiers::{GroupPlan, Load, TableLoad, TierOptions, TierPlan};
pub use unit::{Fill, GroupUnit};
pub use working_set::{Askers, Part, WorkingSet};
