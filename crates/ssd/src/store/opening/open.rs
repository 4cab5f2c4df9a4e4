//! Creates, opens and restores stores.
//!
//! Opening reads headers, tails and footers: a little more than 8 bytes a row, and no payload. How
//! it decides which of two versions counts is in [`super::load`].

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock};

use stepwell_disk::{Disk, Placed, QueueOptions};
use tracing::info;

use super::directories::{Disks, Locked, home, lock_new, refuse_existing, refuse_twice};
use super::load::{self, Loaded, as_made};
use super::set_aside::{number_free, set_aside_unnamed};
use super::verify::Verify;
use crate::executor::{Compacts, Executor, ExecutorOptions};
use crate::format_v1::OldManifest;
use crate::identity::StoreId;
use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::options::{Compaction, StoreOptions, WRITES_MAX};
use crate::segment::{self, SegmentFile};
use crate::segment_sizes::Sizes;
use crate::stats::Counters;
use crate::store::core::{Core, Space, State, Store, Writer};
use crate::store::stale_in_scan::StaleInScan;
use crate::store::writing::Batch;
use crate::{Error, Result, lock};

/// Most write buffers in flight in a store with its own executor: half by its writes, half by a
/// merge.
const BUFFERS_ALONE: u64 = 2 * WRITES_MAX as u64;

