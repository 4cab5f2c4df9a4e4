//! `stepwell store repair`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_disk::{Disk, FileDisk};
use stepwell_server::Checkpoint;
use stepwell_ssd::{Salvaged, StoreOptions};

use super::{DAMAGES_SHOWN, Named, PARTIAL, faults, leases, name, named, open};
use crate::failure::Failure;
use crate::say::{Page, put, say};

/// Salvages the stores that the directories hold into new ones.
pub(super) fn run(directories: &[PathBuf], into: &Path) -> Result<(), Failure> {
    let Named { checkpoint, stores } = named(directories)?;
    let _leases = leases(&stores)?;
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
        return Err(super::partial(&partial));
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
