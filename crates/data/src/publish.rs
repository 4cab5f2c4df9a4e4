//! A file that gets its name once it is whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Gives the finished `file`, which lies at `unfinished`, its name `target`: the file is synced
/// before and the directory after, so that a power cut leaves what was there before or all of it.
///
/// # Errors
/// Those of the disk; but for a failed sync of the directory, `target` is as it was.
pub fn publish(file: &File, unfinished: &Path, target: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(unfinished, target)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    match File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()) {
        // Some may write to a directory and not read it, and some file systems sync no directory.
        Err(error)
            if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) =>
        {
            Ok(())
        }
        synced => synced,
    }
}
