//! Reads checkpoints: first checksums and version, then the parts.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use stepwell_base::hash;
use stepwell_base::owner::{KEY_SHARD_NAME, KEY_SHARDS, RankOf};
use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::{MANIFEST_NAME, Manifest};

use super::directory_mark::{Lease, being_removed};
use super::names::{dense_of_rank, group_of, rows_of_rank};
use super::sums::{Checksums, Sum};
use super::{DENSE_FILE, FORMAT_VERSION, META_FILE, Rows, SUMS_FILE, ended_mark, files, list};
use crate::dense::Dense;
use crate::{Error, Result};

/// Bytes of the dense part read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Number of tries to open the newest checkpoint, which a run may remove concurrently.
const TRIES: usize = 20;

/// Fix for a damaged checkpoint.
pub const OLDER: &str =
    "use the checkpoint before it, or move it away so that a resumed run starts from there";

/// An open checkpoint: its dense part, the trainer's state, and where its rows are.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Directory of the checkpoint.
    pub path: PathBuf,
    /// Steps trained.
    pub step: u64,
    /// State that the trainer passed to the writer.
    pub run: Value,
    /// All of `checkpoint.json`.
    pub meta: Value,
    /// The dense part.
    pub dense: Dense,
    /// Snapshots of the stores, in order of groups, and of ranks within each.
    pub rows: Vec<Rows>,
    /// Whether the run that wrote it trained all of its data; earlier builds didn't record this.
    pub ended: bool,
    /// Prevents the run that writes checkpoints there from removing this one.
    pub lease: Lease,
}

/// Whether rows are those that were saved with a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Yes, according to the manifest of the rows' store, which covers every byte of the rows.
    Yes,
    /// No: the manifest of the rows' store is missing or a different one, as the text describes.
    No(String),
    /// Unknown, in a checkpoint of version 1.
    Unknown,
}

impl Checkpoint {
    /// Opens a checkpoint, or the newest one in a directory of checkpoints, in the local file
    /// system.
    ///
    /// # Errors
    /// Errors of [`Checkpoint::open_in`].
    pub fn open(path: &Path) -> Result<Self> {
        let why = match FileDisk::open(path) {
            Ok(disk) => return Self::open_in(&disk),
            Err(error) if error.kind() == ErrorKind::NotADirectory => "is not a directory",
            Err(error) if error.kind() == ErrorKind::NotFound => "does not exist",
            Err(error) => return Err(error.into()),
        };
        let why = format!("{why}; name a directory that `--checkpoint` wrote");
        Err(Error::NoCheckpoint { path: path.to_owned(), why })
    }

    /// Opens the checkpoint in `disk`'s directory, or the newest one among its subdirectories.
    ///
    /// Checks whether the rows are those that were saved ([`Rows::saved`]); their own checksums are
    /// checked when their store is restored.
    ///
    /// # Errors
    /// If there is none, its version is not supported, or any byte of it changed.
    pub fn open_in(disk: &dyn Disk) -> Result<Self> {
        let (disk, lease) = locate(disk)?;
        let disk = &*disk;
        let path = disk.path().to_owned();
        let wrong = |why: String| Error::Checkpoint { path: path.clone(), why };
        let lost = |why: String| Error::Damaged { path: path.clone(), why };
        for name in [META_FILE, DENSE_FILE, SUMS_FILE] {
            if !files::is_there(disk, name)? {
                return Err(lost(format!("has no {name}: it is damaged; {OLDER}")));
            }
        }
        let meta_bytes = files::read(disk, META_FILE)?;
        let version = version(&meta_bytes).map_err(wrong)?;
        let sums = files::read(disk, SUMS_FILE)?;
        let damaged = |why| lost(format!("{why}; the checkpoint is damaged; {OLDER}"));
        let sums = Checksums::decode(&sums, version).map_err(damaged)?;
        sums.check(META_FILE, Sum::of(&meta_bytes)).map_err(damaged)?;
        let meta: Value = serde_json::from_slice(&meta_bytes).map_err(|e| wrong(e.to_string()))?;
        let step = meta["step"].as_u64().ok_or_else(|| wrong("has no step".to_owned()))?;
        let ranks = ranks(&meta).map_err(wrong)?;
        let read = |name: &str, listed: &Value| {
            let bytes = files::length(disk, name)?;
            let (dense, checksum) = read_dense(listed, disk, name, bytes)?;
            sums.check(name, Sum { checksum, bytes }).map_err(damaged)?;
            dense.map_err(wrong)
        };
        let mut dense = read(DENSE_FILE, &meta["dense"])?;
        for rank in 0..ranks {
            let listed = &meta["ranks"][rank]["dense"];
            if listed.as_array().is_some_and(|sections| !sections.is_empty()) {
                let name = dense_of_rank(rank);
                if !files::is_there(disk, &name)? {
                    return Err(lost(format!("has no {name}: it is damaged; {OLDER}")));
                }
                dense.join(read(&name, listed)?);
            }
        }
        let tables = meta["tables"].as_array().map_or(&[][..], Vec::as_slice);
        // Earlier builds had one group per table, and the first ones did not name it.
        let groups = tables.iter().enumerate().map(|(number, table)| group(table, number) + 1);
        let groups = 0..groups.max().unwrap_or(0);
        let places = groups.flat_map(|group| (0..ranks).map(move |rank| (group, rank)));
        let rows = places.map(|(group, rank)| rows(disk, group, RankOf { rank, ranks }, &sums));
        let rows = rows.collect();
        let run = meta["run"].clone();
        let ended = ended_mark::is_ended(disk, step, &run);
        Ok(Self { step, run, dense, rows, meta, path, ended, lease })
    }

    /// Whether a [`Session`](crate::Session) wrote the checkpoint: its model is the caller's own.
    pub fn is_of_session(&self) -> bool {
        self.run["session"].is_object()
    }

