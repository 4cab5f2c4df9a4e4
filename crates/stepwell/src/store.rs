//! `stepwell store`: checking stores and salvaging what is left of them.

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

/// Files of which a checkpoint has at least one, where not all are lost.
const OF_CHECKPOINTS: [&str; 3] = ["checkpoint.json", "dense.bin", "CHECKSUMS"];
/// Keys of a damaged page that are printed at most.
const KEYS_SHOWN: usize = 4;
/// What follows the name of a directory that a repair has not finished.
const PARTIAL: &str = ".partial";
/// The file in it that stands for the lock of the repair while it goes on.
const REPAIR_LOCK: &str = "repair.lock";
/// Damages that are printed at most; the JSON has all.
const DAMAGES_SHOWN: usize = 50;

/// Checks or repairs stores.
pub(crate) fn run(args: &StoreArgs) -> Result<(), Failure> {
    match &args.job {
        StoreJob::Check { directories, json } => check(directories, *json),
        StoreJob::Purge { directories, json } => purge::run(directories, *json),
        StoreJob::Repair { directories, into, json } => repair::run(directories, into, *json),
    }
}

/// What the directories hold.
struct Named {
    /// The only one, where it is a checkpoint.
    checkpoint: Option<PathBuf>,
    /// Directories of each store.
    stores: Vec<Vec<PathBuf>>,
}

/// The stores that the directories hold: one over all of them, or, where the only one has no
/// manifest, those in the directories below it, as a checkpoint has them, or a run, each rank of it
/// in a directory of its own.
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
    // A checkpoint's tables count even where nothing is left of them.
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

/// Whether there are stores in the directories below; segments that were set aside are none.
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

/// Why the directory of a repair that has not finished is no store.
fn partial(path: &Path) -> String {
    let lock = FileDisk::open(path).and_then(|disk| disk.lock_shared(REPAIR_LOCK));
    // What is gone by now has its own name.
    if matches!(lock, Ok(None)) || !path.exists() {
        return repairing(path);
    }
    format!("{} is left from an interrupted repair: remove it", path.display())
}

fn repairing(path: &Path) -> String {
    format!("{} is in use: a repair writes there; wait for its end", path.display())
}

fn has_segments(path: &Path) -> bool {
    let listed = fs::read_dir(path).into_iter().flatten().flatten();
    listed.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_segment))
}

/// Keeps the checkpoints that stores are parts of from being removed, also where they are damaged.
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
    let Named { checkpoint, stores } = named(directories)?;
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
            // Whole as the rows may be by themselves, `train` and `eval` refuse other ones.
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
            // The other tables of a checkpoint are looked at all the same.
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

/// What is wrong with a checkpoint beside its rows.
fn faults(opened: &stepwell_engine::Result<Checkpoint>) -> Vec<String> {
    let checkpoint = match opened {
        Ok(checkpoint) => checkpoint,
        Err(error) => return vec![error.to_string()],
    };
    let missing = checkpoint.rows.iter().filter(|rows| !rows.path.is_dir());
    let why = |rows: &Rows| format!("{}, with a table's rows, is missing", rows.path.display());
    missing.map(why).collect()
}

/// A line for each part of a checkpoint that is not rows. What says of one whether it is whole may
/// be the damaged one: so all of them are, or not.
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
        1 => format!("; key {} lies there", shown[0]),
        count => {
            let rest = if count > KEYS_SHOWN { " …" } else { "" };
            format!("; {count} keys lie there: {}{rest}", shown.join(", "))
        }
    };
    put!(page, "  {} at offset {offset}: {what}{keys}", path.display());
}

fn name(store: &[PathBuf]) -> String {
    let names: Vec<String> = store.iter().map(|path| path.display().to_string()).collect();
    names.join(" + ")
}
