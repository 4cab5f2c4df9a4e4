//! Reading a checkpoint: checksums and version first, then its parts.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use stepwell_base::hash;
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::MANIFEST_NAME;

use super::mark::{Lease, being_removed};
use super::sums::{Checksums, Sum};
use super::writer::{group_of, rows_name};
use super::{DENSE_FILE, Dense, FORMAT_VERSION, META_FILE, Rows, SUMS_FILE, files, list};
use crate::{Error, Result};

/// Bytes of the dense part that are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// How often the newest checkpoint is looked for, which a run may remove meanwhile.
const TRIES: usize = 20;

/// What to do with a checkpoint that is damaged.
pub const OLDER: &str = "move it away to go on from the one before it";

/// A checkpoint that was opened: its dense part, what the trainer wrote, where its rows are.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Its directory.
    pub path: PathBuf,
    /// Steps trained.
    pub step: u64,
    /// What the trainer gave to the writer.
    pub run: Value,
    /// The whole of checkpoint.json.
    pub meta: Value,
    /// The dense part.
    pub dense: Dense,
    /// Snapshots of the stores, in order of groups.
    pub rows: Vec<Rows>,
    /// Keeps the run that writes checkpoints there from removing this one.
    pub lease: Lease,
}

/// Whether rows are those that were saved with a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// They are, as far as their store's manifest says, which names every byte of them.
    Yes,
    /// Their manifest is another one, or none; which, and why.
    No(String),
    /// A checkpoint of version 1 does not tell.
    Unknown,
}

impl Checkpoint {
    /// Opens a checkpoint, or the newest one in a directory of checkpoints, in the machine's file
    /// system.
    ///
    /// # Errors
    /// Those of [`Checkpoint::open_in`].
    pub fn open(path: &Path) -> Result<Self> {
        let why = match FileDisk::open(path) {
            Ok(disk) => return Self::open_in(&disk),
            Err(error) if error.kind() == ErrorKind::NotADirectory => "is no directory",
            Err(error) if error.kind() == ErrorKind::NotFound => "does not exist",
            Err(error) => return Err(error.into()),
        };
        let why = format!("{why}; name a directory that `--checkpoint` wrote");
        Err(Error::Checkpoint { path: path.to_owned(), why })
    }

    /// Opens the checkpoint that `disk` is, or the newest one in it.
    ///
    /// Of the rows it is looked at whether they are those that were saved ([`Rows::saved`]); their
    /// own checksums are checked when their store is restored.
    ///
    /// # Errors
    /// When there is none, when it is of another version, or when a byte of it changed.
    pub fn open_in(disk: &dyn Disk) -> Result<Self> {
        let (disk, lease) = locate(disk)?;
        let disk = &*disk;
        let path = disk.path().to_owned();
        let wrong = |why: String| Error::Checkpoint { path: path.clone(), why };
        for name in [META_FILE, DENSE_FILE, SUMS_FILE] {
            if !files::is_there(disk, name)? {
                return Err(wrong(format!("has no {name}: it is damaged, {OLDER}")));
            }
        }
        let meta_bytes = files::read(disk, META_FILE)?;
        let dense_bytes = files::length(disk, DENSE_FILE)?;
        let version = version(&meta_bytes).map_err(wrong)?;
        let sums = files::read(disk, SUMS_FILE)?;
        let damaged = |why| wrong(format!("{why}; the checkpoint is damaged, {OLDER}"));
        let sums = Checksums::decode(&sums, version).map_err(damaged)?;
        sums.check(META_FILE, Sum::of(&meta_bytes)).map_err(damaged)?;
        let meta: Value = serde_json::from_slice(&meta_bytes).map_err(|e| wrong(e.to_string()))?;
        let step = meta["step"].as_u64().ok_or_else(|| wrong("has no step".to_owned()))?;
        let (dense, checksum) = read_dense(&meta, disk, dense_bytes)?;
        let sum = Sum { checksum, bytes: dense_bytes };
        sums.check(DENSE_FILE, sum).map_err(damaged)?;
        let dense = dense.map_err(wrong)?;
        let tables = meta["tables"].as_array().map_or(&[][..], Vec::as_slice);
        // Earlier builds had one group for each table, and the first ones did not name it.
        let groups = tables.iter().enumerate().map(|(number, table)| group(table, number) + 1);
        let rows = (0..groups.max().unwrap_or(0)).map(|group| rows(disk, group, &sums)).collect();
        Ok(Self { step, run: meta["run"].clone(), dense, rows, meta, path, lease })
    }

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.meta["tables"].as_array().map_or(0, Vec::len)
    }

    /// Where the rows of table `table` lie, among others' where it shares a store.
    ///
    /// # Errors
    /// When the checkpoint has no such table.
    pub fn rows_of(&self, table: usize) -> Result<&Rows> {
        let entry = &self.meta["tables"][table];
        let rows = self.rows.get(group(entry, table)).filter(|_| !entry.is_null());
        rows.ok_or_else(|| Error::Checkpoint {
            path: self.path.clone(),
            why: format!("has no rows of table {table}"),
        })
    }

    /// Refuses rows that are not those that were saved.
    ///
    /// # Errors
    /// Names the first that are not, and the mend.
    pub fn check_rows(&self) -> Result<()> {
        let other = self.rows.iter().find_map(|rows| match &rows.saved {
            Saved::No(why) => Some(why.clone()),
            Saved::Yes | Saved::Unknown => None,
        });
        let wrong = |why| Error::Checkpoint { path: self.path.clone(), why };
        other.map_or(Ok(()), |why| {
            Err(wrong(format!(
                "its rows are not those that were saved with it ({why}); say --repaired if \
                 `stepwell store repair` made them, or {OLDER}"
            )))
        })
    }
}

