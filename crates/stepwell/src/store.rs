//! `stepwell store`: checking stores and salvaging what is left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use stepwell_base::ByteCount;
use stepwell_disk::{Disk, FileDisk};
use stepwell_server::{Checkpoint, Rows};
use stepwell_ssd::{Checked, Damage, MANIFEST_NAME, Salvaged, Store, StoreOptions};

use crate::cli::{StoreArgs, StoreJob};
use crate::failure::Failure;
use crate::say::{self, Page, put, say};

/// Files of which a checkpoint has at least one, where not all are lost.
const OF_CHECKPOINTS: [&str; 3] = ["checkpoint.json", "dense.bin", "CHECKSUMS"];
/// Keys of a damaged page that are printed at most.
const KEYS_SHOWN: usize = 4;
/// What follows the name of a directory that a repair has not finished.
const PARTIAL: &str = ".partial";
/// Damages that are printed at most; the JSON has all.
const DAMAGES_SHOWN: usize = 50;

/// Checks or repairs stores.
pub(crate) fn run(args: &StoreArgs) -> Result<(), Failure> {
    match &args.job {
        StoreJob::Check { directories, json } => check(directories, *json),
        StoreJob::Purge { directories } => purge(directories),
        StoreJob::Repair { directories, into } => repair(directories, into),
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
/// manifest, those in the directories below it, as a checkpoint has them.
fn named(directories: &[PathBuf]) -> Result<Named, String> {
    let mut real = Vec::new();
    for directory in directories {
        if !directory.is_dir() {
            return Err(format!("{} is no directory", directory.display()));
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
    let is_store = |path: &Path| path.join(MANIFEST_NAME).is_file() || has_segments(path);
    if directories.len() > 1 || is_store(&directories[0]) {
        return Ok(Named { checkpoint: None, stores: vec![directories.to_vec()] });
    }
    let home = &directories[0];
    let checkpoint = is_checkpoint(home).then(|| home.clone());
    let listed = fs::read_dir(home).map_err(|error| format!("{}: {error}", home.display()))?;
    let mut below: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
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
            "{} holds no store, nor do the directories in it (no {MANIFEST_NAME}, no segments); of \
             a directory of checkpoints name one of them",
            home.display()
        ));
    }
    Ok(Named { checkpoint, stores: below.into_iter().map(|path| vec![path]).collect() })
}

fn is_checkpoint(path: &Path) -> bool {
    OF_CHECKPOINTS.iter().any(|name| path.join(name).exists())
}

fn is_partial(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(PARTIAL))
}

fn partial(path: &Path) -> String {
    format!("{} is left from a repair that was cut short: remove it", path.display())
}

fn has_segments(path: &Path) -> bool {
    let is_segment = |name: &str| name.starts_with("segment-") && name.ends_with(".rows");
    let listed = fs::read_dir(path).into_iter().flatten().flatten();
    listed.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_segment))
}

fn open(directories: &[PathBuf]) -> Result<Vec<Arc<dyn Disk>>, String> {
    let open = |path: &PathBuf| FileDisk::open(path).map(|disk| Arc::new(disk) as Arc<dyn Disk>);
    let opened: Result<_, _> = directories.iter().map(open).collect();
    opened.map_err(|error| error.to_string())
}

