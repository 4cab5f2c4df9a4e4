//! A read-only store that can advance from commit to commit.
//!
//! - **Why.** A server uses a checkpoint, and soon the next one; reading all keys each time would
//!   cost as much as the first time.
//! - **How.** Two manifests of one store name many of the same segments, identified by origin and
//!   tail sum. Only the keys of new ones are read (`refresh`). If the manifest is of another store,
//!   or of an earlier commit, everything is read.
//! - **Files.** Files of a snapshot stay while it is leased, and are opened as needed. In a store's
//!   own directory, recognized by its lock file, the next commit may remove any file: there, the
//!   view holds all files open, from before it reads the first one until it refreshes. It makes no
//!   links: it would have to write to the directory, and a killed process would leave them.
//! - **Failure.** A refresh that fails does not change the view: it keeps its commit and all its
//!   files.
//! - **Bounds.** Same as a store, and an open file for each segment in a store's own directory.
//!   During a refresh, at least 20 bytes per row of new segments and 8 per row of those that are
//!   gone; if everything is read, a second index.

use std::fmt;
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_disk::Disk;

use super::load::{self, Loaded};
use super::open::{self, Disks, Locked};
use super::refresh::Difference;
use super::{Store, Writer};
use crate::identity::Origin;
use crate::lock::LOCK_NAME;
use crate::options::Compaction;
use crate::segment::{SegmentFile, hold};
use crate::stats::Counters;
use crate::{Error, MANIFEST_NAME, Manifest, Result, SegmentEntry, Stats, StoreOptions};

/// Why a view refuses writes.
const LOOKED_AT: &str = "it was opened as a read-only view; to write, open it with `Store::open`";

/// How often a manifest is read again because its files were removed before they were opened.
const TRIES: usize = 100;

/// A read-only store as of a commit: its directories are not changed, no lock is taken, and every
/// write is refused. Any number of threads may use it.
pub struct View {
    store: Store,
    /// The directories that it reads.
    disks: Mutex<Disks>,
}

/// What a refresh changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// The commit of the view.
    pub commit: u64,
    /// Number of segments that were read.
    pub segments_new: usize,
    /// Number of segments that the view dropped.
    pub segments_gone: usize,
    /// Number of rows in segments that were read, live and stale.
    pub rows_read: u64,
    /// Whether everything was read because the manifest is not a later commit of the same store.
    pub anew: bool,
}

/// A manifest, and the files of its segments in order.
pub(super) struct Named {
    pub(super) manifest: Manifest,
    pub(super) files: Vec<Arc<SegmentFile>>,
}

