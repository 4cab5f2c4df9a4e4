//! Rows in a named directory, and the marks that show which rows a run of this program made.
//!
//! ```text
//! DIR/
//!   rows-0/         a store, made by a run, with a random number in `.stepwell-rows`
//!   .rows-0         its mark: the same random number
//!   rows-best/      a user's, never touched
//!   set-aside-1/    entries that were in a run's way and may not be a run's
//! ```
//!
//! Only a directory with a matching mark is ever removed. Both numbers stay valid when `DIR` is
//! moved or copied; a directory that was copied or moved into `DIR` alone, or made by a user, has
//! no matching number, whatever its name is. Marks of earlier builds have the device and inode of
//! the directory.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use stepwell_base::random;
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{Error as StoreError, LOCK_NAME, MANIFEST_NAME, is_segment};

use crate::error::file_error;
use crate::{Error, Result, checkpoint};

const ROWS: &str = "rows-";
const RANK: &str = "rank-";
/// Name of the file with a mark's number in the directory that it marks.
const INSIDE: &str = ".stepwell-rows";
/// Start of a mark; 32 hexadecimal digits follow.
const MADE_BY: &str = "made by stepwell: rows ";
/// Files found only in checkpoints.
const OF_CHECKPOINTS: [&str; 2] = ["checkpoint.json", "CHECKSUMS"];

/// Name of the directory of table group `group`'s store.
pub(super) fn name_of(group: usize) -> String {
    format!("{ROWS}{group}")
}

/// Name of the directory of one of several ranks.
pub fn name_of_rank(rank: usize) -> String {
    format!("{RANK}{rank}")
}

/// The directories in `path` of ranks from `first` on.
pub(super) fn of_ranks(path: &Path, first: usize) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(file_error("list", path))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(file_error("list", path))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(RANK)?.parse().ok());
        if number.is_some_and(|rank| rank >= first && name == *name_of_rank(rank)) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Rejects a directory, named by `setting`, that is a checkpoint or in one, or isn't a directory.
pub fn refuse_checkpoint(setting: &str, path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Error::Settings(format!(
            "{setting} = {} is not a directory; choose another path",
            path.display()
        )));
    }
    let real = real(path);
    let has = |place: &Path, name: &&str| place.join(name).is_file();
    // Either file may be missing or damaged; in parents, one with that name may be a user's.
    let is_checkpoint = |place: &&Path| match *place == real {
        true => OF_CHECKPOINTS.iter().any(|name| has(place, name)),
        false => OF_CHECKPOINTS.iter().all(|name| has(place, name)),
    };
    match real.ancestors().find(is_checkpoint) {
        None => Ok(()),
        Some(checkpoint) => Err(Error::Settings(format!(
            "{setting} = {}: {} is a checkpoint, which a run must not write into; choose another \
             directory",
            path.display(),
            checkpoint.display()
        ))),
    }
}

/// Rejects a directory, named by `setting`, that is a store or in one: a run that uses the store
/// treats all its contents as its own.
pub fn refuse_store(setting: &str, path: &Path) -> Result<()> {
    let real = real(path);
    let Some(store) = real.ancestors().find(|place| is_store(place)) else { return Ok(()) };
    Err(Error::Settings(format!(
        "{setting} = {}: {} is a store of rows, which must contain nothing else; choose another \
         directory",
        path.display(),
        store.display()
    )))
}

/// Whether `place` was opened as a store, or contains one; in parents, a manifest alone may be a
/// user's.
fn is_store(place: &Path) -> bool {
    let has_segments = || {
        let mut listed = fs::read_dir(place).into_iter().flatten().flatten();
        listed.any(|entry| entry.file_name().to_str().is_some_and(is_segment))
    };
    place.join(LOCK_NAME).is_file() || (place.join(MANIFEST_NAME).is_file() && has_segments())
}

/// Resolves links in a path, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|place| Some((place, place.canonicalize().ok()?)));
    let Some((place, real)) = found else { return path };
    let missing = path.strip_prefix(place).into_iter().flat_map(Path::components);
    real.components().chain(missing).collect()
}

/// Rejects rows that are open or being checked.
pub(super) fn refuse_open(old: &[PathBuf]) -> Result<()> {
    for rows in old.iter().filter(|rows| rows.join(LOCK_NAME).is_file()) {
        let disk = FileDisk::open(rows)?;
        if disk.lock(LOCK_NAME)?.is_none() {
            return Err(Error::Store(StoreError::InUse { path: rows.clone() }));
        }
    }
    Ok(())
}

/// Marks `rows`, which is empty, as made by a run.
pub(super) fn mark(rows: &Path) -> Result<()> {
    let [high, low] = random::drawn();
    let mark = format!("{MADE_BY}{high:016x}{low:016x}\n");
    for path in [rows.join(INSIDE), mark_of(rows)] {
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(mark.as_bytes())?;
            file.sync_all()
        });
        written.map_err(file_error("write", &path))?;
    }
    FileDisk::open(rows)?.sync_directory()?;
    Ok(())
}

/// The directories in `path` with a store's name, by number.
pub(super) fn find(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path).map_err(file_error("list", path))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(file_error("list", path))?;
        if let Some(number) = entry.file_name().to_str().and_then(number_of) {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The number in a name from [`name_of`].
fn number_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix(ROWS)?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

/// Removes the directories of `old` that a run made; returns the others.
pub(super) fn remove_marked(old: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    let mut others = Vec::new();
    for rows in old {
        if is_marked(&rows)? {
            fs::remove_dir_all(&rows).map_err(file_error("remove", &rows))?;
            unmark(&rows)?;
        } else {
            others.push(rows);
        }
    }
    Ok(others)
}

/// Sets `old` aside within `path`; returns the new directory.
pub(super) fn set_aside(path: &Path, old: &[PathBuf]) -> Result<PathBuf> {
    let aside = (1u64..)
        .map(|number| format!("{}{number}", super::set_aside::PREFIX))
        .find(|name| !path.join(name).exists())
        .unwrap_or_else(|| "set-aside".to_owned());
    let disk = FileDisk::open(path)?;
    for from in old {
        if let Some(name) = from.file_name().and_then(|name| name.to_str()) {
            disk.rename(name, &format!("{aside}/{name}"))?;
            unmark(from)?;
            // From here on, the entry belongs to the user alone.
            let _ = fs::remove_file(path.join(&aside).join(name).join(INSIDE));
        }
    }
    Ok(path.join(aside))
}

fn is_marked(rows: &Path) -> Result<bool> {
    let Ok(mark) = fs::read_to_string(mark_of(rows)) else { return Ok(false) };
    let is_inside = || fs::read_to_string(rows.join(INSIDE)).is_ok_and(|inside| inside == mark);
    Ok(rows.is_dir() && (mark.starts_with(MADE_BY) && is_inside() || mark == identity(rows)?))
}

/// The mark of earlier builds.
fn identity(rows: &Path) -> Result<String> {
    let disk = FileDisk::open(rows)?;
    checkpoint::identity(&disk, rows)
}

fn unmark(rows: &Path) -> Result<()> {
    let mark = mark_of(rows);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(file_error("remove", &mark)(error))
        }
        _ => Ok(()),
    }
}

/// `D/.rows-0` next to `D/rows-0`: so a replacement of `rows-0` doesn't match it.
fn mark_of(rows: &Path) -> PathBuf {
    let name = rows.file_name().unwrap_or_default().to_string_lossy().into_owned();
    rows.with_file_name(format!(".{name}"))
}
