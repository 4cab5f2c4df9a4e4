//! `stepwell store purge`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use stepwell_base::{ByteCount, counted};
use stepwell_disk::FileDisk;
use stepwell_engine::{Scratch, SetAside, is_set_aside, list};
use stepwell_ssd::{Aside, LOCK_NAME, Store};

use super::directories::{name, named, open};
use crate::failure::Failure;
use crate::say::{self, Page, put};

/// Removes what was set aside in the stores of the directories. Stores and checkpoints that were
/// set aside as a whole are removed completely.
pub(super) fn run(directories: &[PathBuf], json: bool) -> Result<(), Failure> {
    let (kept, directories): (Vec<PathBuf>, Vec<PathBuf>) =
        directories.iter().cloned().partition(|path| holds_checkpoints(path));
    let removed = kept.iter().filter(|path| is_aside(&path.join("step")));
    let removed = removed.map(|path| purge_checkpoints(path));
    let checkpoints = removed.collect::<Result<Vec<_>, _>>()?;
    let stores = match directories[..] {
        // Only directories of checkpoints were named.
        [] => Vec::new(),
        _ => named(&directories).map_err(Failure::Usage)?.stores,
    };
    let whole = stores.iter().flatten().all(|store| is_aside(store));
    let (mut said, mut all, mut errors) = (Ok(()), Vec::new(), Vec::new());
    for store in stores {
        // The other tables of a run are still purged.
        match if whole { purge_whole(&store) } else { purge(&store) } {
            Ok(removed) => {
                if !json {
                    said = said.and(show(&store, &removed).say());
                }
                all.push(json!({ "directories": say::paths(&store), "removed": removed }));
            }
            Err(error) => {
                all.push(json!({ "directories": say::paths(&store), "error": error }));
                errors.push(error);
            }
        }
    }
    let aside = set_aside(&[directories, kept].concat());
    let is_nothing = all.is_empty() && errors.is_empty() && checkpoints.is_empty();
    if json {
        let all = json!({ "stores": all, "checkpoints": checkpoints, "set_aside": aside });
        said = say::whole(&format!("{all:#}\n"));
    } else {
        said = said.and(show_checkpoints(&checkpoints).say()).and(show_aside(&aside).say());
        if is_nothing && aside.is_empty() {
            said = said.and(say::whole("nothing was set aside there\n"));
        }
    }
    if errors.is_empty() { said } else { Err(errors.join("; ").into()) }
}

/// Whether a directory has checkpoints or was made for checkpoints that were set aside.
fn holds_checkpoints(path: &Path) -> bool {
    let Ok(disk) = FileDisk::open(path) else { return false };
    let has_some = || list(&disk).is_ok_and(|found| !found.is_empty());
    is_set_aside(&disk).is_ok_and(|is| is) || has_some()
}

/// Checkpoints that were removed from a directory where they had been set aside.
#[derive(Serialize)]
struct Removed {
    directory: String,
    files: u64,
    bytes: u64,
    /// Entries that no run made, which are kept.
    others: Vec<String>,
}

fn purge_checkpoints(path: &Path) -> Result<Removed, Failure> {
    let count = || SetAside::count(path);
    let (before, disk) = (count(), FileDisk::open(path)?);
    let others = stepwell_engine::purge(&disk)?;
    let after = count();
    if others.is_empty() {
        // Fails if something was added in the meantime, which is kept.
        let _ = fs::remove_dir(path);
    }
    let (directory, others) = (say::path(path), say::paths(&others));
    let (files, bytes) = (before.files - after.files, before.bytes - after.bytes);
    Ok(Removed { directory, files, bytes, others })
}

fn show_checkpoints(removed: &[Removed]) -> Page {
    let mut page = Page::default();
    for Removed { directory, files, bytes, others } in removed {
        let files = counted(*files, "file");
        put!(page, "{directory}: {files} of checkpoints removed, {}", ByteCount(*bytes));
        for other in others {
            put!(page, "  {other} was not made there by a run, and is kept");
        }
    }
    page
}

fn purge(store: &[PathBuf]) -> Result<Aside, String> {
    Store::purge(&open(store)?).map_err(|error| error.to_string())
}

/// Whether a store is in a directory `set-aside-N`, where `train` put it.
fn is_aside(store: &Path) -> bool {
    let real = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let above = real.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let number = above.and_then(|name| name.strip_prefix("set-aside-"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Removes a store that was set aside as a whole, and its directory if nothing else is in it.
fn purge_whole(store: &[PathBuf]) -> Result<Aside, String> {
    let mut removed = Aside::default();
    for (path, disk) in store.iter().zip(open(store)?) {
        Store::set_aside(&*disk).map_err(|error| error.to_string())?;
        let disks = [Arc::clone(&disk)];
        if Store::aside(&disks).is_ok_and(|aside| aside.files > 0) {
            let of_one = Store::purge(&disks).map_err(|error| error.to_string())?;
            removed.files += of_one.files;
            removed.bytes += of_one.bytes;
            removed.others.extend(of_one.others);
        }
        disk.remove(LOCK_NAME).map_err(|error| error.to_string())?;
        // Other files are kept, and so are the directories with them.
        let emptied =
            [Some(path.join("set-aside")), Some(path.clone()), path.parent().map(Path::to_owned)];
        emptied.into_iter().flatten().for_each(|path| drop(fs::remove_dir(path)));
    }
    Ok(removed)
}

/// Directories that `train` set aside in `directories`; each is removed only if it is named itself.
fn set_aside(directories: &[PathBuf]) -> Vec<SetAside> {
    let mut found: Vec<SetAside> =
        directories.iter().flat_map(|path| Scratch::aside_in(path)).collect();
    found.retain(|aside| {
        let path = PathBuf::from(&aside.directory);
        holds_checkpoints(&path) || named(&[path]).is_ok()
    });
    found
}

fn show_aside(aside: &[SetAside]) -> Page {
    let mut page = Page::default();
    for SetAside { directory, files, bytes } in aside {
        put!(
            page,
            "{directory}: {}, {}, set aside by `train`: `stepwell store purge {directory}` \
             removes it",
            counted(*files, "file"),
            ByteCount(*bytes)
        );
    }
    page
}

fn show(store: &[PathBuf], removed: &Aside) -> Page {
    let mut page = Page::default();
    let files = counted(removed.files, "file");
    put!(page, "{}: {files} removed, {}", name(store), ByteCount(removed.bytes));
    for other in &removed.others {
        put!(page, "  set-aside/{other} is not part of a store, and is kept");
    }
    page
}