impl Store {
    /// Makes an empty store in a directory without one; other segments there are set aside.
    ///
    /// # Errors
    /// If there is a store already, the options are not admitted, or the disk fails.
    pub fn create(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self> {
        Self::create_over(vec![disk], options)
    }

    /// [`Store::create`] over several directories, on several devices: each segment goes into the
    /// emptiest one, and the first also has the manifest.
    ///
    /// # Errors
    /// Same as [`Store::create`].
    pub fn create_over(disks: Vec<Arc<dyn Disk>>, options: StoreOptions) -> Result<Self> {
        options.check()?;
        refuse_twice(&disks)?;
        let locks = lock_new(&disks)?;
        set_aside_unnamed(&disks, &[], &[])?;
        let id = options.id.unwrap_or_else(StoreId::drawn);
        let mut manifest = Manifest::empty(id, &options.layout());
        manifest.key_shards = options.key_shards;
        manifest.next_segment = number_free(&disks)?;
        let counters = Counters::new(disks.len());
        manifest.store(home(&disks)?, &counters)?;
        Self::assemble(Locked { disks, locks }, options, manifest, counters, None)
    }

    /// Opens the store as of its last commit. Segments that the commit does not name are not read
    /// but moved to the directory `set-aside`.
    ///
    /// A store of format version 1 is first rewritten in the current version; its old files are set
    /// aside.
    ///
    /// # Errors
    /// If there is no store, it is in use, it has another table or row size, a footer is damaged,
    /// the index would be too large, or the disk fails.
    pub fn open(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self> {
        Self::open_over(vec![disk], options)
    }

    /// [`Store::open`] over several directories, the first one first and the others in any order.
    ///
    /// # Errors
    /// Same as [`Store::open`]; and if a segment is in none of the directories.
    pub fn open_over(disks: Vec<Arc<dyn Disk>>, options: StoreOptions) -> Result<Self> {
        options.check()?;
        refuse_twice(&disks)?;
        let home = home(&disks)?;
        if !home.exists(MANIFEST_NAME)? {
            // A directory without a store gets no lock file.
            return Err(Error::Missing { path: home.path().to_owned() });
        }
        let locks = lock::alone(&disks)?;
        Self::open_locked(Locked { disks, locks }, options)
    }

    fn open_locked(of: Locked, options: StoreOptions) -> Result<Self> {
        let disks = &of.disks;
        if let Some(old) = OldManifest::load(home(disks)?)? {
            old.check(home(disks)?, options.table, options.row_bytes)?;
            set_aside_unnamed(disks, &old.segments, &[])?;
            // The first commit of the new store replaces the old manifest atomically.
            Self::rewrite(disks, home(disks)?, &old, &options)?;
        }
        let mut manifest = Manifest::load(home(disks)?)?;
        manifest.check(&options, home(disks)?)?;
        // Before anything moves: no files are set aside in a directory of another store.
        refuse_existing(&disks[1..])?;
        load::find(disks, &manifest)?;
        if manifest.store == StoreId::OLD {
            manifest.store = options.id.unwrap_or_else(StoreId::drawn);
        }
        let mut ours: Vec<StoreId> = manifest.origins.iter().map(|of| of.store).collect();
        ours.push(manifest.store);
        set_aside_unnamed(disks, &manifest.segments, &ours)?;
        manifest.next_segment = manifest.next_segment.max(number_free(disks)?);
        let counters = Counters::new(disks.len());
        Self::assemble(of, options, manifest, counters, None)
    }

    /// Makes a store from a snapshot: links or copies its segments into a directory without a
    /// store, and checks them as `verify` requires. The store has the key shards of the snapshot,
    /// whatever the options say; [`Store::restore_shards`] changes them.
    ///
    /// # Errors
    /// Same as [`Store::open`]; and if there is a store already, or a file is damaged.
    pub fn restore(
        disk: Arc<dyn Disk>,
        from: &Path,
        verify: Verify,
        options: StoreOptions,
    ) -> Result<Self> {
        Self::restore_over(vec![disk], from, verify, options)
    }

    /// [`Store::restore`] over several directories, which get segments alternately.
    ///
    /// # Errors
    /// Same as [`Store::restore`].
    pub fn restore_over(
        disks: Vec<Arc<dyn Disk>>,
        from: &Path,
        verify: Verify,
        options: StoreOptions,
    ) -> Result<Self> {
        options.check()?;
        refuse_twice(&disks)?;
        let source = home(&disks)?.directory(from)?;
        let locks = lock_new(&disks)?;
        if let Some(old) = OldManifest::load(&*source)? {
            old.check(&*source, options.table, options.row_bytes)?;
            set_aside_unnamed(&disks, &[], &[])?;
            Self::rewrite(&disks, &*source, &old, &options)?;
            return Self::open_locked(Locked { disks, locks }, options);
        }
        let mut manifest = Manifest::load(&*source)?;
        manifest.check(&options, &*source)?;
        // The new manifest gets its own store id; another store may have the same segments.
        manifest = manifest.adopted_by(options.id.unwrap_or_else(StoreId::drawn));
        manifest.next_segment = manifest.next_segment.max(number_free(&disks)?);
        set_aside_unnamed(&disks, &[], &[])?;
        let counters = Counters::new(disks.len());
        for (number, entry) in manifest.segments.iter().enumerate() {
            options.go_on()?;
            let directory = number % disks.len();
            let disk = &disks[directory];
            let placed = source.link_into(&segment::name(entry.here()), disk.path())?;
            if placed == Placed::Copied {
                counters.wrote(directory, entry.bytes as usize);
            }
            if verify.reads_all(placed) {
                let file = SegmentFile::open(&**disk, &manifest.spot(entry, directory))?;
                let from = source.path().join(segment::name(entry.here()));
                let checked = file.check_all(entry, &counters);
                checked.map_err(|error| error.found_in(from))?;
            }
        }
        for disk in disks.iter().skip(1) {
            disk.sync_directory()?;
        }
        manifest.store(home(&disks)?, &counters)?;
        let restored = Self::assemble(Locked { disks, locks }, options, manifest, counters, None);
        restored.map_err(|error| error.found_below(source.path()))
    }

    /// Rewrites a store of version 1 in `source` as one of the current version.
    fn rewrite(
        disks: &Disks,
        source: &dyn Disk,
        old: &OldManifest,
        options: &StoreOptions,
    ) -> Result<()> {
        info!(store = %source.path().display(), "store of format version 1 is rewritten");
        // Inline compaction: nothing is merged, so nothing is committed before all rows are there.
        let options = StoreOptions { compaction: Compaction::Inline, ..options.clone() };
        let id = options.id.unwrap_or_else(StoreId::drawn);
        let mut manifest = Manifest::empty(id, &options.layout());
        manifest.next_segment = old.next_segment.max(number_free(disks)?);
        let counters = Counters::new(disks.len());
        // The caller holds the locks.
        let unlocked = Locked { disks: disks.clone(), locks: Vec::new() };
        let store = Self::assemble(unlocked, options, manifest, counters, None)?;
        let mut batch = Batch::new(&store);
        old.for_each_current(source, &mut |key, payload| batch.push(key, 0, payload))?;
        batch.flush()?;
        let mut writer = store.core.writer()?;
        // Even an empty store needs a commit.
        writer.changed = true;
        store.core.commit_locked(&mut writer)?;
        Ok(())
    }

    /// Makes a store of what `manifest` names; `files` are its segments, if they are open already.
    pub(in crate::store) fn assemble(
        of: Locked,
        options: StoreOptions,
        manifest: Manifest,
        counters: Counters,
        files: Option<Vec<Arc<SegmentFile>>>,
    ) -> Result<Self> {
        let options = as_made(options, &manifest);
        options.check()?;
        let loaded = load::load(&of.disks, &options, &manifest, &counters, files)?;
        Self::assemble_loaded(of, options, manifest, loaded, counters)
    }

    /// Makes a store whose segments were read.
    pub(super) fn assemble_loaded(
        Locked { disks, locks }: Locked,
        options: StoreOptions,
        manifest: Manifest,
        Loaded { index, table }: Loaded,
        counters: Counters,
    ) -> Result<Self> {
        let (layout, id, key_shards) = (options.layout(), manifest.store, manifest.key_shards);
        let state = State {
            id,
            index,
            table,
            open: Vec::new(),
            next_seq: manifest.next_seq,
            expire_before: manifest.expire_before,
            retired: Space::default(),
            retiring: Vec::new(),
            watch: StaleInScan::default(),
        };
        let of_writer = QueueOptions { depth: WRITES_MAX, read_bytes: layout.page_bytes };
        let writer = Writer {
            queue: home(&disks)?.queue(of_writer)?,
            open: None,
            ending: std::collections::VecDeque::new(),
            spare: None,
            unwritten: Vec::new(),
            writing: Vec::new(),
            unsynced: Vec::new(),
            unsound: Vec::new(),
            leaving: Vec::new(),
            retired: Vec::new(),
            next_segment: manifest.next_segment,
            manifest,
            changed: false,
            refused: None,
        };
        let compaction = options.compaction;
        let executor = options.executor.clone().unwrap_or_else(|| {
            let write_bytes = BUFFERS_ALONE * options.write_buffer_bytes() as u64;
            Executor::new(ExecutorOptions { write_bytes, ..ExecutorOptions::default() })
        });
        let aside = Self::aside(&disks)?;
        let core = Arc::new(Core {
            aside,
            disks,
            _locks: locks,
            id,
            key_shards,
            layout,
            sizes: Sizes::new(&options),
            options,
            merging: Mutex::default(),
            writer: Mutex::new(writer),
            settling: Mutex::new(()),
            state: RwLock::new(state),
            looking: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            merge_repeats: AtomicBool::new(false),
            executor,
            pins: Mutex::default(),
            counters,
        });
        let store = Self { core };
        info!(
            store = %store.path().display(),
            rows = store.len(),
            bytes = store.bytes_files(),
            "store opened"
        );
        if compaction == Compaction::Background {
            let core: Arc<dyn Compacts> = Arc::<Core>::clone(&store.core);
            store.core.executor.enter(&core)?;
        }
        Ok(store)
    }
}
