//! The segments that a manifest names, and their open files.

use std::io::ErrorKind;
use std::sync::Arc;

use stepwell_disk::Disk;

use crate::identity::Origin;
use crate::lock::LOCK_NAME;
use crate::manifest::Manifest;
use crate::options::StoreOptions;
use crate::segment::entry::SegmentEntry;
use crate::segment::{SegmentFile, hold};
use crate::store::opening::directories::home;
use crate::store::opening::load;
use crate::{Error, Result};

/// How often a manifest is read again because its files were removed before they were opened.
const TRIES: usize = 100;

/// A manifest, and the files of its segments in order.
pub(super) struct Named {
    pub(in crate::store) manifest: Manifest,
    pub(in crate::store) files: Vec<Arc<SegmentFile>>,
}

/// Reads the manifest in the directories and opens its files, except those from `kept`.
pub(super) fn open_named(
    disks: &[Arc<dyn Disk>],
    options: &StoreOptions,
    kept: impl Fn(Identity) -> Option<Arc<SegmentFile>>,
) -> Result<Named> {
    let home = home(disks)?;
    let mut manifest = Manifest::load(home)?;
    for _ in 0..TRIES {
        manifest.check(options, home)?;
        let error = match open_all(disks, &manifest, options, &kept) {
            Ok(files) => return Ok(Named { manifest, files }),
            Err(error) => error,
        };
        let gone = match &error {
            Error::Lost { .. } => true,
            Error::Disk(error) => error.kind() == ErrorKind::NotFound,
            _ => false,
        };
        let before = std::mem::replace(&mut manifest, Manifest::load(home)?);
        // The other process has committed, and removed merged segments.
        if !gone || before == manifest {
            return Err(error);
        }
    }
    let why = "commits there are faster than the view can open files";
    Err(Error::Refused { path: home.path().to_owned(), why: why.to_owned() })
}

fn open_all(
    disks: &[Arc<dyn Disk>],
    manifest: &Manifest,
    options: &StoreOptions,
    kept: &impl Fn(Identity) -> Option<Arc<SegmentFile>>,
) -> Result<Vec<Arc<SegmentFile>>> {
    // A snapshot has no lock file.
    let is_written = disks[0].exists(LOCK_NAME)?;
    let mut files = Vec::with_capacity(manifest.segments.len());
    let places = load::file_places(disks, options, manifest)?;
    for (entry, place) in manifest.segments.iter().zip(places) {
        if let Some(file) = kept(identity(manifest, entry)) {
            files.push(file);
            continue;
        }
        let disk = &*disks[place.directory];
        let mut file = place.open(disks, manifest, entry)?;
        if is_written {
            let held = hold(Arc::clone(&file.file))?;
            let room = disk.open_files().is_none_or(|files| files.open <= files.bound);
            let too_many = || too_many(disk, manifest.segments.len());
            file.file = held.filter(|_| room).ok_or_else(too_many)?;
        }
        files.push(Arc::new(file));
    }
    Ok(files)
}

fn too_many(disk: &dyn Disk, segments: usize) -> Error {
    let bound = disk.open_files().map_or(0, |files| files.bound);
    Error::Options(format!(
        "{} may be written by another process, so a view of it holds its {segments} segments open, \
         of which {bound} may be, a third of what the system allows: raise that (ulimit -n), or \
         look at a snapshot",
        disk.path().display()
    ))
}

/// Identifies a segment, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    origin: Origin,
    /// Checksum of the tail.
    sum: u64,
}

pub(in crate::store) fn identity(manifest: &Manifest, entry: &SegmentEntry) -> Identity {
    Identity { origin: manifest.origin(entry), sum: entry.sum() }
}
