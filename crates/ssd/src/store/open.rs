//! Making, opening, restoring a store, and setting one aside.
//!
//! Opening reads headers, tails and footers: 16 bytes a row, never a payload. To know which of two
//! versions is the newer one it holds 8 bytes for each row, live or stale, until it is done.

use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use stepwell_disk::{Disk, Placed};

use super::{Space, State, Store, Writer};
use crate::index::{Index, RowPlace};
use crate::manifest::{MANIFEST_NAME, sum_text};
use crate::segment::{self, Sealed, SegmentFile};
use crate::stats::Counters;
use crate::table::{Segment, Table};
use crate::{Error, Manifest, Result, SegmentEntry, StoreOptions};

/// Where files go that no manifest names.
const SET_ASIDE: &str = "set-aside";

impl Store {
    /// Makes an empty store in a directory that holds none; other segments lying there are set
    /// aside.
    ///
    /// # Errors
    /// When there is a store already, the options cannot be, or the disk refuses.
    pub fn create(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self> {
        options.check()?;
        refuse_existing(&*disk)?;
        set_aside_unnamed(&*disk, &[])?;
        let manifest = Manifest::empty(&options.layout());
        let counters = Counters::default();
        manifest.store(&*disk, &counters)?;
        Self::assemble(disk, options, manifest, counters)
    }

    /// Opens the store as of its last commit; segments that it does not name are set aside, into
    /// the directory `set-aside`, and not read.
    ///
    /// # Errors
    /// When there is no store, it holds other rows, a footer is damaged, the index would be too
    /// large, or the disk refuses.
    pub fn open(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self> {
        options.check()?;
        let manifest = Manifest::load(&*disk)?;
        manifest.check(&options, &*disk)?;
        set_aside_unnamed(&*disk, &manifest.segments)?;
        Self::assemble(disk, options, manifest, Counters::default())
    }

    /// Makes a store from a snapshot: links or copies its segments into a directory that holds no
    /// store, and checks each file's checksum.
    ///
    /// # Errors
    /// Those of [`Store::open`]; and when a store is there already, or a file is damaged.
    pub fn restore(disk: Arc<dyn Disk>, from: &Path, options: StoreOptions) -> Result<Self> {
        options.check()?;
        let source = disk.directory(from)?;
        let manifest = Manifest::load(&*source)?;
        manifest.check(&options, &*source)?;
        refuse_existing(&*disk)?;
        set_aside_unnamed(&*disk, &[])?;
        let counters = Counters::default();
        for entry in &manifest.segments {
            if source.link_into(&segment::name(entry.segment), disk.path())? == Placed::Copied {
                counters.wrote(entry.bytes as usize);
            }
            check_file(&*disk, entry, &counters)?;
        }
        manifest.store(&*disk, &counters)?;
        Self::assemble(disk, options, manifest, counters)
    }

    /// Moves a store's files into the directory `set-aside`, so that another can be made in its
    /// place; nothing is removed. Returns the number of files.
    ///
    /// # Errors
    /// When the disk refuses; what was moved then stays moved.
    pub fn set_aside(disk: &dyn Disk) -> Result<usize> {
        let mut moved = 0;
        if disk.exists(MANIFEST_NAME)? {
            // First, so that a half-moved store is none.
            move_aside(disk, MANIFEST_NAME)?;
            moved += 1;
        }
        Ok(moved + set_aside_unnamed(disk, &[])?)
    }

    fn assemble(
        disk: Arc<dyn Disk>,
        options: StoreOptions,
        manifest: Manifest,
        counters: Counters,
    ) -> Result<Self> {
        let layout = options.layout();
        let mut loading = Loading {
            index: Index::new(options.index_bytes_max),
            table: Table::default(),
            seqs: Vec::new(),
        };
        for entry in &manifest.segments {
            loading.add(&*disk, &options, entry, &counters)?;
        }
        let Loading { index, table, .. } = loading;
        if index.rows() != manifest.rows {
            let why = format!("{} rows are there, {} are named", index.rows(), manifest.rows);
            let path = disk.path().join(MANIFEST_NAME);
            return Err(Error::Damaged { path, offset: 0, why });
        }
        let next_seq = manifest.next_seq;
        let state = State { index, table, open: None, next_seq, retired: Space::default() };
        let writer = Writer {
            open: None,
            unsynced: Vec::new(),
            retired: Vec::new(),
            next_segment: manifest.next_segment,
            manifest,
            changed: false,
            refused: None,
        };
        let (writer, state) = (Mutex::new(writer), RwLock::new(state));
        Ok(Self { disk, options, layout, writer, state, counters })
    }
}

/// An index being built from footers.
struct Loading {
    index: Index,
    table: Table,
    /// Sequence numbers of all rows, by slot.
    seqs: Vec<Vec<u64>>,
}

impl Loading {
    fn add(
        &mut self,
        disk: &dyn Disk,
        options: &StoreOptions,
        entry: &SegmentEntry,
        counters: &Counters,
    ) -> Result<()> {
        let layout = options.layout();
        let file = Arc::new(SegmentFile::open(disk, entry.segment)?);
        let tail = file.check(&layout, entry, counters)?;
        let checksum = u64::from_str_radix(&entry.checksum, 16).unwrap_or_default();
        let sealed = Some(Sealed { bytes: entry.bytes, checksum });
        let (rows, seq_max) = (0, tail.seq_max);
        let segment = Segment { file: Arc::clone(&file), rows, live: 0, seq_max, sealed };
        let slot = self.table.insert(segment);
        self.seqs.push(Vec::with_capacity(tail.rows as usize));
        file.for_each_entry(&layout, &tail, counters, &mut |row, key, seq| {
            let place = RowPlace { slot, row };
            self.seqs[slot as usize].push(seq);
            self.table.appended(slot, seq);
            let old = self.index.get(key);
            // A row that was moved has the same number in both places: the later one counts.
            if old.is_some_and(|old| self.seqs[old.slot as usize][old.row as usize] > seq) {
                self.table.went_stale(slot);
                return Ok(());
            }
            self.index.make_room(key)?;
            if let Some(old) = self.index.set(key, place) {
                self.table.went_stale(old.slot);
            }
            Ok(())
        })
    }
}

fn refuse_existing(disk: &dyn Disk) -> Result<()> {
    if disk.exists(MANIFEST_NAME)? {
        return Err(Error::Exists { path: disk.path().to_owned() });
    }
    Ok(())
}

fn check_file(disk: &dyn Disk, entry: &SegmentEntry, counters: &Counters) -> Result<()> {
    let file = SegmentFile::open(disk, entry.segment)?;
    let bytes = file.file.len()?;
    if bytes != entry.bytes {
        let why = format!("the file has {bytes} bytes, the manifest says {}", entry.bytes);
        return Err(file.damaged(bytes.min(entry.bytes), why));
    }
    let found = sum_text(file.checksum(bytes, counters)?);
    if found != entry.checksum {
        let why = format!("checksum {found} of the file, the manifest says {}", entry.checksum);
        return Err(file.damaged(0, why));
    }
    Ok(())
}

/// Sets aside the files that are called like segments and are not named; returns their number.
fn set_aside_unnamed(disk: &dyn Disk, named: &[SegmentEntry]) -> Result<usize> {
    let mut names: Vec<String> = named.iter().map(|entry| segment::name(entry.segment)).collect();
    names.sort();
    let mut moved = 0;
    for name in disk.list()?.iter().filter(|name| segment::is_name(name)) {
        if names.binary_search(name).is_err() {
            move_aside(disk, name)?;
            moved += 1;
        }
    }
    Ok(moved)
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
