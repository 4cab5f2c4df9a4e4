//! A store being opened: where its segments are, and the slots that they take.

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_disk::Disk;

use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::numbers::Slot;
use crate::options::StoreOptions;
use crate::segment::entry::SegmentEntry;
use crate::segment::{self, SegmentFile, Spot};
use crate::segment_table::Table;
use crate::stats::Counters;
use crate::{Error, Result};

/// A store being opened.
pub(super) struct Loader<'a> {
    pub(in crate::store) disks: &'a [Arc<dyn Disk>],
    pub(in crate::store) options: &'a StoreOptions,
    pub(in crate::store) manifest: &'a Manifest,
    pub(in crate::store) counters: &'a Counters,
    /// Files of the segments, or their places, in order.
    pub(in crate::store) sources: Vec<Source>,
    /// Number of places of a slot.
    pub(in crate::store) pages: u32,
    /// The first slot of each segment; larger ones take several.
    pub(super) firsts: Vec<Slot>,
    /// The segment of each slot, by its index in the manifest.
    pub(super) owners: Vec<u32>,
}

/// A segment's file.
pub(in crate::store) enum Source {
    Opened(Arc<SegmentFile>),
    At(FilePlace),
}

/// A segment's directory, and whether its file uses the page cache.
#[derive(Clone, Copy)]
pub(in crate::store) struct FilePlace {
    pub(in crate::store) directory: usize,
    cached: bool,
}

impl FilePlace {
    /// Opens the file of `entry` in this directory.
    pub(in crate::store) fn open(
        self,
        disks: &[Arc<dyn Disk>],
        manifest: &Manifest,
        entry: &SegmentEntry,
    ) -> Result<SegmentFile> {
        let Self { directory, cached } = self;
        let spot = Spot { cached, ..manifest.spot(entry, directory) };
        SegmentFile::open(&*disks[directory], &spot)
    }
}

impl<'a> Loader<'a> {
    pub(in crate::store) fn new(
        disks: &'a [Arc<dyn Disk>],
        options: &'a StoreOptions,
        manifest: &'a Manifest,
        counters: &'a Counters,
        files: Option<Vec<Arc<SegmentFile>>>,
    ) -> Result<Self> {
        let layout = manifest.layout();
        let pages = layout.pages(options.segment_rows()).max(1);
        let (mut firsts, mut owners) = (Vec::new(), Vec::new());
        for (segment, entry) in (0..).zip(&manifest.segments) {
            firsts.push(Slot(owners.len() as u32));
            let span = Table::span_of(pages, layout.pages(entry.rows));
            owners.resize(owners.len() + span as usize, segment);
        }
        let sources = match files {
            Some(files) => files.into_iter().map(Source::Opened).collect(),
            None => file_places(disks, options, manifest)?.into_iter().map(Source::At).collect(),
        };
        Ok(Self { disks, options, manifest, counters, sources, pages, firsts, owners })
    }
}

/// The place of each segment that the manifest names; the first ones use the page cache.
pub(in crate::store) fn file_places(
    disks: &[Arc<dyn Disk>],
    options: &StoreOptions,
    manifest: &Manifest,
) -> Result<Vec<FilePlace>> {
    let mut cached_left = options.cached_bytes;
    let place = |(entry, directory): (&SegmentEntry, usize)| {
        let cached = cached_left >= entry.bytes;
        cached_left -= if cached { entry.bytes } else { 0 };
        FilePlace { directory, cached }
    };
    Ok(manifest.segments.iter().zip(find(disks, manifest)?).map(place).collect())
}

/// The directory of each segment that the manifest names.
pub(in crate::store) fn find(disks: &[Arc<dyn Disk>], manifest: &Manifest) -> Result<Vec<usize>> {
    let mut homes = HashMap::new();
    for (directory, disk) in disks.iter().enumerate() {
        for name in disk.list()? {
            if let Some(number) = segment::number(&name) {
                homes.entry(number).or_insert(directory);
            }
        }
    }
    let lost = |entry: &&SegmentEntry| !homes.contains_key(&entry.segment);
    if let Some(first) = manifest.segments.iter().find(lost) {
        return Err(Error::Lost {
            path: disks[0].path().join(MANIFEST_NAME),
            count: manifest.segments.iter().filter(lost).count(),
            first: segment::name(first.here()),
            directories: manifest.directories.clone(),
        });
    }
    Ok(manifest.segments.iter().map(|entry| homes[&entry.segment]).collect())
}
