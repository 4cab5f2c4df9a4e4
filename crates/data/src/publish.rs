//! Atomically gives a complete file its name.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Renames the finished `file` from `unfinished` to `target`. Syncs the file before and the
/// directory after, so that a power failure leaves either the previous file or the new one.
///
/// # Errors
/// Disk errors. Unless syncing the directory failed, `target` is unchanged.
pub fn publish(file: &File, unfinished: &Path, target: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(unfinished, target)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    match File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()) {
        // The directory may be writable but not readable, and some file systems can't sync
        // directories.
        Err(error)
            if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) =>
        {
            Ok(())
        }
        synced => synced,
    }
}
