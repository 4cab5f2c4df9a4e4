//! Checking every byte of a store or snapshot against its checksums.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use stepwell_base::Key;
use stepwell_base::hash::Checksum;
use stepwell_disk::Disk;

use crate::layout::Layout;
use crate::lock;
use crate::segment::{self, Footer, SegmentFile, Tail, page};
use crate::stats::Counters;
use crate::{Error, Manifest, Result, SegmentEntry};

/// What was checked, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Number of the commit.
    pub commit: u64,
    /// Segments that it names.
    pub segments: u64,
    /// Pages of them that were read, headers included.
    pub pages: u64,
    /// Rows in them, live and stale, as the manifest says.
    pub rows: u64,
    /// Bytes of their files, as the manifest says.
    pub bytes: u64,
    /// Everything that does not fit.
    pub damages: Vec<Damage>,
}

/// Something that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where the damaged part starts.
    pub offset: u64,
    /// What it is.
    pub what: String,
    /// Keys of the rows that lie there, stale ones too, where the footer still tells.
    #[serde(serialize_with = "as_text")]
    pub keys: Vec<Key>,
}

fn as_text<S: serde::Serializer>(keys: &[Key], to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_seq(keys.iter().map(|key| format!("{:016x}", key.0)))
}

/// Reads everything that the manifest names, over the store's directories, and checks it: each
/// file's length, header, tail, footer and pages, and the list of keys against the pages. Goes on
/// after damage, so that all of it is found.
///
/// Holds 16 bytes for each row of a segment, and a chunk of its file.
///
/// # Errors
/// When somebody has the store open, or the manifest cannot be read. A segment that cannot be is
/// damaged.
pub fn check(disks: &[Arc<dyn Disk>]) -> Result<Checked> {
    let none = || Error::Options("a store needs at least one directory".to_owned());
    let _locks = lock::shared(disks)?;
    let manifest = Manifest::load(&**disks.first().ok_or_else(none)?)?;
    let mut checked = Checked { commit: manifest.commit, ..Checked::default() };
    let layout = manifest.layout();
    for entry in &manifest.segments {
        checked.segments += 1;
        checked.rows += u64::from(entry.rows);
        checked.bytes = checked.bytes.saturating_add(entry.bytes);
        let path = disks[0].path().join(segment::name(entry.segment));
        let lost = |what: String| Damage { path, offset: 0, what, keys: Vec::new() };
        match locate(disks, entry.segment) {
            Ok(Some(file)) => checked.check_segment(&file, &layout, entry)?,
            Ok(None) => {
                checked.damages.push(lost("it is in none of the directories".to_owned()));
            }
            Err(Error::Disk(error)) => checked.damages.push(lost(error.to_string())),
            Err(error) => return Err(error),
        }
    }
    Ok(checked)
}

/// The file of a segment, wherever it lies.
pub(crate) fn locate(disks: &[Arc<dyn Disk>], number: u64) -> Result<Option<SegmentFile>> {
    for (directory, disk) in disks.iter().enumerate() {
        if disk.exists(&segment::name(number))? {
            return Ok(Some(SegmentFile::open(&**disk, directory, number)?));
        }
    }
    Ok(None)
}

impl Checked {
    fn check_segment(
        &mut self,
        file: &SegmentFile,
        layout: &Layout,
        entry: &SegmentEntry,
    ) -> Result<()> {
        let counters = Counters::new(file.directory + 1);
        let first = self.damages.len();
        let tail = self.note(file, file.check(layout, entry, &counters))?;
        let header_noted = self.damages[first..].iter().any(|damage| damage.offset == 0);
        let keys = match tail {
            Some(tail) => self.keys(file, layout, &tail, &counters)?,
            None => None,
        };
        let mut sums = Checksum::new();
        let length = file.file.len()?;
        let pages = 1 + layout.pages(entry.rows);
        let whole_pages = (length / layout.page_bytes as u64).min(u64::from(pages)) as u32;
        let before = self.damages.len();
        let read =
            file.for_each_page(layout, whole_pages, &counters, &mut |number, bytes, whole| {
                self.pages += 1;
                sums.update(&page::sum(bytes).to_le_bytes());
                if number > 0 || !header_noted {
                    self.check_page(file, layout, keys.as_deref(), (number, bytes, whole));
                }
                Ok(())
            });
        if self.note(file, read)?.is_none() {
            return Ok(());
        }
        let fits = tail.is_none_or(|tail| tail.pages_sum == sums.value());
        if !fits && self.damages.len() == before && !header_noted {
            let error = file.damaged(0, "the pages' checksums do not have theirs");
            self.note::<()>(file, Err(error))?;
        }
        Ok(())
    }

    /// Key and birth of every row, where the footer is whole.
    fn keys(
        &mut self,
        file: &SegmentFile,
        layout: &Layout,
        tail: &Tail,
        counters: &Counters,
    ) -> Result<Option<Vec<(Key, u32)>>> {
        let footer = file.footer(layout, tail, counters);
        let Some(footer) = self.note(file, footer)? else { return Ok(None) };
        let keys = entries(file, layout, tail, &footer, counters);
        self.note(file, keys)
    }

    fn check_page(
        &mut self,
        file: &SegmentFile,
        layout: &Layout,
        keys: Option<&[(Key, u32)]>,
        (number, bytes, whole): (u32, &[u8], bool),
    ) {
        let listed = match (keys, number) {
            (Some(keys), 1..) => {
                let first = layout.first_row(number) as usize;
                let end = (first + layout.rows_per_page as usize).min(keys.len());
                &keys[first.min(end)..end]
            }
            _ => &[],
        };
        let fits = |at: usize, listed: &(Key, u32)| {
            let row = page::row(bytes, layout, at as u32);
            (row.key, row.birth) == *listed
        };
        let what = if !whole {
            "the page does not have its checksum"
        } else if !listed.iter().enumerate().all(|(at, listed)| fits(at, listed)) {
            "the footer names other rows than the page has"
        } else {
            return;
        };
        let offset = layout.page_offset(number);
        let (path, what) = (file.file.path().to_owned(), what.to_owned());
        let keys = listed.iter().map(|(key, _)| *key).collect();
        self.damages.push(Damage { path, offset, what, keys });
    }

    /// Notes an error about the store's bytes, and passes on others.
    fn note<T>(&mut self, file: &SegmentFile, outcome: Result<T>) -> Result<Option<T>> {
        let (offset, what) = match outcome {
            Ok(value) => return Ok(Some(value)),
            Err(Error::Damaged { offset, why, .. }) => (offset, why),
            Err(Error::Version { found, known, .. }) => {
                (0, format!("it says format version {found}, this build reads {known}"))
            }
            Err(Error::Disk(error)) => (0, error.to_string()),
            Err(error) => return Err(error),
        };
        let path = file.file.path().to_owned();
        self.damages.push(Damage { path, offset, what, keys: Vec::new() });
        Ok(None)
    }
}

/// Key and birth of every row of a segment whose footer is whole.
pub(crate) fn entries(
    file: &SegmentFile,
    layout: &Layout,
    tail: &Tail,
    footer: &Footer,
    counters: &Counters,
) -> Result<Vec<(Key, u32)>> {
    let mut keys = Vec::with_capacity(tail.counts.rows as usize);
    file.for_each_key(layout, tail, footer, counters, &mut |_, key, birth| {
        keys.push((key, birth));
        Ok(())
    })?;
    Ok(keys)
}