fn check(directories: &[PathBuf], json: bool) -> Result<(), Failure> {
    let mut said = Ok(());
    let Named { checkpoint, stores } = named(directories)?;
    let (mut damaged, mut unchecked) = (0, Vec::new());
    let mut all = Vec::new();
    let mut parts = json!(null);
    if let Some(path) = &checkpoint {
        let opened = Checkpoint::open(path);
        if !json {
            said = said.and(show_parts(path, &opened).say());
        }
        let step = opened.as_ref().ok().map(|checkpoint| checkpoint.step);
        let mut faults = faults(&opened);
        if faults.is_empty() {
            // Whole as the rows may be by themselves, `train` and `eval` refuse other ones.
            let rows = opened.and_then(|checkpoint| checkpoint.check_rows());
            faults.extend(rows.err().map(|error| error.to_string()));
        }
        parts = json!({ "directory": path, "step": step, "errors": faults });
        unchecked.extend(faults);
    }
    for store in stores {
        let checked = open(&store)
            .and_then(|disks| stepwell_ssd::check(&disks).map_err(|error| error.to_string()));
        match checked {
            Ok(checked) => {
                damaged += checked.damages.len();
                if !json {
                    said = said.and(show_checked(&store, &checked).say());
                }
                all.push(json!({ "directories": store, "checked": checked }));
            }
            // The other tables of a checkpoint are looked at all the same.
            Err(error) => {
                all.push(json!({ "directories": store, "error": error }));
                unchecked.push(error);
            }
        }
    }
    if json {
        said = say::whole(&format!("{:#}\n", json!({ "checkpoint": parts, "stores": all })));
    }
    let mend = "`stepwell store repair DIR --into NEW` salvages the rest";
    match (unchecked.is_empty(), damaged) {
        (true, 0) => said,
        (true, count) => Err(format!("{count} damaged places; {mend}").into()),
        (false, 0) => Err(unchecked.join("; ").into()),
        (false, count) => {
            Err(format!("{}; {count} damaged places; {mend}", unchecked.join("; ")).into())
        }
    }
}

/// What is wrong with a checkpoint beside its rows.
fn faults(opened: &stepwell_server::Result<Checkpoint>) -> Vec<String> {
    let checkpoint = match opened {
        Ok(checkpoint) => checkpoint,
        Err(error) => return vec![error.to_string()],
    };
    let missing = checkpoint.rows.iter().filter(|rows| !rows.path.is_dir());
    let why = |rows: &Rows| format!("{} is missing, a table's rows", rows.path.display());
    missing.map(why).collect()
}

/// A line for each part of a checkpoint that is not rows. What says of one whether it is whole may
/// be the damaged one: so all of them are, or not.
fn show_parts(path: &Path, opened: &stepwell_server::Result<Checkpoint>) -> Page {
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

/// Removes what was set aside.
fn purge(directories: &[PathBuf]) -> Result<(), Failure> {
    let Named { stores, .. } = named(directories)?;
    let mut said = Ok(());
    for store in stores {
        let purged = open(&store)
            .and_then(|disks| Store::purge(&disks).map_err(|error| error.to_string()))?;
        let mut page = Page::default();
        put!(page, "{}: {} files removed, {}", name(&store), purged.files, ByteCount(purged.bytes));
        for other in &purged.others {
            put!(page, "  set-aside/{other} is none of a store, and stays");
        }
        said = said.and(page.say());
    }
    said
}

fn show_checked(store: &[PathBuf], checked: &Checked) -> Page {
    let mut page = Page::default();
    put!(
        page,
        "{}: commit {}, {} segments, {} pages, {} rows with stale ones, {}: {}",
        name(store),
        checked.commit,
        checked.segments,
        checked.pages,
        checked.rows,
        ByteCount(checked.bytes),
        if checked.damages.is_empty() { "whole" } else { "DAMAGED" }
    );
    if checked.aside.files > 0 {
        put!(
            page,
            "  {} files, {}, lie in set-aside, which are no part of it: `stepwell store purge` \
             removes them",
            checked.aside.files,
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
        count => format!("; {count} keys lie there: {} …", shown.join(", ")),
    };
    put!(page, "  {} at offset {offset}: {what}{keys}", path.display());
}

fn name(store: &[PathBuf]) -> String {
    let names: Vec<String> = store.iter().map(|path| path.display().to_string()).collect();
    names.join(" + ")
}

fn repair(directories: &[PathBuf], into: &Path) -> Result<(), Failure> {
    let Named { checkpoint, stores } = named(directories)?;
    refuse_inside(directories, into)?;
    if stores.is_empty() {
        return Err(format!("{} holds no rows", directories[0].display()).into());
    }
    let mut lost = 0;
    let several = stores.len() > 1 || checkpoint.is_some() || is_below(directories, &stores);
    for store in stores {
        let target = match store[0].file_name() {
            Some(name) if several => into.join(name),
            _ => into.to_owned(),
        };
        let salvaged = salvage(&store, &target)?;
        // The work is the new store: it goes on, whoever listens.
        say!("{}", show_salvaged(&store, &target, &salvaged).text().trim_end());
        lost += u64::from(!salvaged.is_whole());
    }
    // Rows alone are salvaged: a checkpoint may have lost more.
    let faults = checkpoint.map(|path| faults(&Checkpoint::open(&path))).unwrap_or_default();
    if !faults.is_empty() {
        return Err(format!("rows alone are salvaged: {}", faults.join("; ")).into());
    }
    match lost {
        0 => Ok(()),
        count => {
            Err(format!("of {count} stores not everything could be salvaged, see above").into())
        }
    }
}

/// Whether the stores lie below the directories that were named.
fn is_below(directories: &[PathBuf], stores: &[Vec<PathBuf>]) -> bool {
    stores.iter().flatten().any(|store| !directories.contains(store))
}

/// Refuses to salvage into what is being salvaged.
fn refuse_inside(directories: &[PathBuf], into: &Path) -> Result<(), String> {
    let nearest = into.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        path.canonicalize().ok()
    });
    let real = directories.iter().filter_map(|path| path.canonicalize().ok());
    match real.into_iter().find(|of| nearest.as_ref().is_some_and(|near| near.starts_with(of))) {
        Some(of) => Err(format!(
            "{} lies in {}, which is to be salvaged: name a place elsewhere",
            into.display(),
            of.display()
        )),
        None => Ok(()),
    }
}