impl Deref for View {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl View {
    /// Opens the store or snapshot in a directory as of its last commit, even while another process
    /// writes there. Files that the commit does not name are ignored.
    ///
    /// # Errors
    /// Same as [`Store::open`]; for a store of format version 1; and, where another process may
    /// write, if not all files may be open at once.
    pub fn open(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self> {
        Self::open_over(vec![disk], options)
    }

    /// [`View::open`] over several directories, the first one first and the others in any order.
    ///
    /// # Errors
    /// Same as [`View::open`].
    pub fn open_over(disks: Vec<Arc<dyn Disk>>, options: StoreOptions) -> Result<Self> {
        let options = StoreOptions { compaction: Compaction::Inline, ..options };
        options.check()?;
        open::refuse_twice(&disks)?;
        let Named { manifest, files } = named(&disks, &options, |_| None)?;
        let counters = Counters::new(disks.len());
        let unlocked = Locked { disks: disks.clone(), locks: Vec::new() };
        let store = Store::assemble(unlocked, options, manifest, counters, Some(files))?;
        let refused = (disks[0].path().to_owned(), LOOKED_AT.to_owned());
        store.core.writer()?.refused = Some(refused);
        Ok(Self { store, disks: Mutex::new(disks) })
    }

    /// Path of the directory with the manifest.
    pub fn path(&self) -> PathBuf {
        self.disks().first().map(|disk| disk.path().to_owned()).unwrap_or_default()
    }

    /// Figures of what the view has done and holds, with its current directories.
    pub fn stats(&self) -> Stats {
        let mut stats = self.store.stats();
        for (directory, disk) in stats.directories.iter_mut().zip(&*self.disks()) {
            directory.path = disk.path().display().to_string();
        }
        stats
    }

    /// The manifest of the view's commit.
    pub fn manifest(&self) -> Manifest {
        self.writer().manifest.clone()
    }

    /// Advances to the last commit in the same directories.
    ///
    /// Look-ups and scans see all of it or nothing. Look-ups wait while the index changes: some 100
    /// ns for each row of the new segments. Refreshing waits for scans that begin.
    ///
    /// # Errors
    /// Same as [`View::open`]; the view is unchanged, as long as its files exist.
    pub fn refresh(&self) -> Result<Refreshed> {
        let disks = self.disks().clone();
        self.refresh_over(disks)
    }

    /// Advances to the commit in other directories, of the same number: a later snapshot, or any
    /// with the same table and key shards, which is then read completely. Look-ups in flight finish
    /// with the old files, which must stay until then.
    ///
    /// # Errors
    /// Same as [`View::refresh`].
    pub fn refresh_over(&self, disks: Vec<Arc<dyn Disk>>) -> Result<Refreshed> {
        open::refuse_twice(&disks)?;
        let core = &self.store.core;
        // Nothing else changes the view, and no scan, which reads slot by slot, is beginning.
        let _merging = core.hold_merges();
        let mut writer = self.writer();
        let mut here = self.disks();
        if disks.len() != here.len() {
            let (found, known) = (disks.len(), here.len());
            let why = format!("a view of {known} directories cannot continue with {found}");
            return Err(Error::Options(why));
        }
        let same_place = disks.iter().zip(&*here).all(|(a, b)| a.path() == b.path());
        let kept = core.segments_by_identity(&writer.manifest);
        let options = &core.options;
        let named = named(&disks, options, |identity| {
            same_place.then(|| kept.get(&identity).map(|(_, file)| Arc::clone(file))).flatten()
        })?;
        let path = disks[0].path().join(MANIFEST_NAME);
        if named.manifest.key_shards != core.key_shards {
            let (found, known) = (named.manifest.key_shards, core.key_shards);
            let why = format!("has key shards {found}, but the view has {known}: open it again");
            return Err(Error::Mismatch { path, why });
        }
        if named.manifest.page_bytes != options.page_bytes as u64 {
            let (found, known) = (named.manifest.page_bytes, options.page_bytes);
            let why =
                format!("has pages of {found} bytes, but the view has {known}: open it again");
            return Err(Error::Mismatch { path, why });
        }
        if same_place && named.manifest == writer.manifest {
            return Ok(Refreshed { commit: writer.manifest.commit, ..Refreshed::default() });
        }
        let gone = writer.manifest.segments.len();
        let difference = Difference::read(core, &writer.manifest, &named, &kept)?;
        let refreshed = match difference {
            Some(difference) => match difference.apply(core, &named, &*disks[0]) {
                // The snapshot was written to as a store of its own: it is not a later commit.
                Err(Error::Damaged { .. }) => self.load_anew(&disks, &named, gone)?,
                applied => applied?,
            },
            None => self.load_anew(&disks, &named, gone)?,
        };
        writer.refused = Some((disks[0].path().to_owned(), LOOKED_AT.to_owned()));
        writer.manifest = named.manifest;
        *here = disks;
        Ok(refreshed)
    }

    fn load_anew(&self, disks: &Disks, named: &Named, gone: usize) -> Result<Refreshed> {
        let core = &self.store.core;
        let Named { manifest, files } = named;
        let files = Some(files.clone());
        let loaded = load::load(disks, &core.options, manifest, &core.counters, files)?;
        let mut state = core.state_mut();
        let Loaded { index, table } = loaded;
        let before = (
            std::mem::replace(&mut state.index, index),
            std::mem::replace(&mut state.table, table),
        );
        (state.next_seq, state.expire_before) = (manifest.next_seq, manifest.expire_before);
        state.id = manifest.store;
        drop(state);
        drop(before);
        Ok(Refreshed {
            commit: manifest.commit,
            segments_new: manifest.segments.len(),
            segments_gone: gone,
            rows_read: manifest.rows_all(),
            anew: true,
        })
    }

    fn disks(&self) -> MutexGuard<'_, Disks> {
        self.disks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.store.core.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the manifest in the directories and opens its files, except those from `kept`.
fn named(
    disks: &[Arc<dyn Disk>],
    options: &StoreOptions,
    kept: impl Fn(Identity) -> Option<Arc<SegmentFile>>,
) -> Result<Named> {
    let home = open::home(disks)?;
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
    for (entry, spot) in manifest.segments.iter().zip(load::spots(disks, options, manifest)?) {
        if let Some(file) = kept(identity(manifest, entry)) {
            files.push(file);
            continue;
        }
        let disk = &*disks[spot.directory];
        let mut file = SegmentFile::open(disk, &spot)?;
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

pub(super) fn identity(manifest: &Manifest, entry: &SegmentEntry) -> Identity {
    Identity { origin: manifest.origin(entry), sum: entry.sum() }
}
