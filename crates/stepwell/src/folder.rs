//! A directory that a command makes: it has its name once all is in it.
//!
//! How       It is filled under a name of its own beside its place. A mark in it says that name,
//!           and is locked while the run goes on. So the next run with the same target removes what
//!           one that was killed left there, wherever that was moved or mounted since, and nothing
//!           that is somebody's: a copy beside it has another name.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use stepwell_base::mend;
use stepwell_disk::{Disk as _, FileDisk};
use stepwell_engine::identity;

/// The file that marks an unfinished directory.
const MARK: &str = ".stepwell-unfinished";
/// More than a mark holds.
const MARK_BYTES_MAX: u64 = 256;
/// Longest name of which an unfinished directory's is made: names have 255 bytes at most.
const NAME_MAX: usize = 180;

/// A directory that is being filled; dropped before it is finished it leaves nothing.
pub(crate) struct Folder {
    pub(crate) unfinished: PathBuf,
    target: PathBuf,
    /// The mark, locked, until it is finished.
    mark: Option<File>,
}

impl Folder {
    /// Begins the directory that will be at `target`, where there is nothing yet.
    pub(crate) fn begin(target: &Path) -> Result<Self, String> {
        let fail = |why: &str| Err(format!("--out {}: {why}", target.display()));
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
                // A process before this one that had its number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let mut folder = Self { unfinished, target: target.to_owned(), mark: None };
            match folder.lay_mark() {
                Ok(()) => return Ok(folder),
                // Another run took it for one that was left, before it had its mark.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Marks the directory, which is empty.
    fn lay_mark(&mut self) -> io::Result<()> {
        let path = self.unfinished.join(MARK);
        let mut mark = File::create_new(&path)?;
        match mark.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::NotFound.into()),
            // Where nobody can lock it, as on some network file systems, nobody will.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        path.symlink_metadata()?;
        mark.write_all(mark_of(&self.unfinished).as_bytes())?;
        self.mark = Some(mark);
        Ok(())
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
        // Its descriptor may be the one that removing needs.
        self.mark = None;
        // Nothing is there once it has its name; and nobody is left to be told.
        let _ = remove(&self.unfinished);
    }
}

/// Removes a directory and all in it, with one descriptor at a time: where there are no more is
/// where something is to be removed.
fn remove(directory: &Path) -> io::Result<()> {
    // An entry would hold its directory open.
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

/// What the mark of a directory says.
fn mark_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    format!("made by stepwell: {name}\n")
}

/// What that of an earlier build says.
fn mark_before(directory: &Path) -> Option<String> {
    identity(&FileDisk::open(directory).ok()?, directory).ok()
}

/// Removes what killed runs left in `folder` under names that begin with `prefix`; what cannot be
/// removed stays for the next one.
fn sweep(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let path = entry.path();
            if let Some(_lock) = left(&path) {
                let _ = fs::remove_dir_all(&path);
            } else {
                // A kill before it was marked leaves it empty; others are not removed.
                let _ = fs::remove_dir(&path);
            }
        }
    }
}

/// The lock of a directory that a run made and nobody fills any longer.
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
    // A kill while it was marked leaves a part of the mark, and nothing else.
    let is_of = |whole: String| text == whole || (whole.starts_with(&text) && alone());
    (is_of(mark_of(path)) || mark_before(path).is_some_and(is_of)).then_some(mark)
}

/// The directory that a path lies in.
fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that could not be written, and the mend.
pub(crate) fn cannot_write(path: &Path, why: &io::Error) -> String {
    format!("cannot write {}: {why}{}", path.display(), mend(why))
}
