//! Arguments of `stepwell store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `stepwell store`.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) job: StoreJob,
}

/// What to do with a store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreJob {
    /// Read every byte and list all damage
    Check {
        /// A store's directory (all of them, if it has several), or a checkpoint
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove what was set aside: in a store's directories `set-aside`, segments that no commit
    /// names and stores that were replaced; in a directory `set-aside-N` that `train --force` made,
    /// all rows or checkpoints. Nothing else that a run could resume from is removed
    Purge {
        /// The store's directory (all of them, if it has several); a directory `set-aside-N` of
        /// rows or checkpoints, which are removed; or a directory that contains such directories,
        /// which are only listed
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Copy every intact row into a new store. To train from it, put it in place of the
    /// checkpoint's rows-N and give --repaired; lost rows start anew
    Repair {
        /// The damaged store's directory (all of them, if it has several), or a checkpoint
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
        /// Directory of the new store
        #[arg(long = "out", alias = "into", value_name = "NEW")]
        into: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}
