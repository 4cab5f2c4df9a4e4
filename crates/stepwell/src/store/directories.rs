//! The directories that a command names, and the stores in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{Lease, Scratch};
use stepwell_ssd::{MANIFEST_NAME, is_segment};

/// Files of a checkpoint; a damaged one has at least one of them.
pub(super) const OF_CHECKPOINTS: [&str; 3] = ["checkpoint.json", "dense.bin", "CHECKSUMS"];
/// End of the name of an unfinished repair's directory.
pub(super) const PARTIAL: &str = ".partial";
/// File in an unfinished repair's directory that is locked during the repair.
pub(super) const REPAIR_LOCK: &str = "repair.lock";

/// The contents of the named directories.
pub(super) struct Named {
    /// The only directory, if it is a checkpoint.
    pub(super) checkpoint: Option<PathBuf>,
    /// Directories of each store.
    pub(super) stores: Vec<Vec<PathBuf>>,
}

/// The stores in the directories: one store over all of them; or, if the only directory is not a
/// store, the stores in directories below it, as in a checkpoint or in a run, where each rank has
/// its own directory.
pub(super) fn named(directories: &[PathBuf]) -> Result<Named, String> {
    let mut real = Vec::new();
    for directory in directories {
        if !directory.is_dir() {
            return Err(format!("{} is not a directory", directory.display()));
        }
        let path = directory
            .canonicalize()
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        if is_partial(directory) {
            return Err(partial(directory));
        }
        if real.contains(&path) {
            let path = directory.display();
            return Err(format!("{path} is named twice: name each directory once"));
        }
        real.push(path);
    }
    refuse_several(directories)?;
    if directories.len() > 1 || is_store(&directories[0]) {
        return Ok(Named { checkpoint: None, stores: vec![directories.to_vec()] });
    }
    let home = &directories[0];
    let checkpoint = is_checkpoint(home).then(|| home.clone());
    let listed = fs::read_dir(home).map_err(|error| format!("{}: {error}", home.display()))?;
    let of_ranks = Scratch::ranks_in(home).into_iter().flat_map(fs::read_dir).flatten();
    let all = listed.chain(of_ranks).flatten();
    let mut below: Vec<PathBuf> = all.map(|entry| entry.path()).collect();
    // A checkpoint's tables count even if their stores are lost.
    let is_table = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        path.is_dir() && name.is_some_and(|name| name.starts_with("rows-"))
    };
    below.retain(|path| is_store(path) || is_table(path));
    below.sort();
    if let Some(path) = below.iter().find(|path| is_partial(path)) {
        return Err(partial(path));
    }
    if below.is_empty() && checkpoint.is_none() {
        return Err(format!(
            "{} holds no store, nor do the directories in it (no {MANIFEST_NAME}, no segments); if \
             it holds checkpoints, name one of them",
            home.display()
        ));
    }
    Ok(Named { checkpoint, stores: below.into_iter().map(|path| vec![path]).collect() })
}

/// Refuses directories that don't form a single store.
fn refuse_several(directories: &[PathBuf]) -> Result<(), String> {
    for (number, path) in directories.iter().enumerate().filter(|_| directories.len() > 1) {
        let why = if number > 0 && path.join(MANIFEST_NAME).is_file() {
            "has a manifest, which only the first directory of a store has"
        } else if !is_store(path) && holds_stores(path) {
            "holds other stores"
        } else {
            continue;
        };
        return Err(format!(
            "{} {why}: name the directories of one store at a time",
            path.display()
        ));
    }
    Ok(())
}

fn is_store(path: &Path) -> bool {
    path.join(MANIFEST_NAME).is_file() || has_segments(path)
}

/// Whether there are stores in the directories below, not counting segments that were set aside.
fn holds_stores(path: &Path) -> bool {
    let listed = fs::read_dir(path).into_iter().flatten().flatten();
    listed.into_iter().any(|entry| entry.file_name() != "set-aside" && is_store(&entry.path()))
}

fn is_checkpoint(path: &Path) -> bool {
    OF_CHECKPOINTS.iter().any(|name| path.join(name).exists())
}

fn is_partial(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(PARTIAL))
}

/// Why the directory of an unfinished repair cannot be used.
pub(super) fn partial(path: &Path) -> String {
    let lock = FileDisk::open(path).and_then(|disk| disk.lock_shared(REPAIR_LOCK));
    // If it is gone, the repair has just finished.
    if matches!(lock, Ok(None)) || !path.exists() {
        return repairing(path);
    }
    format!("{} is left from an interrupted repair: remove it", path.display())
}

/// Why a directory that a repair writes into cannot be used.
pub(super) fn repairing(path: &Path) -> String {
    format!("{} is in use: a repair writes there; wait for that to end", path.display())
}

fn has_segments(path: &Path) -> bool {
    let listed = fs::read_dir(path).into_iter().flatten().flatten();
    listed.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_segment))
}

/// Keeps the checkpoints that stores belong to from being removed, even damaged ones.
pub(super) fn leases(stores: &[Vec<PathBuf>]) -> Result<Vec<Lease>, String> {
    let leases = stores.iter().flatten().map(|path| Lease::over(path));
    leases.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Opens the directories of a store.
pub(super) fn open(directories: &[PathBuf]) -> Result<Vec<Arc<dyn Disk>>, String> {
    let open = |path: &PathBuf| FileDisk::open(path).map(|disk| Arc::new(disk) as Arc<dyn Disk>);
    let opened: Result<_, _> = directories.iter().map(open).collect();
    opened.map_err(|error| error.to_string())
}

/// The directories of a store, for messages.
pub(super) fn name(store: &[PathBuf]) -> String {
    let names: Vec<String> = store.iter().map(|path| path.display().to_string()).collect();
    names.join(" + ")
}
