//! Files that no manifest names: set aside, counted, and removed on request.

use std::io::ErrorKind;
use std::sync::Arc;

use stepwell_disk::{Disk, EntryKind};
use tracing::info;

use super::directories::{home, refuse_twice};
use crate::identity::StoreId;
use crate::manifest::MANIFEST_NAME;
use crate::segment::entry::SegmentEntry;
use crate::segment::reader::header_of;
use crate::stats::Aside;
use crate::store::core::Store;
use crate::{Error, Result, lock, segment};

/// Directory for files that no manifest names.
const SET_ASIDE: &str = "set-aside";

impl Store {
    /// Moves a store's files into the directory `set-aside`, so that another store can be made in
    /// its place; removes nothing. Returns the number of files.
    ///
    /// # Errors
    /// If the store is open, or the disk fails; files moved before that stay moved.
    pub fn set_aside(disk: &dyn Disk) -> Result<usize> {
        let _lock = lock::alone_in(disk)?;
        let mut moved = 0;
        if disk.exists(MANIFEST_NAME)? {
            // Moved first, so that a partly moved store does not count as one.
            move_aside(disk, MANIFEST_NAME)?;
            moved += 1;
        }
        Ok(moved + set_aside_of(disk, &[], &[])?)
    }

    /// Counts the files set aside in the directories of a store.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn aside(disks: &[Arc<dyn Disk>]) -> Result<Aside> {
        let mut found = Aside::default();
        for disk in disks {
            each_aside(&**disk, &mut found, &mut |_, _| Ok(()))?;
        }
        Ok(found)
    }

    /// Removes segments and manifests that were set aside in the directories of a store, and no
    /// other file. Returns counts of the removed files, and the names of the others.
    ///
    /// # Errors
    /// If there is neither a store nor a complete one that was set aside; if it is open, a
    /// `set-aside` directory is a link, or the disk fails: files removed before that are gone.
    pub fn purge(disks: &[Arc<dyn Disk>]) -> Result<Aside> {
        refuse_twice(disks)?;
        refuse_halves(disks)?;
        refuse_links(disks)?;
        // A snapshot has no lock file, and keeps none.
        let had_lock = |disk: &Arc<dyn Disk>| Ok(disk.exists(lock::LOCK_NAME)?);
        let had: Vec<bool> = disks.iter().map(had_lock).collect::<Result<_>>()?;
        let locks = lock::alone(disks)?;
        let mut removed = Aside::default();
        for disk in disks {
            let before = removed.files;
            each_aside(&**disk, &mut removed, &mut |aside, name| Ok(aside.remove(name)?))?;
            if removed.files > before {
                disk.directory(&disk.path().join(SET_ASIDE))?.sync_directory()?;
            }
        }
        drop(locks);
        for (disk, _) in disks.iter().zip(had).filter(|(_, had)| !had) {
            lock::remove(&**disk)?;
        }
        Ok(removed)
    }
}

/// Refuses directories without a store: files set aside may be all that is left of one, unless it
/// was set aside completely.
fn refuse_halves(disks: &[Arc<dyn Disk>]) -> Result<()> {
    let home = home(disks)?;
    if home.exists(MANIFEST_NAME)? {
        return Ok(());
    }
    let mut is_left = Store::aside(disks)? == Aside::default();
    for disk in disks {
        is_left |= disk.list()?.iter().any(|name| segment::number(name).is_some());
    }
    if is_left { Err(Error::Missing { path: home.path().to_owned() }) } else { Ok(()) }
}

/// Refuses a `set-aside` that is a link: it may lead to a store.
fn refuse_links(disks: &[Arc<dyn Disk>]) -> Result<()> {
    for disk in disks {
        let mut entries = disk.entries()?.into_iter();
        if entries.any(|(name, kind)| name == SET_ASIDE && kind == EntryKind::Other) {
            let path = disk.path().join(SET_ASIDE);
            return Err(Error::Options(format!(
                "{} is a link, and its target is not removed: put a directory there",
                path.display()
            )));
        }
    }
    Ok(())
}

