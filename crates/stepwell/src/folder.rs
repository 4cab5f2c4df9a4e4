//! A directory that a command makes: it has its name once all is in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stepwell_base::mend;
use stepwell_disk::{Disk as _, FileDisk};

/// A directory that is being filled; dropped before it is finished it leaves nothing.
pub(crate) struct Folder {
    pub(crate) unfinished: PathBuf,
    target: PathBuf,
}

impl Folder {
    /// Begins the directory that will be at `target`, where there is nothing yet.
    pub(crate) fn begin(target: &Path) -> Result<Self, String> {
        let fail = |why: &str| Err(format!("--to {}: {why}", target.display()));
        if target.symlink_metadata().is_ok() {
            return fail("is there already: name a directory to make");
        }
        let Some(name) = target.file_name() else {
            return fail("name a directory to make");
        };
        let name = format!(".{}.unfinished-{}", name.to_string_lossy(), std::process::id());
        let unfinished = target.with_file_name(name);
        match fs::create_dir(&unfinished) {
            Ok(()) => Ok(Self { unfinished, target: target.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fail("there is no directory to make it in: make that first")
            }
            Err(error) => fail(&format!("cannot be made: {error}{}", mend(&error))),
        }
    }

    /// The name that it will have.
    pub(crate) fn name(&self) -> String {
        self.target.display().to_string()
    }

    /// Gives it its name, which lasts from then on.
    pub(crate) fn finish(self) -> Result<(), String> {
        let fail = |error: io::Error| cannot_write(&self.target, &error);
        if self.target.symlink_metadata().is_ok() {
            // An empty directory would be replaced, and it is somebody else's.
            let name = self.name();
            return Err(format!("--to {name}: is there since: name a directory to make"));
        }
        fs::rename(&self.unfinished, &self.target).map_err(fail)?;
        let above = self.target.parent().filter(|above| !above.as_os_str().is_empty());
        let above = FileDisk::open(above.unwrap_or(Path::new(".")));
        above.and_then(|above| above.sync_directory()).map_err(|error| error.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing is there once it has its name; and nobody is left to be told.
        let _ = fs::remove_dir_all(&self.unfinished);
    }
}

/// A file that could not be written, and the mend.
pub(crate) fn cannot_write(path: &Path, why: &io::Error) -> String {
    format!("cannot write {}: {why}{}", path.display(), mend(why))
}
