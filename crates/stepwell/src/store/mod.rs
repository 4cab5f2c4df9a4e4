//! `stepwell store`: checks, purges and repairs stores.

mod purge;
mod repair;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use stepwell_base::{ByteCount, counted};
use stepwell_disk::{Disk, FileDisk};
use stepwell_engine::{Checkpoint, Lease, Rows, Scratch};
use stepwell_ssd::{Checked, Damage, MANIFEST_NAME, is_segment};

use crate::cli::{StoreArgs, StoreJob};
use crate::failure::Failure;
use crate::say::{self, Page, put};

/// Files of a checkpoint; a damaged one has at least one of them.
const OF_CHECKPOINTS: [&str; 3] = ["checkpoint.json", "dense.bin", "CHECKSUMS"];
/// Most keys of a damaged page that are printed.
const KEYS_SHOWN: usize = 4;
/// End of the name of an unfinished repair's directory.
const PARTIAL: &str = ".partial";
/// File in that directory that is locked during the repair.
const REPAIR_LOCK: &str = "repair.lock";
/// Most damages that are printed; the JSON has all.
const DAMAGES_SHOWN: usize = 50;

/// Checks, purges or repairs stores.
pub(crate) fn run(args: &StoreArgs) -> Result<(), Failure> {
    match &args.job {
        StoreJob::Check { directories, json } => check(directories, *json),
        StoreJob::Purge { directories, json } => purge::run(directories, *json),
        StoreJob::Repair { directories, into, json } => repair::run(directories, into, *json),
    }
}

/// The contents of the named directories.
struct Named {
    /// The only directory, if it is a checkpoint.
    checkpoint: Option<PathBuf>,
    /// Directories of each store.
    stores: Vec<Vec<PathBuf>>,
}

/// The stores in the directories: one store over all of them; or, if the only directory is not a
/// store, the stores in directories below it, as in a checkpoint or in a run, where each rank has
/// its own directory.
fn named(directories: &[PathBuf]) -> Result<Named, String> {
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

/// Refuses directories that are not those of one store.
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
fn partial(path: &Path) -> String {
    let lock = FileDisk::open(path).and_then(|disk| disk.lock_shared(REPAIR_LOCK));
    // If it is gone, the repair has just finished.
    if matches!(lock, Ok(None)) || !path.exists() {
        return repairing(path);
    }
    format!("{} is left from an interrupted repair: remove it", path.display())
}

fn repairing(path: &Path) -> String {
    format!("{} is in use: a repair writes there; wait for that to end", path.display())
}

fn has_segments(path: &Path) -> bool {
    let listed = fs::read_dir(path).into_iter().flatten().flatten();
    listed.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_segment))
}

