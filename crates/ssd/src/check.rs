//! Checks every byte of a store or snapshot against its checksums.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use stepwell_base::Key;
use stepwell_base::hash::Checksum;
use stepwell_disk::Disk;

use crate::manifest::Manifest;
use crate::numbers::{Birth, Births, PageNumber};
use crate::options::StoreOptions;
use crate::row_versions::Provenance;
use crate::segment::entry::SegmentEntry;
use crate::segment::footer::Footer;
use crate::segment::{self, PageRead, SegmentFile, Tail, page};
use crate::stats::{Aside, Counters};
use crate::store::Store;
use crate::{Error, Result, lock, store};

/// Outcome of a check: counts of what was read, and the damage found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Number of the commit.
    pub commit: u64,
    /// Number of segments that the commit names.
    pub segments: u64,
    /// Number of pages read, including headers.
    pub pages: u64,
    /// Number of rows in the segments, live and stale, by the manifest.
    pub rows: u64,
    /// Bytes of the segments' files, by the manifest.
    pub bytes: u64,
    /// Contents of `set-aside`, which is not part of the store.
    pub aside: Aside,
    /// All damage found.
    pub damages: Vec<Damage>,
}

/// A difference from what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file.
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    /// Offset of the damaged part.
    pub offset: u64,
    /// Description of the damage.
    pub what: String,
    /// Keys of the rows in the damaged part, including stale ones, if the footer is readable.
    #[serde(serialize_with = "as_text")]
    pub keys: Vec<Key>,
}