/// The group in whose store the rows of a table lie.
fn group(table: &Value, number: usize) -> usize {
    table["rows"].as_str().and_then(group_of).unwrap_or(number)
}

fn rows(checkpoint: &dyn Disk, group: usize, sums: &Checksums) -> Rows {
    let name = rows_name(group);
    let path = checkpoint.path().join(&name);
    let saved = if sums.binds_rows() {
        let opened = checkpoint.directory(&path).map_err(Error::from);
        let manifest = opened.and_then(|rows| files::read(&*rows, MANIFEST_NAME));
        let manifest = manifest.map_err(|error| error.to_string());
        let listed = format!("{name}/{MANIFEST_NAME}");
        let checked = manifest.and_then(|manifest| sums.check(&listed, Sum::of(&manifest)));
        checked.map_or_else(Saved::No, |()| Saved::Yes)
    } else {
        Saved::Unknown
    };
    Rows { group, path, saved }
}

/// The checkpoint that a disk is, or the newest one in it, with a lease.
fn locate(disk: &dyn Disk) -> Result<(Arc<dyn Disk>, Lease)> {
    let path = disk.path();
    if disk.exists(META_FILE)? {
        let lease = Lease::take(disk).ok_or_else(|| being_removed(path))?;
        return Ok((disk.directory(path)?, lease));
    }
    let none = || Error::Checkpoint {
        path: path.to_owned(),
        why: "holds no checkpoint; name a directory that `--checkpoint` wrote".to_owned(),
    };
    for _ in 0..TRIES {
        let (_, newest) = list(disk)?.pop().ok_or_else(none)?;
        let leased = match disk.directory(&newest) {
            Ok(found) => Lease::take(&*found).map(|lease| (found, lease)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        // A run that goes on may have removed it meanwhile: there is a newer one then.
        if let Some((found, lease)) = leased
            && disk.directory(&newest).is_ok()
        {
            return Ok((found, lease));
        }
    }
    Err(being_removed(path))
}

/// The version is looked at before the checksums: another version may sum up otherwise.
fn version(meta: &[u8]) -> std::result::Result<u64, String> {
    let Ok(meta) = serde_json::from_slice::<Value>(meta) else { return Ok(FORMAT_VERSION) };
    match meta["version"].as_u64() {
        None => Ok(FORMAT_VERSION),
        Some(known @ 1..=FORMAT_VERSION) => Ok(known),
        Some(other) => Err(format!(
            "is of format version {other}, this build reads versions 1 to {FORMAT_VERSION}; use \
             the build that wrote it"
        )),
    }
}

/// The dense part, or why there is none, and the checksum of its file, which is read once, piece by
/// piece: no second copy of it is ever in memory.
fn read_dense(
    meta: &Value,
    disk: &dyn Disk,
    bytes: u64,
) -> Result<(std::result::Result<Dense, String>, u64)> {
    let mut dense = Dense::default();
    let mut left = bytes / size_of::<f32>() as u64;
    let mut wants = Vec::new();
    let mut short = None;
    for section in meta["dense"].as_array().into_iter().flatten() {
        let name = section["name"].as_str().unwrap_or_default().to_owned();
        let count = section["count"].as_u64().unwrap_or(0);
        if count > left && short.is_none() {
            short = Some(format!("{DENSE_FILE} ends inside section '{name}'"));
        }
        let count = count.min(left);
        left -= count;
        wants.push(count as usize);
        dense.sections.push((name, Vec::with_capacity(count as usize)));
    }
    let (mut sum, mut at) = (hash::Checksum::new(), 0);
    files::read_pieces(disk, DENSE_FILE, PIECE_BYTES, |piece| {
        sum.update(piece);
        let mut values = piece
            .chunks_exact(size_of::<f32>())
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .peekable();
        while values.peek().is_some() {
            let Some((_, section)) = dense.sections.get_mut(at) else { return };
            section.extend(values.by_ref().take(wants[at] - section.len()));
            at += usize::from(section.len() == wants[at]);
        }
    })?;
    Ok((short.map_or(Ok(dense), Err), sum.value()))
}