/// Keeps the checkpoints that stores belong to from being removed, even damaged ones.
fn leases(stores: &[Vec<PathBuf>]) -> Result<Vec<Lease>, String> {
    let leases = stores.iter().flatten().map(|path| Lease::over(path));
    leases.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn open(directories: &[PathBuf]) -> Result<Vec<Arc<dyn Disk>>, String> {
    let open = |path: &PathBuf| FileDisk::open(path).map(|disk| Arc::new(disk) as Arc<dyn Disk>);
    let opened: Result<_, _> = directories.iter().map(open).collect();
    opened.map_err(|error| error.to_string())
}

fn check(directories: &[PathBuf], json: bool) -> Result<(), Failure> {
    let mut said = Ok(());
    let Named { checkpoint, stores } = named(directories).map_err(Failure::Usage)?;
    let _leases = leases(&stores)?;
    let (mut damaged, mut unchecked, mut is_damage) = (0, Vec::new(), false);
    let mut all = Vec::new();
    let mut parts = json!(null);
    if let Some(path) = &checkpoint {
        let opened = Checkpoint::open(path);
        if !json {
            said = said.and(show_parts(path, &opened).say());
        }
        let step = opened.as_ref().ok().map(|checkpoint| checkpoint.step);
        let mut faults = faults(&opened);
        is_damage |= opened.as_ref().map_or_else(|error| error.is_damage(), |_| !faults.is_empty());
        if faults.is_empty() {
            // Rows that are intact but not the saved ones are refused by `train` and `eval`.
            let rows = opened.and_then(|checkpoint| checkpoint.check_rows());
            is_damage |= rows.as_ref().is_err_and(|error| error.is_damage());
            faults.extend(rows.err().map(|error| error.to_string()));
        }
        parts = json!({ "directory": say::path(path), "step": step, "errors": faults });
        unchecked.extend(faults);
    }
    for store in stores {
        let checked =
            open(&store).map_err(Failure::from).and_then(|disks| Ok(stepwell_ssd::check(&disks)?));
        match checked {
            Ok(checked) => {
                damaged += checked.damages.len();
                if !json {
                    said = said.and(show_checked(&store, &checked).say());
                }
                all.push(json!({ "directories": say::paths(&store), "checked": checked }));
            }
            // The other tables of a checkpoint are still checked.
            Err(error) => {
                is_damage |= matches!(error, Failure::Damage(_));
                let error = error.to_string();
                all.push(json!({ "directories": say::paths(&store), "error": error }));
                unchecked.push(error);
            }
        }
    }
    if json {
        said = say::whole(&format!("{:#}\n", json!({ "checkpoint": parts, "stores": all })));
    }
    let places = counted(damaged as u64, "damaged place");
    let mend = "`stepwell store repair DIR --out NEW` salvages the rest";
    match (unchecked.is_empty(), damaged) {
        (true, 0) => said,
        (true, _) => Err(Failure::Damage(format!("{places}; {mend}"))),
        (false, 0) => Err(Failure::of(is_damage, &unchecked.join("; "))),
        (false, _) => Err(Failure::Damage(format!("{}; {places}; {mend}", unchecked.join("; ")))),
    }
}

/// Faults of a checkpoint other than damaged rows.
fn faults(opened: &stepwell_engine::Result<Checkpoint>) -> Vec<String> {
    let checkpoint = match opened {
        Ok(checkpoint) => checkpoint,
        Err(error) => return vec![error.to_string()],
    };
    let missing = checkpoint.rows.iter().filter(|rows| !rows.path.is_dir());
    let why = |rows: &Rows| format!("{}, with a table's rows, is missing", rows.path.display());
    missing.map(why).collect()
}

/// Shows the files of a checkpoint other than rows, as all intact or not: if one is damaged, it may
/// be the one with the checksums.
fn show_parts(path: &Path, opened: &stepwell_engine::Result<Checkpoint>) -> Page {
    let mut page = Page::default();
    let at = |name: &str| path.join(name).display().to_string();
    let [meta, dense, sums] = OF_CHECKPOINTS;
    match opened {
        Ok(checkpoint) => {
            let sections = &checkpoint.dense.sections;
            let values: usize = sections.iter().map(|(_, values)| values.len()).sum();
            put!(page, "{}: step {}: whole", at(meta), checkpoint.step);
            put!(page, "{}: {} sections, {values} values: whole", at(dense), sections.len());
            put!(page, "{}: whole", at(sums));
        }
        Err(error) => put!(page, "{}, {dense}, {sums}: NOT WHOLE\n  {error}", at(meta)),
    }
    page
}

fn show_checked(store: &[PathBuf], checked: &Checked) -> Page {
    let mut page = Page::default();
    put!(
        page,
        "{}: commit {}, {}, {}, {} with stale ones, {}: {}",
        name(store),
        checked.commit,
        counted(checked.segments, "segment"),
        counted(checked.pages, "page"),
        counted(checked.rows, "row"),
        ByteCount(checked.bytes),
        if checked.damages.is_empty() { "whole" } else { "DAMAGED" }
    );
    if checked.aside.files > 0 {
        put!(
            page,
            "  in set-aside, not part of it: {}, {}, which `stepwell store purge` removes",
            counted(checked.aside.files, "file"),
            ByteCount(checked.aside.bytes)
        );
    }
    let shown = checked.damages.iter().take(DAMAGES_SHOWN);
    shown.for_each(|damage| show_damage(&mut page, damage));
    if checked.damages.len() > DAMAGES_SHOWN {
        put!(page, "  and {} more (--json has all)", checked.damages.len() - DAMAGES_SHOWN);
    }
    page
}

fn show_damage(page: &mut Page, damage: &Damage) {
    let Damage { path, offset, what, keys } = damage;
    let shown: Vec<String> =
        keys.iter().take(KEYS_SHOWN).map(|key| format!("{:016x}", key.0)).collect();
    let keys = match keys.len() {
        0 => String::new(),
        1 => format!("; affects key {}", shown[0]),
        count => {
            let rest = if count > KEYS_SHOWN { " …" } else { "" };
            format!("; affects {count} keys: {}{rest}", shown.join(", "))
        }
    };
    put!(page, "  {} at offset {offset}: {what}{keys}", path.display());
}

fn name(store: &[PathBuf]) -> String {
    let names: Vec<String> = store.iter().map(|path| path.display().to_string()).collect();
    names.join(" + ")
}