    /// Number of ranks that wrote the checkpoint.
    pub fn ranks(&self) -> usize {
        ranks(&self.meta).unwrap_or(1)
    }

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.meta["tables"].as_array().map_or(0, Vec::len)
    }

    /// Where the rows of table `table` are, by rank; a shared store has other tables' rows, too.
    ///
    /// # Errors
    /// If the checkpoint has no such table.
    pub fn rows_of(&self, table: usize) -> Result<&[Rows]> {
        let entry = &self.meta["tables"][table];
        let rows = self.rows_of_group(group(entry, table));
        if !entry.is_null() && !rows.is_empty() {
            return Ok(rows);
        }
        let why = format!("has no rows of table {table}");
        Err(Error::Checkpoint { path: self.path.clone(), why })
    }

    /// Where the rows of table group `group` are, by rank; empty if there is no such group.
    pub fn rows_of_group(&self, group: usize) -> &[Rows] {
        let of = |rows: &Rows| rows.group.cmp(&group);
        let start = self.rows.partition_point(|rows| of(rows).is_lt());
        let end = self.rows.partition_point(|rows| of(rows).is_le());
        &self.rows[start..end]
    }

    /// Manifests of the stores of table group `group`, by rank; `None` if one cannot be read, which
    /// opening the store reports.
    pub fn manifests_of_group(&self, group: usize) -> Option<Vec<Manifest>> {
        let manifest = |rows: &Rows| Manifest::load(&FileDisk::open(&rows.path).ok()?).ok();
        self.rows_of_group(group).iter().map(manifest).collect()
    }

    /// Rejects rows that are not the ones that were saved.
    ///
    /// # Errors
    /// Names the first rows that aren't, and the fix.
    pub fn check_rows(&self) -> Result<()> {
        let other = self.rows.iter().find_map(|rows| match &rows.saved {
            Saved::No(why) => Some(why.clone()),
            Saved::Yes | Saved::Unknown => None,
        });
        let wrong = |why| Error::Damaged { path: self.path.clone(), why };
        other.map_or(Ok(()), |why| {
            Err(wrong(format!(
                "its rows are not those that were saved with it ({why}); give --repaired if \
                 `stepwell store repair` made them, or {OLDER}"
            )))
        })
    }
}

/// The group whose store has the rows of a table.
fn group(table: &Value, number: usize) -> usize {
    table["rows"].as_str().and_then(group_of).unwrap_or(number)
}

/// Number of ranks that wrote a checkpoint.
fn ranks(meta: &Value) -> std::result::Result<usize, String> {
    match meta["ranks"].as_array().map(Vec::len) {
        None => Ok(1),
        Some(ranks @ 2..=KEY_SHARDS) => {
            let (ours, field) = (KEY_SHARD_NAME, &meta["owner"]);
            if field.as_str() == Some(ours) {
                return Ok(ranks);
            }
            Err(format!(
                "its keys are assigned to ranks by {field}, but this build knows only '{ours}'; \
                 use the build that wrote it"
            ))
        }
        Some(ranks) => Err(format!("was written by {ranks} ranks, which is impossible; {OLDER}")),
    }
}

fn rows(checkpoint: &dyn Disk, group: usize, of: RankOf, sums: &Checksums) -> Rows {
    let name = rows_of_rank(group, of);
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
    Rows { group, rank: of.rank, path, saved }
}

/// The checkpoint in `disk`'s directory, or the newest one among its subdirectories, with a lease.
fn locate(disk: &dyn Disk) -> Result<(Arc<dyn Disk>, Lease)> {
    let path = disk.path();
    if disk.exists(META_FILE)? {
        let lease = Lease::take(disk).ok_or_else(|| being_removed(path))?;
        return Ok((disk.directory(path)?, lease));
    }
    let none = || Error::NoCheckpoint {
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
        // A running trainer may have removed it; then there is a newer one.
        if let Some((found, lease)) = leased
            && disk.directory(&newest).is_ok()
        {
            return Ok((found, lease));
        }
    }
    Err(being_removed(path))
}

/// Checks the version before the checksums, which other versions may compute differently.
fn version(meta: &[u8]) -> std::result::Result<u64, String> {
    let Ok(meta) = serde_json::from_slice::<Value>(meta) else { return Ok(FORMAT_VERSION) };
    match meta["version"].as_u64() {
        None => Ok(FORMAT_VERSION),
        Some(known @ 1..=FORMAT_VERSION) => Ok(known),
        Some(other) => Err(format!(
            "has format version {other}, but this build reads versions 1 to {FORMAT_VERSION}; use \
             the build that wrote it"
        )),
    }
}

/// The `listed` sections of a file, or an error about missing ones, and the file's checksum. The
/// file is read once, piece by piece, so a second copy of it is never in memory.
fn read_dense(
    listed: &Value,
    disk: &dyn Disk,
    file: &str,
    bytes: u64,
) -> Result<(std::result::Result<Dense, String>, u64)> {
    let mut dense = Dense::default();
    let mut left = bytes / size_of::<f32>() as u64;
    let mut wants = Vec::new();
    let mut short = None;
    for section in listed.as_array().into_iter().flatten() {
        let name = section["name"].as_str().unwrap_or_default().to_owned();
        let count = section["count"].as_u64().unwrap_or(0);
        if count > left && short.is_none() {
            short = Some(format!("{file} ends inside section '{name}'"));
        }
        let count = count.min(left);
        left -= count;
        wants.push(count as usize);
        dense.sections.push((name, Vec::with_capacity(count as usize)));
    }
    let (mut sum, mut at) = (hash::Checksum::new(), 0);
    files::read_pieces(disk, file, PIECE_BYTES, |piece| {
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
