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
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_disk::Disk;
use tracing::debug;

use super::named_files::{Named, open_named};
use super::refresh::{Difference, Refreshed};
use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::options::{Compaction, StoreOptions};
use crate::stats::{Counters, Stats};
use crate::store::core::{Store, Writer};
use crate::store::opening::directories::{Disks, Locked, refuse_twice};
use crate::store::opening::load::{self, Loaded};
use crate::{Error, Result};

/// Why a view refuses writes.
const LOOKED_AT: &str = "it was opened as a read-only view; to write, open it with `Store::open`";

/// A read-only store as of a commit: its directories are not changed, no lock is taken, and every
/// write is refused. Any number of threads may use it.
pub struct View {
    store: Store,
    /// The directories that it reads.
    disks: Mutex<Disks>,
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
        refuse_twice(&disks)?;
        let Named { manifest, files } = open_named(&disks, &options, |_| None)?;
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
        refuse_twice(&disks)?;
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
        let named = open_named(&disks, options, |identity| {
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
        let difference = Difference::read(core, &writer.manifest, &named, kept)?;
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
        let Refreshed { commit, segments_new, segments_gone, rows_read, anew } = refreshed;
        debug!(commit, segments_new, segments_gone, rows_read, anew, "view refreshed");
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
