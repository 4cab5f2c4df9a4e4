//! Reading a checkpoint: checksums and version first, then its parts.

use std::path::{Path, PathBuf};

use serde_json::Value;
use stepwell_base::hash;

use super::writer::rows_name;
use super::{DENSE_FILE, Dense, FORMAT_VERSION, META_FILE, Rows, SUMS_FILE, files, list};
use crate::{Error, Result};

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
}

impl Checkpoint {
    /// Opens a checkpoint, or the newest one in a directory of checkpoints.
    ///
    /// The rows' own checksums are checked when their store is restored.
    ///
    /// # Errors
    /// When there is none, when it is of another version, or when a byte of it changed.
    pub fn open(path: &Path) -> Result<Self> {
        let path = locate(path)?;
        let wrong = |why: String| Error::Checkpoint { path: path.clone(), why };
        let meta_bytes = files::read(&path.join(META_FILE))?;
        let dense_bytes = files::read(&path.join(DENSE_FILE))?;
        check_version(&meta_bytes).map_err(wrong)?;
        let sums = files::read(&path.join(SUMS_FILE))?;
        for (name, bytes) in [(META_FILE, &meta_bytes), (DENSE_FILE, &dense_bytes)] {
            check_sum(&sums, name, bytes).map_err(wrong)?;
        }
        let meta: Value = serde_json::from_slice(&meta_bytes).map_err(|e| wrong(e.to_string()))?;
        let step = meta["step"].as_u64().ok_or_else(|| wrong("has no step".to_owned()))?;
        let dense = read_dense(&meta, &dense_bytes).map_err(wrong)?;
        let tables = meta["tables"].as_array().map_or(0, Vec::len);
        let rows =
            (0..tables).map(|group| Rows { group, path: path.join(rows_name(group)) }).collect();
        Ok(Self { step, run: meta["run"].clone(), dense, rows, meta, path })
    }
}

fn locate(path: &Path) -> Result<PathBuf> {
    if path.join(META_FILE).exists() {
        return Ok(path.to_owned());
    }
    match list(path)?.pop() {
        Some((_, newest)) => Ok(newest),
        None => Err(Error::Checkpoint {
            path: path.to_owned(),
            why: "holds no checkpoint; name a directory that `--checkpoint` wrote".to_owned(),
        }),
    }
}

/// The version is looked at before the checksums: another version may sum up otherwise.
fn check_version(meta: &[u8]) -> std::result::Result<(), String> {
    let Ok(meta) = serde_json::from_slice::<Value>(meta) else { return Ok(()) };
    match meta["version"].as_u64() {
        None | Some(FORMAT_VERSION) => Ok(()),
        Some(other) => Err(format!(
            "is of format version {other}, this build reads version {FORMAT_VERSION}; \
             use the build that wrote it"
        )),
    }
}

fn check_sum(sums: &[u8], name: &str, bytes: &[u8]) -> std::result::Result<(), String> {
    let found = format!("{:016x}  {name}", hash::checksum(bytes));
    if String::from_utf8_lossy(sums).lines().any(|line| line == found) {
        return Ok(());
    }
    Err(format!(
        "{name} ({} bytes) does not have the checksum that {SUMS_FILE} names; the checkpoint is \
         damaged, use an older one",
        bytes.len()
    ))
}

fn read_dense(meta: &Value, bytes: &[u8]) -> std::result::Result<Dense, String> {
    let mut values = bytes
        .chunks_exact(size_of::<f32>())
        .map(|chunk| f32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
    let mut dense = Dense::default();
    for section in meta["dense"].as_array().into_iter().flatten() {
        let name = section["name"].as_str().unwrap_or_default().to_owned();
        let count = section["count"].as_u64().unwrap_or(0) as usize;
        let part: Vec<f32> = values.by_ref().take(count).collect();
        if part.len() != count {
            return Err(format!("{DENSE_FILE} ends inside section '{name}'"));
        }
        dense.sections.push((name, part));
    }
    Ok(dense)
}
