//! `stepwell store`: checks, purges and repairs stores.

mod check;
mod directories;
mod purge;
mod repair;

use crate::cli::{StoreArgs, StoreJob};
use crate::failure::Failure;

/// Checks, purges or repairs stores.
pub(crate) fn run(args: &StoreArgs) -> Result<(), Failure> {
    match &args.job {
        StoreJob::Check { directories, json } => check::run(directories, *json),
        StoreJob::Purge { directories, json } => purge::run(directories, *json),
        StoreJob::Repair { directories, into, json } => repair::run(directories, into, *json),
    }
}
