//! Files that no manifest names: set aside, counted, and removed when somebody asks for that.

use std::io::ErrorKind;
use std::sync::Arc;

use serde::Serialize;
use stepwell_disk::{Disk, EntryKind};

use super::Store;
use super::open::{home, refuse_twice};
use crate::manifest::MANIFEST_NAME;
use crate::segment;
use crate::segment::reader::header_of;
use crate::{Error, Result, SegmentEntry, StoreId, lock};

/// Where files go that no manifest names.
const SET_ASIDE: &str = "set-aside";

/// Files in the directories `set-aside` of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Aside {
    /// Segments and manifests, which a purge removes.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Names of what else is there, which somebody else put there.
    pub others: Vec<String>,
}

impl Store {
    /// Moves a store's files into the directory `set-aside`, so that another can be made in its
    /// place; nothing is removed. Returns the number of files.
    ///
    /// # Errors
    /// When somebody has the store open, or the disk refuses; what was moved then stays moved.
    pub fn set_aside(disk: &dyn Disk) -> Result<usize> {
        let _lock = lock::alone_in(disk)?;
        let mut moved = 0;
        if disk.exists(MANIFEST_NAME)? {
            // First, so that a half-moved store is none.
            move_aside(disk, MANIFEST_NAME)?;
            moved += 1;
        }
        Ok(moved + set_aside_of(disk, &[], &[])?)
    }

    /// What was set aside in the directories of a store.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn aside(disks: &[Arc<dyn Disk>]) -> Result<Aside> {
        let mut found = Aside::default();
        for disk in disks {
            each_aside(&**disk, &mut found, &mut |_, _| Ok(()))?;
        }
        Ok(found)
    }

    /// Removes what was set aside in the directories of a store: segments and manifests, and no
    /// other file. Returns what was removed.
    ///
    /// # Errors
    /// When there is no store, nor a whole one that was set aside; when somebody has it open, a
    /// directory `set-aside` is a link, or the disk refuses: what was removed before is gone then.
    pub fn purge(disks: &[Arc<dyn Disk>]) -> Result<Aside> {
        refuse_twice(disks)?;
        refuse_halves(disks)?;
        refuse_links(disks)?;
        // A snapshot has no such file, and gets none.
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

/// Refuses where there is no store: what was set aside may be all that is left of one, unless all
/// of it was.
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

/// Refuses a `set-aside` that is a link: what it leads to may be a store.
fn refuse_links(disks: &[Arc<dyn Disk>]) -> Result<()> {
    for disk in disks {
        let mut entries = disk.entries()?.into_iter();
        if entries.any(|(name, kind)| name == SET_ASIDE && kind == EntryKind::Other) {
            let path = disk.path().join(SET_ASIDE);
            return Err(Error::Options(format!(
                "{} is a link, and what that leads to is not removed: name a directory there",
                path.display()
            )));
        }
    }
    Ok(())
}

/// The directory `set-aside` of another one, where there is one.
fn aside_of(disk: &dyn Disk) -> Result<Option<Arc<dyn Disk>>> {
    match disk.directory(&disk.path().join(SET_ASIDE)) {
        Ok(aside) => Ok(Some(aside)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Counts what lies in the directory `set-aside` of another one, and does something with each file
/// that a store put there.
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
        // One that cannot be read is no obstacle.
        let bytes = aside.open(&name).and_then(|file| file.len()).unwrap_or(0);
        each(&*aside, &name)?;
        found.files += 1;
        found.bytes += bytes;
    }
    Ok(())
}

/// Whether [`move_aside`] gives such names: those of segments and manifests, and the same with a
/// number.
fn is_set_aside(name: &str) -> bool {
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    let base = name.rsplit_once('.').filter(|(_, end)| is_number(end)).map(|(base, _)| base);
    let base = base.unwrap_or(name);
    base == MANIFEST_NAME || segment::number(base).is_some()
}

/// A number above that of every segment that lies in the directories or was set aside there: a
/// number given twice would make a page of the old file one of the new.
pub(super) fn number_free(disks: &[Arc<dyn Disk>]) -> Result<u64> {
    let mut highest = 0;
    for disk in disks {
        let aside = aside_of(&**disk)?.map_or(Ok(Vec::new()), |aside| aside.list())?;
        let numbers = disk.list()?.into_iter().chain(aside);
        let numbers = numbers.filter_map(|name| segment::number_of_any(&name));
        highest = numbers.fold(highest, u64::max);
    }
    Ok(highest + 1)
}

pub(super) fn set_aside_unnamed(
    disks: &[Arc<dyn Disk>],
    named: &[SegmentEntry],
    ours: &[StoreId],
) -> Result<()> {
    for disk in disks {
        set_aside_of(&**disk, named, ours)?;
    }
    Ok(())
}

/// Sets aside the files that are called like segments and are not named; returns their number.
/// Where it is known whose are ours, others' segments are left alone.
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

/// Whether a file is a segment of a store that is none of `ours`; one whose header is not whole is
/// what a killed process left.
fn is_foreign(disk: &dyn Disk, name: &str, ours: &[StoreId]) -> Result<bool> {
    let header = match disk.open(name).map_err(Error::from).and_then(|file| header_of(&*file)) {
        // A descriptor is all it wants: who knows whose it is.
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
