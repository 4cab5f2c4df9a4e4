//! `stepwell store check`.

use std::path::{Path, PathBuf};

use serde_json::json;
use stepwell_base::{ByteCount, counted};
use stepwell_engine::{Checkpoint, Rows};
use stepwell_ssd::{Checked, Damage};

use super::directories::{Named, OF_CHECKPOINTS, leases, name, named, open};
use crate::failure::Failure;
use crate::say::{self, Page, put};

/// Most keys of a damaged page that are printed.
const KEYS_SHOWN: usize = 4;
/// Most damages that are printed; the JSON has all.
pub(super) const DAMAGES_SHOWN: usize = 50;

/// Reads the stores in the directories, and prints what is damaged.
pub(super) fn run(directories: &[PathBuf], json: bool) -> Result<(), Failure> {
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
pub(super) fn faults(opened: &stepwell_engine::Result<Checkpoint>) -> Vec<String> {
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
