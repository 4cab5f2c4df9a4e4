//! Errors of the tiers.

use std::path::{Path, PathBuf};

use stepwell_base::{ByteCount, NO_THREAD};

use crate::index_full::IndexFull;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error of the hierarchy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed; its message names file and offset.
    #[error(transparent)]
    Store(#[from] stepwell_ssd::Error),
    /// The index of a store has no room for the rows of a table.
    #[error("{0}")]
    IndexFull(Box<IndexFull>),
    /// A row found no slot.
    #[error(transparent)]
    NoPlace(#[from] stepwell_mem::NoPlace),
    /// The memory for rows on each device holds none.
    #[error(
        "tiers.hbm = {hbm} holds no row of table '{tables}' besides {moving} for moving rows: give \
         {least} or more, or lower data.mini_batch"
    )]
    NoRowOnDevice {
        /// Bytes of each device.
        hbm: ByteCount,
        /// Tables whose rows don't fit.
        tables: String,
        /// Bytes of the buffers that move rows.
        moving: ByteCount,
        /// Bytes that would hold one row.
        least: u64,
    },
    /// The slab could not be mapped.
    #[error("cannot map {bytes} bytes for the rows in memory: {source}; lower tiers.dram")]
    Slab {
        /// Requested bytes.
        bytes: u64,
        /// The system's reason.
        source: std::io::Error,
    },
    /// One mini-batch needs more rows than the slab has slots.
    #[error(
        "a mini-batch of {examples} examples needs {rows} distinct rows of table '{table}', but \
         {memory} holds {slots} ({row_bytes} bytes a row with its metadata): raise {memory} to \
         {needed_most} bytes, enough for as many ids that all differ (this one needs at least \
         {needed}; longer lists need more), or lower data.mini_batch"
    )]
    MiniBatchTooLarge {
        /// Examples of the mini-batch.
        examples: usize,
        /// Distinct rows of the mini-batch.
        rows: usize,
        /// The table's name.
        table: String,
        /// Slots of the slab.
        slots: usize,
        /// Bytes of a row in memory, metadata included.
        row_bytes: u64,
        /// The settings that determine the memory.
        memory: String,
        /// Bytes that would hold this mini-batch.
        needed: u64,
        /// Bytes that would hold any mini-batch with as many ids, even if all differ.
        needed_most: u64,
    },
    /// A table that must stay in memory whole has more rows than slots.
    #[error(
        "table '{table}' must stay in memory, which has room for {slots} of its rows, but it has \
         {rows}, including those that the next mini-batch reads: raise tables.{table}.dram, or \
         leave place out"
    )]
    NotWhole {
        /// The table's name.
        table: String,
        /// Slots of the table's slab.
        slots: usize,
        /// Rows that need a slot.
        rows: usize,
    },
    /// Another rank failed or sent invalid data.
    #[error(transparent)]
    Fabric(#[from] stepwell_fabric::Error),
    /// A device failed; the message names it.
    #[error(transparent)]
    Device(#[from] stepwell_device::Error),
    /// A thread for a stage could not be started.
    #[error("cannot start a thread for stage {name}: {source}{}", NO_THREAD)]
    NoThread {
        /// The stage.
        name: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file or directory of a checkpoint could not be read or written; the message names it.
    #[error(transparent)]
    Disk(#[from] stepwell_disk::Error),
    /// An earlier error ended the stages.
    #[error("an earlier error ended the session: {0}")]
    Ended(String),
    /// Invalid settings; the message names one and the fix.
    #[error("{0}")]
    Settings(String),
    /// A directory is in use, or has what another run left; the message names it and the fix.
    #[error("{0}")]
    Refused(String),
    /// A directory or file cannot be made or read.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A path holds no checkpoint, or one that the placement refuses; nothing was started.
    #[error("checkpoint {}: {why}", path.display())]
    NoCheckpoint {
        /// The directory.
        path: PathBuf,
        /// The reason, and the fix.
        why: String,
    },
    /// A checkpoint is not usable.
    #[error("checkpoint {}: {why}", path.display())]
    Checkpoint {
        /// The checkpoint's directory.
        path: PathBuf,
        /// The reason, and the fix.
        why: String,
    },
    /// Files of a checkpoint differ from what was written.
    #[error("checkpoint {}: {why}", path.display())]
    Damaged {
        /// The checkpoint's directory.
        path: PathBuf,
        /// The damage, and the fix.
        why: String,
    },
}

impl Error {
    /// Whether files differ from what was written, so that a repair or an older copy helps.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Store(error) => error.is_damage(),
            _ => false,
        }
    }
}

/// Error with the attempted action and the path.
pub fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}