/// Salvages a store into `target`, which comes to be at one stroke: of a run that fails nothing
/// stays that could be taken for the whole.
fn salvage(store: &[PathBuf], target: &Path) -> Result<Salvaged, String> {
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if fs::read_dir(target).is_ok_and(|mut listed| listed.next().is_some()) {
        return Err(format!("{} is not empty: name a new directory", target.display()));
    }
    let mut partial = target.as_os_str().to_owned();
    partial.push(PARTIAL);
    let partial = PathBuf::from(partial);
    if partial.exists() {
        return Err(self::partial(&partial));
    }
    let into = || -> Result<Salvaged, String> {
        let disk = FileDisk::create(&partial).map_err(|error| error.to_string())?;
        let options = |table, row_bytes| StoreOptions {
            index_bytes_max: u64::MAX,
            ..StoreOptions::new(table, row_bytes)
        };
        let salvaged = stepwell_ssd::repair(&open(store)?, Arc::new(disk), options);
        let salvaged = salvaged.map_err(|error| error.to_string())?;
        fs::rename(&partial, target).map_err(|error| at(target, error))?;
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = FileDisk::open(parent.unwrap_or(Path::new(".")));
        parent.and_then(|parent| parent.sync_directory()).map_err(|error| error.to_string())?;
        Ok(salvaged)
    };
    let above = target.parent().filter(|above| !above.exists());
    into().inspect_err(|_| {
        // Whatever else lies there stays.
        let _ = fs::remove_dir_all(&partial);
        let _ = above.map(fs::remove_dir);
    })
}

fn show_salvaged(store: &[PathBuf], target: &Path, salvaged: &Salvaged) -> Page {
    let mut page = Page::default();
    put!(
        page,
        "{}: {} rows salvaged into {}, {} lost on {} damaged pages",
        name(store),
        salvaged.rows,
        target.display(),
        salvaged.rows_lost,
        salvaged.pages_damaged
    );
    if salvaged.rows_named > salvaged.rows {
        let (named, lost) = (salvaged.rows_named, salvaged.rows_named - salvaged.rows);
        put!(page, "  the manifest says {named} rows: at least {lost} are lost in all");
    }
    for key in salvaged.keys_lost.iter().take(DAMAGES_SHOWN) {
        put!(page, "  lost: key {:016x}", key.0);
    }
    if salvaged.pages_unknown > 0 {
        put!(
            page,
            "  of {} damaged pages nothing tells the keys: older versions of their rows may have \
             been salvaged in their place",
            salvaged.pages_unknown
        );
    }
    if salvaged.manifest_lost {
        put!(
            page,
            "  the manifest was damaged or missing: all segments that lie there were taken, those \
             of no commit too"
        );
    }
    if salvaged.segments_unlisted > 0 {
        put!(
            page,
            "  {} segments have no whole footer: rows missing at their ends are not counted, and \
             rows deleted by them may be back",
            salvaged.segments_unlisted
        );
    }
    if salvaged.segments_lost > 0 {
        put!(
            page,
            "  {} segments are missing: older versions of their rows may have been salvaged",
            salvaged.segments_lost
        );
    }
    page
}
