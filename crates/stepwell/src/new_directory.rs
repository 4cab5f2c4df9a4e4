//! A directory that a command creates: it gets its name only when it is complete.
//!
//! - **How.** The directory is filled next to its place, under a temporary name. A mark in it has
//!   that name and is locked while the run is alive. The next run with the same target removes what
//!   a killed run left there, even if that was moved or mounted elsewhere in between, and nothing
//!   else: a user's copy next to it has another name.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use stepwell_base::mend;
use stepwell_disk::{Disk as _, FileDisk};
use stepwell_engine::identity;

use crate::failure::Failure;

/// The file that marks an unfinished directory.
const MARK: &str = ".stepwell-unfinished";
/// More bytes than a mark has.
const MARK_BYTES_MAX: u64 = 256;
/// Longest target name that the temporary name includes: names have at most 255 bytes.
const NAME_MAX: usize = 180;

/// A directory that is being filled. Dropping it before it is finished removes it.
pub(crate) struct Folder {
    pub(crate) unfinished: PathBuf,
    target: PathBuf,
    /// The mark, locked until the directory is finished.
    mark: Option<File>,
}

impl Folder {
    /// Creates the directory that will be at `target`, which must not exist yet.
    pub(crate) fn begin(target: &Path) -> Result<Self, Failure> {
        let fail = |why: &str| Err(Failure::Usage(format!("--out {}: {why}", target.display())));
        if target.symlink_metadata().is_ok() {
            return fail("already exists: name a new directory");
        }
        let Some(name) = target.file_name() else {
            return fail("name a new directory");
        };
        let name = name.to_string_lossy();
        let name = if name.len() > NAME_MAX { "" } else { &*name };
        let prefix = format!(".{name}.unfinished-");
        sweep(above(target), &prefix);
        match Self::make(target, &prefix) {
            Ok(folder) => Ok(folder),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fail("its parent directory is missing: create that first")
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                fail("its parent is a file: name another place")
            }
            Err(error) => fail(&format!("cannot be created: {error}{}", mend(&error))),
        }
    }

    fn make(target: &Path, prefix: &str) -> io::Result<Self> {
        let process = std::process::id();
        for number in 0u32.. {
            let unfinished = target.with_file_name(format!("{prefix}{process}-{number}"));
            match fs::create_dir(&unfinished) {
                // Left by an earlier process with the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let mut folder = Self { unfinished, target: target.to_owned(), mark: None };
            match folder.lay_mark() {
                Ok(()) => return Ok(folder),
                // Another run took it for a leftover and removed it before it had its mark.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Marks the directory, which must be empty.
    fn lay_mark(&mut self) -> io::Result<()> {
        let path = self.unfinished.join(MARK);
        let mut mark = File::create_new(&path)?;
        match mark.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::NotFound.into()),
            // Without locks, as on some network file systems, nobody else can lock it either.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        path.symlink_metadata()?;
        mark.write_all(mark_of(&self.unfinished).as_bytes())?;
        self.mark = Some(mark);
        Ok(())
    }

    /// The name that the directory will have.
    pub(crate) fn name(&self) -> String {
        self.target.display().to_string()
    }

    /// Gives the directory its name, durably.
    pub(crate) fn finish(self) -> Result<(), String> {
        let fail = |error: io::Error| cannot_write(&self.target, &error);
        if self.target.symlink_metadata().is_ok() {
            // Renaming would replace somebody else's empty directory.
            let name = self.name();
            return Err(format!("--out {name}: was created since: name a new directory"));
        }
        fs::remove_file(self.unfinished.join(MARK)).map_err(fail)?;
        let said = |error: stepwell_disk::Error| error.to_string();
        FileDisk::open(&self.unfinished)
            .and_then(|inside| inside.sync_directory())
            .map_err(said)?;
        fs::rename(&self.unfinished, &self.target).map_err(fail)?;
        FileDisk::open(above(&self.target)).and_then(|disk| disk.sync_directory()).map_err(said)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Frees its descriptor, which removing may need.
        self.mark = None;
        // Fails if the directory already has its name; other errors cannot be reported here.
        let _ = remove(&self.unfinished);
    }
}

/// Removes a directory and its contents with only one open descriptor, because running out of
/// descriptors is a reason to remove it.
fn remove(directory: &Path) -> io::Result<()> {
    // A `DirEntry` keeps its directory open.
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?.is_dir()))
    };
    let entries: Vec<(PathBuf, bool)> =
        fs::read_dir(directory)?.map(entry).collect::<io::Result<_>>()?;
    for (path, is_directory) in entries {
        if is_directory { remove(&path)? } else { fs::remove_file(path)? }
    }
    fs::remove_dir(directory)
}

/// The text of a directory's mark.
fn mark_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    format!("made by stepwell: {name}\n")
}

/// The text of a mark by an earlier build.
fn mark_before(directory: &Path) -> Option<String> {
    identity(&FileDisk::open(directory).ok()?, directory).ok()
}

/// Removes what killed runs left in `folder` under names with this `prefix`. What cannot be removed
/// stays for the next run.
fn sweep(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let path = entry.path();
            if let Some(_lock) = left(&path) {
                let _ = fs::remove_dir_all(&path);
            } else {
                // A kill before the mark leaves an empty directory; other ones are not removed.
                let _ = fs::remove_dir(&path);
            }
        }
    }
}

/// The locked mark of a directory that a killed run left; `None` for any other.
fn left(path: &Path) -> Option<File> {
    if !path.symlink_metadata().ok()?.is_dir() {
        return None;
    }
    let mark = path.join(MARK);
    if !mark.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mark = File::open(mark).ok()?;
    mark.try_lock().ok()?;
    let mut text = String::new();
    (&mark).take(MARK_BYTES_MAX).read_to_string(&mut text).ok()?;
    let alone = || fs::read_dir(path).is_ok_and(|found| found.count() == 1);
    // A kill while writing the mark leaves a part of it and nothing else.
    let is_of = |whole: String| text == whole || (whole.starts_with(&text) && alone());
    (is_of(mark_of(path)) || mark_before(path).is_some_and(is_of)).then_some(mark)
}

/// The parent directory of a path.
fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The message for a file that cannot be written, with the fix.
pub(crate) fn cannot_write(path: &Path, why: &io::Error) -> String {
    format!("cannot write {}: {why}{}", path.display(), mend(why))
}