/// Serializes a path as text; bytes that are not UTF-8 are replaced.
fn path_as_text<S: serde::Serializer>(path: &Path, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

fn as_text<S: serde::Serializer>(keys: &[Key], to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_seq(keys.iter().map(|key| format!("{:016x}", key.0)))
}

/// Reads everything that the manifest names, in all of the store's directories, and checks it: each
/// file's length, header, tail, footer and pages, and the list of keys against the pages. Continues
/// after damage, to find all of it. If there is none, also checks all that opening verifies.
///
/// Holds 20 bytes for each row of a segment and 1 MiB of its file, then an index: 9 to 12 bytes
/// for each row of the store.
///
/// # Errors
/// If the store is open, or the manifest cannot be read. An unreadable segment counts as damage,
/// unless file descriptors ran out.
pub fn check(disks: &[Arc<dyn Disk>]) -> Result<Checked> {
    let none = || Error::Options("a store needs at least one directory".to_owned());
    let _locks = lock::shared(disks)?;
    let manifest = Manifest::load(&**disks.first().ok_or_else(none)?)?;
    let mut checked = Checked { commit: manifest.commit, ..Checked::default() };
    for entry in &manifest.segments {
        checked.segments += 1;
        checked.rows += u64::from(entry.rows);
        checked.bytes = checked.bytes.saturating_add(entry.bytes);
        let path = disks[0].path().join(segment::name(entry.here()));
        let lost = |what: String| Damage { path, offset: 0, what, keys: Vec::new() };
        match locate(disks, &manifest, entry) {
            Ok(Some(file)) => checked.check_segment(&file, entry)?,
            Ok(None) => {
                checked.damages.push(lost("it is in none of the directories".to_owned()));
            }
            Err(Error::Disk(error)) if !error.is_no_descriptor() => {
                checked.damages.push(lost(error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    if checked.damages.is_empty() {
        checked.check_whole(disks, &manifest)?;
    }
    checked.aside = Store::aside(disks)?;
    Ok(checked)
}

/// Returns a segment's file from whichever directory has it.
fn locate(
    disks: &[Arc<dyn Disk>],
    manifest: &Manifest,
    entry: &SegmentEntry,
) -> Result<Option<SegmentFile>> {
    for (directory, disk) in disks.iter().enumerate() {
        if disk.exists(&segment::name(entry.here()))? {
            return Ok(Some(SegmentFile::open(&**disk, &manifest.spot(entry, directory))?));
        }
    }
    Ok(None)
}

impl Checked {
    /// Checks all that opening verifies; damage that opening would report is recorded.
    fn check_whole(&mut self, disks: &[Arc<dyn Disk>], manifest: &Manifest) -> Result<()> {
        let options = StoreOptions {
            page_bytes: manifest.page_bytes as usize,
            index_bytes_max: u64::MAX,
            ..StoreOptions::new(manifest.table, manifest.row_bytes as usize)
        };
        match store::verify(disks, manifest, &options, &Counters::new(disks.len())) {
            Err(Error::Damaged { path, offset, why: what }) => {
                self.damages.push(Damage { path, offset, what, keys: Vec::new() });
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn check_segment(&mut self, file: &SegmentFile, entry: &SegmentEntry) -> Result<()> {
        let counters = Counters::new(file.directory + 1);
        let first = self.damages.len();
        let tail = self.note(file, file.check(entry, &counters))?;
        let header_noted = self.damages[first..].iter().any(|damage| damage.offset == 0);
        let listed = match tail {
            Some(tail) => self.listed(file, &tail, &counters)?,
            None => None,
        };
        let mut sums = Checksum::new();
        let (length, layout) = (file.file.len()?, &file.layout);
        let pages = 1 + layout.pages(entry.rows);
        let whole_pages = (length / layout.page_bytes as u64).min(u64::from(pages)) as u32;
        let before = self.damages.len();
        let read = file.for_each_page(whole_pages, &counters, &mut |page| {
            self.pages += 1;
            sums.update(&page::sum(page.bytes).to_le_bytes());
            if page.number > PageNumber::HEADER || !header_noted {
                self.check_page(file, listed.as_ref(), page);
            }
            Ok(())
        });
        if self.note(file, read)?.is_none() {
            return Ok(());
        }
        let fits = tail.is_none_or(|tail| tail.pages_sum == sums.value());
        if !fits && self.damages.len() == before && !header_noted {
            let error = file.damaged(0, "the checksum over all pages is wrong");
            self.note::<()>(file, Err(error))?;
        }
        Ok(())
    }

    /// Reads the key and birth of every row, if the footer is intact.
    fn listed(
        &mut self,
        file: &SegmentFile,
        tail: &Tail,
        counters: &Counters,
    ) -> Result<Option<Listed>> {
        let footer = self.note(file, file.footer(tail, counters))?;
        Ok(footer.map(|footer| Listed::new(file, tail, footer)))
    }

    fn check_page(&mut self, file: &SegmentFile, listed: Option<&Listed>, page: PageRead<'_>) {
        let (layout, PageRead { number, bytes, whole }) = (&file.layout, page);
        let rows = match listed {
            Some(listed) if number > PageNumber::HEADER => {
                let first = layout.first_row(number) as usize;
                let end = (first + layout.rows_per_page as usize).min(listed.keys.len());
                first.min(end)..end
            }
            _ => 0..0,
        };
        let fits = |(at, row): (u32, usize)| {
            let found = page::row(bytes, layout, at);
            listed.is_none_or(|listed| listed.has(row, found.key, found.birth))
        };
        let what = if !whole {
            "the page has a wrong checksum"
        } else if !(0..).zip(rows.clone()).all(fits) {
            "the footer lists other rows than the page has"
        } else {
            return;
        };
        let offset = layout.page_offset(number);
        let (path, what) = (file.file.path().to_owned(), what.to_owned());
        let keys = listed.map_or(Vec::new(), |listed| listed.keys[rows].to_vec());
        self.damages.push(Damage { path, offset, what, keys });
    }

    /// Records an error about the store's bytes as damage; returns other errors.
    fn note<T>(&mut self, file: &SegmentFile, outcome: Result<T>) -> Result<Option<T>> {
        let (offset, what) = match outcome {
            Ok(value) => return Ok(Some(value)),
            Err(Error::Damaged { offset, why, .. }) => (offset, why),
            Err(Error::Version { found, known, .. }) => {
                (0, format!("it has format version {found}, this build reads {known}"))
            }
            Err(Error::Disk(error)) if !error.is_no_descriptor() => (0, error.to_string()),
            Err(error) => return Err(error),
        };
        let path = file.file.path().to_owned();
        self.damages.push(Damage { path, offset, what, keys: Vec::new() });
        Ok(None)
    }
}

/// The rows of a segment whose footer is intact.
pub(crate) struct Listed {
    pub(crate) keys: Vec<Key>,
    pub(crate) provenance: Provenance,
    /// Birth of each row; empty except in version 2.
    births: Vec<Birth>,
}

impl Listed {
    pub(crate) fn new(file: &SegmentFile, tail: &Tail, footer: Footer) -> Self {
        let (provenance, births) = (file.provenance(tail, &footer), footer.births().collect());
        Self { keys: footer.keys, provenance, births }
    }

    /// Birth of a row, if it is known without reading its page.
    pub(crate) fn birth(&self, row: usize) -> Option<Birth> {
        let Births { least, greatest } = self.provenance.births;
        self.births.get(row).copied().or((least == greatest).then_some(least))
    }

    /// Whether a row may have this key and birth.
    fn has(&self, row: usize, key: Key, birth: Birth) -> bool {
        self.keys[row] == key
            && self.provenance.births.contains(birth)
            && self.births.get(row).is_none_or(|listed| *listed == birth)
    }
}
