//! `stepwell store repair`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use stepwell_base::counted;
use stepwell_disk::{Disk, FileDisk, Lock};
use stepwell_engine::Checkpoint;
use stepwell_ssd::{Salvaged, StoreOptions};

use super::check::{DAMAGES_SHOWN, faults};
use super::directories::{self, Named, PARTIAL, REPAIR_LOCK, leases, name, named, open, repairing};
use crate::failure::Failure;
use crate::say::{self, Page, put, tell};

/// Salvages the stores in the directories into new ones.
pub(super) fn run(directories: &[PathBuf], into: &Path, json: bool) -> Result<(), Failure> {
    let Named { checkpoint, stores } = named(directories).map_err(Failure::Usage)?;
    let _leases = leases(&stores)?;
    refuse_inside(directories, into).map_err(Failure::Usage)?;
    refuse_file(into).map_err(Failure::Usage)?;
    if stores.is_empty() {
        return Err(Failure::Usage(format!("{} holds no rows", directories[0].display())));
    }
    let (mut lost, mut all) = (0, Vec::new());
    let several = stores.len() > 1 || checkpoint.is_some() || is_below(directories, &stores);
    for store in stores {
        let target = match store[0].file_name() {
            Some(name) if several => into.join(name),
            _ => into.to_owned(),
        };
        let salvaged = salvage(&store, &target)?;
        // Errors in printing are ignored, because the purpose is the new store.
        lost += u64::from(!salvaged.is_whole());
        if json {
            let whole = salvaged.is_whole();
            let (from, to) = (say::paths(&store), say::path(&target));
            all.push(json!({ "from": from, "to": to, "whole": whole, "salvaged": salvaged }));
        } else {
            tell!("{}", show_salvaged(&store, &target, &salvaged).text().trim_end());
        }
    }
    if json {
        say::json(&all)?;
    }
    // Only rows are salvaged, and a checkpoint may have lost more.
    let faults = checkpoint.map(|path| faults(&Checkpoint::open(&path))).unwrap_or_default();
    if !faults.is_empty() {
        let why = format!("only rows are salvaged: {}", faults.join("; "));
        return Err(Failure::Damage(why));
    }
    match lost {
        0 => Ok(()),
        count => {
            let stores = counted(count, "store");
            let why = format!("{stores} could not be salvaged in full, see above");
            Err(Failure::Damage(why))
        }
    }
}

/// Whether the stores are below the named directories.
fn is_below(directories: &[PathBuf], stores: &[Vec<PathBuf>]) -> bool {
    stores.iter().flatten().any(|store| !directories.contains(store))
}

/// Refuses to salvage into a directory that is being salvaged.
fn refuse_inside(directories: &[PathBuf], into: &Path) -> Result<(), String> {
    let nearest = into.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        path.canonicalize().ok()
    });
    let real = directories.iter().filter_map(|path| path.canonicalize().ok());
    match real.into_iter().find(|of| nearest.as_ref().is_some_and(|near| near.starts_with(of))) {
        Some(of) => Err(format!(
            "{} is in {}, which is to be salvaged: name another place",
            into.display(),
            of.display()
        )),
        None => Ok(()),
    }
}

/// Refuses a path that is a file or below one.
fn refuse_file(into: &Path) -> Result<(), String> {
    match into.ancestors().find(|path| path.exists()) {
        Some(path) if !path.is_dir() => {
            Err(format!("{} is not a directory: --out names a new directory", path.display()))
        }
        _ => Ok(()),
    }
}

/// Salvages a store into `target`, which appears atomically: a failure leaves nothing that could be
/// taken for the complete store.
fn salvage(store: &[PathBuf], target: &Path) -> Result<Salvaged, Failure> {
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if fs::read_dir(target).is_ok_and(|mut listed| listed.next().is_some()) {
        return Err(format!("{} is not empty: name a new directory", target.display()).into());
    }
    let mut partial = target.as_os_str().to_owned();
    partial.push(PARTIAL);
    let partial = PathBuf::from(partial);
    let above = target.parent().filter(|above| !above.exists());
    let (disk, lock) = begin(&partial)?;
    let into = || -> Result<Salvaged, Failure> {
        let options = |table, row_bytes| StoreOptions {
            index_bytes_max: u64::MAX,
            ..StoreOptions::new(table, row_bytes)
        };
        let salvaged = stepwell_ssd::repair(&open(store)?, Arc::new(disk), options);
        let salvaged = salvaged?;
        fs::rename(&partial, target).map_err(|error| at(target, error))?;
        fs::remove_file(target.join(REPAIR_LOCK)).map_err(|error| at(target, error))?;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = FileDisk::open(parent.unwrap_or(Path::new(".")));
        parent.and_then(|parent| parent.sync_directory())?;
        Ok(salvaged)
    };
    let outcome = into().inspect_err(|_| {
        // A parent that was created for it is removed only if it is empty.
        let _ = fs::remove_dir_all(&partial);
        let _ = above.map(fs::remove_dir);
    });
    drop(lock);
    outcome
}

/// Creates the directory that a repair writes into, and locks it for the time of the repair.
fn begin(partial: &Path) -> Result<(FileDisk, Box<dyn Lock>), String> {
    let mut there = fs::read_dir(partial).into_iter().flatten().flatten();
    if there.any(|entry| entry.file_name() != REPAIR_LOCK) {
        return Err(directories::partial(partial));
    }
    let said = |error: stepwell_disk::Error| error.to_string();
    let disk = FileDisk::create(partial).map_err(said)?;
    let Some(lock) = disk.lock(REPAIR_LOCK).map_err(said)? else {
        return Err(repairing(partial));
    };
    // Another repair may have written there and ended before this one got the lock.
    let found = disk.entries().map_err(said)?;
    if found.iter().any(|(name, _)| name != REPAIR_LOCK) {
        drop(lock);
        return Err(directories::partial(partial));
    }
    Ok((disk, lock))
}

fn show_salvaged(store: &[PathBuf], target: &Path, salvaged: &Salvaged) -> Page {
    let mut page = Page::default();
    put!(
        page,
        "{}: {} salvaged into {}, {} lost on {}",
        name(store),
        counted(salvaged.rows, "row"),
        target.display(),
        salvaged.rows_lost,
        counted(salvaged.pages_damaged, "damaged page")
    );
    if salvaged.rows_named > salvaged.rows {
        let (named, lost) = (salvaged.rows_named, salvaged.rows_named - salvaged.rows);
        put!(page, "  the manifest has {named} rows: at least {lost} are lost in all");
    }
    for key in salvaged.keys_lost.iter().take(DAMAGES_SHOWN) {
        put!(page, "  lost: key {:016x}", key.0);
    }
    if salvaged.pages_unknown > 0 {
        put!(
            page,
            "  keys unknown on {}: older versions of their rows may have been salvaged instead",
            counted(salvaged.pages_unknown, "damaged page")
        );
    }
    if salvaged.manifest_lost {
        put!(
            page,
            "  the manifest was damaged or missing: all segments found were taken, even those of \
             no commit"
        );
    }
    if salvaged.segments_unlisted > 0 {
        put!(
            page,
            "  without a whole footer: {}: rows missing at the end are not counted, and deleted \
             rows may be back",
            counted(salvaged.segments_unlisted, "segment")
        );
    }
    if salvaged.segments_lost > 0 {
        put!(
            page,
            "  missing: {}: older versions of the rows may have been salvaged",
            counted(salvaged.segments_lost, "segment")
        );
    }
    page
}