/// The `set-aside` directory in `disk`, if there is one.
fn aside_of(disk: &dyn Disk) -> Result<Option<Arc<dyn Disk>>> {
    match disk.directory(&disk.path().join(SET_ASIDE)) {
        Ok(aside) => Ok(Some(aside)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Counts the files in the `set-aside` directory of `disk`, and calls `each` for every file that a
/// store put there.
fn each_aside(
    disk: &dyn Disk,
    found: &mut Aside,
    each: &mut dyn FnMut(&dyn Disk, &str) -> Result<()>,
) -> Result<()> {
    let Some(aside) = aside_of(disk)? else { return Ok(()) };
    for (name, kind) in aside.entries()? {
        if kind != EntryKind::File || !is_set_aside(&name) {
            found.others.push(name);
            continue;
        }
        // An unreadable file still counts.
        let bytes = aside.open(&name).and_then(|file| file.len()).unwrap_or(0);
        each(&*aside, &name)?;
        found.files += 1;
        found.bytes += bytes;
    }
    Ok(())
}

/// Whether [`move_aside`] may have given this name: a segment's or manifest's, with or without a
/// number.
fn is_set_aside(name: &str) -> bool {
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    let base = name.rsplit_once('.').filter(|(_, end)| is_number(end)).map(|(base, _)| base);
    let base = base.unwrap_or(name);
    base == MANIFEST_NAME || segment::number(base).is_some()
}

/// A number above those of all segments in the directories or set aside there: if a number were
/// reused, a page of the old file could pass for one of the new.
pub(super) fn number_free(disks: &[Arc<dyn Disk>]) -> Result<u64> {
    let mut highest = 0;
    for disk in disks {
        let aside = aside_of(&**disk)?.map_or(Ok(Vec::new()), |aside| aside.list())?;
        let numbers = disk.list()?.into_iter().chain(aside);
        let numbers = numbers.filter_map(|name| segment::number_of_any(&name));
        highest = numbers.map(u64::from).fold(highest, u64::max);
    }
    Ok(highest + 1)
}

pub(super) fn set_aside_unnamed(
    disks: &[Arc<dyn Disk>],
    named: &[SegmentEntry],
    ours: &[StoreId],
) -> Result<()> {
    for disk in disks {
        let segments = set_aside_of(&**disk, named, ours)?;
        if segments > 0 {
            let directory = disk.path().display();
            info!(%directory, segments, "segments that no commit names are set aside");
        }
    }
    Ok(())
}

/// Sets aside unnamed files with names of segments; returns their number. If `ours` is not empty,
/// segments of other stores stay.
fn set_aside_of(disk: &dyn Disk, named: &[SegmentEntry], ours: &[StoreId]) -> Result<usize> {
    let mut numbers: Vec<u64> = named.iter().map(|entry| entry.segment).collect();
    numbers.sort_unstable();
    let mut moved = 0;
    for name in disk.list()? {
        let unnamed =
            segment::number(&name).is_some_and(|number| numbers.binary_search(&number).is_err());
        if unnamed && (ours.is_empty() || !is_foreign(disk, &name, ours)?) {
            move_aside(disk, &name)?;
            moved += 1;
        }
    }
    Ok(moved)
}

/// Whether a file is a segment of a store not in `ours`. A damaged header is the remains of a
/// killed process, not foreign.
fn is_foreign(disk: &dyn Disk, name: &str, ours: &[StoreId]) -> Result<bool> {
    let header = match disk.open(name).map_err(Error::from).and_then(|file| header_of(&*file)) {
        // Without a free descriptor, its owner is unknown.
        Err(error) if error.is_no_descriptor() => return Err(error),
        read => read.ok().flatten(),
    };
    Ok(header.is_some_and(|header| !ours.contains(&header.origin.store)))
}

fn move_aside(disk: &dyn Disk, name: &str) -> Result<()> {
    let mut target = format!("{SET_ASIDE}/{name}");
    let mut number = 1;
    while disk.exists(&target)? {
        number += 1;
        target = format!("{SET_ASIDE}/{name}.{number}");
    }
    Ok(disk.rename(name, &target)?)
}
