//! The manifest: the segments that make up the store as of its last commit.
//!
//! - **How.** A JSON object in `manifest.json`. Its second line is the checksum of everything after
//!   that line. A new manifest is written under another name, synced, and renamed over the old one,
//!   so that there is always exactly one.
//! - **Failure.** A directory without a manifest has no store. Another version, a changed byte or
//!   impossible numbers are errors; nothing is guessed from other files.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stepwell_base::hash;
use stepwell_disk::Disk;

use crate::identity::{Origin, StoreId};
use crate::key_shard::KeyShardSet;
use crate::layout::{FORMAT_VERSION, Layout, ROW_BYTES_MAX};
use crate::numbers::SegmentNumber;
use crate::options::StoreOptions;
use crate::segment::Spot;
use crate::segment::entry::SegmentEntry;
use crate::stats::Counters;
use crate::{Error, Result};

/// The previous version; such a store keeps it until its next commit.
const FORMAT_VERSION_BEFORE: u64 = 2;
/// Name of the manifest's file.
pub const MANIFEST_NAME: &str = "manifest.json";
/// Name of a manifest that is being written; never read.
const MANIFEST_NEW_NAME: &str = "manifest.json.new";
const FORMAT_NAME: &str = "stepwell segment store";
/// The most bytes of a manifest, written or read.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// The most segments of a store: each takes a line of at most 136 bytes.
pub const SEGMENTS_MAX: usize = 480_000;

/// The most commits and changes of a store: out of reach, and counting further cannot overflow.
const COUNT_MAX: u64 = 1 << 62;

const HEAD: &str = "{\n  \"checksum\": \"";
const HEAD_END: &str = "\",\n";
/// How an empty list of segments, the last field, is written.
const SEGMENTS_EMPTY: &str = "\"segments\": []\n}";

/// Contents of a commit: properties of the store, and its segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: String,
    version: u64,
    checksum_name: String,
    /// The store's id; [`StoreId::OLD`] for version 2 until the store is opened.
    #[serde(default = "StoreId::old")]
    pub(crate) store: StoreId,
    /// The key shards whose keys the store may have.
    #[serde(default = "KeyShardSet::all", skip_serializing_if = "KeyShardSet::is_all")]
    pub key_shards: KeyShardSet,
    /// Other stores that segments come from, and which of their key shards count.
    #[serde(default)]
    pub(crate) origins: Vec<Adopted>,
    /// Number of the table.
    pub table: u32,
    /// Bytes of a row's payload.
    pub row_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Number of the commit; 0 for the empty store.
    pub commit: u64,
    /// Number of rows put and keys deleted before this commit.
    pub next_seq: u64,
    /// Rows last used before this step do not count.
    pub expire_before: u32,
    /// The directories that segments were put into, the manifest's own first.
    pub directories: Vec<String>,
    /// Number of the next segment.
    pub next_segment: u64,
    /// Number of rows in the store.
    pub rows: u64,
    /// The segments, by number.
    pub segments: Vec<SegmentEntry>,
}

/// Another store that segments come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Adopted {
    /// Id of the other store.
    pub(crate) store: StoreId,
    /// The key shards that count in its segments; `None` means all of the manifest's store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_shards: Option<KeyShardSet>,
}

impl Serialize for StoreId {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StoreId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("an id has 32 hexadecimal digits"))
    }
}

/// Formats a checksum for JSON.
pub(crate) fn sum_text(sum: u64) -> String {
    format!("{sum:016x}")
}

impl Manifest {
    /// The manifest of an empty store.
    pub(crate) fn empty(store: StoreId, layout: &Layout) -> Self {
        Self {
            format: FORMAT_NAME.to_owned(),
            version: FORMAT_VERSION,
            checksum_name: hash::CHECKSUM_NAME.to_owned(),
            store,
            key_shards: KeyShardSet::ALL,
            origins: Vec::new(),
            table: layout.table,
            row_bytes: layout.row_bytes as u64,
            page_bytes: layout.page_bytes as u64,
            commit: 0,
            next_seq: 0,
            expire_before: 0,
            directories: Vec::new(),
            next_segment: 1,
            rows: 0,
            segments: Vec::new(),
        }
    }

    /// Layout of new segments.
    pub(crate) fn layout(&self) -> Layout {
        Layout::with_page(self.table, self.row_bytes as usize, self.page_bytes as usize)
    }

    /// Number of rows in all segments, live and stale.
    pub(crate) fn rows_all(&self) -> u64 {
        self.segments.iter().map(|entry| u64::from(entry.rows)).sum()
    }

    /// The store that made a segment, and its number there.
    pub(crate) fn origin(&self, entry: &SegmentEntry) -> Origin {
        let store = self.adopted(entry).map_or(self.store, |adopted| adopted.store);
        let number = entry.number.unwrap_or(entry.segment);
        Origin { store, number: SegmentNumber::of_manifest(number) }
    }

    fn adopted(&self, entry: &SegmentEntry) -> Option<&Adopted> {
        entry.origin.map(|origin| &self.origins[origin as usize])
    }

    /// The key shards whose rows and deletions in a segment count.
    pub(crate) fn counting(&self, entry: &SegmentEntry) -> KeyShardSet {
        let adopted = self.adopted(entry).and_then(|adopted| adopted.key_shards);
        adopted.unwrap_or(self.key_shards)
    }

    /// Returns the place and format of a segment in the given directory.
    pub(crate) fn spot(&self, entry: &SegmentEntry, directory: usize) -> Spot {
        let (origin, layout) = (self.origin(entry), self.layout());
        let old = origin.store == StoreId::OLD;
        let layout = if old { layout.of_version_2() } else { layout };
        let counting = self.counting(entry);
        Spot { directory, number: entry.here(), cached: false, layout, origin, counting }
    }

    /// Names a segment of any origin; the key shards in `counting` count in it.
    pub(crate) fn name(&mut self, origin: Origin, counting: KeyShardSet, mut entry: SegmentEntry) {
        if origin.store != self.store {
            let key_shards = Some(counting).filter(|counting| *counting != self.key_shards);
            let adopted = Adopted { store: origin.store, key_shards };
            let known = self.origins.iter().position(|other| *other == adopted);
            let place = known.unwrap_or_else(|| {
                self.origins.push(adopted);
                self.origins.len() - 1
            });
            entry.origin = Some(place as u32);
            entry.number = Some(origin.number.into());
        }
        self.segments.push(entry);
    }

    /// The same manifest for a store with id `store`, which adopts all segments.
    pub(crate) fn adopted_by(&self, store: StoreId) -> Self {
        let mut manifest =
            Self { store, origins: Vec::new(), segments: Vec::new(), ..self.clone() };
        for entry in &self.segments {
            let entry_alone = SegmentEntry { origin: None, number: None, ..entry.clone() };
            manifest.name(self.origin(entry), self.counting(entry), entry_alone);
        }
        manifest
    }

    /// Reads the manifest of the store in `disk`.
    ///
    /// # Errors
    /// If the manifest is missing, damaged or of another version.
    pub fn load(disk: &dyn Disk) -> Result<Self> {
        if !disk.exists(MANIFEST_NAME)? {
            return Err(Error::Missing { path: disk.path().to_owned() });
        }
        let path = disk.path().join(MANIFEST_NAME);
        let bytes = disk.read(MANIFEST_NAME, MANIFEST_BYTES_MAX)?;
        decode(&bytes, path)
    }

    /// Writes the manifest under another name and renames it over the old one; before that, the
    /// names of all segments in the directory become durable.
    pub(crate) fn store(&self, disk: &dyn Disk, counters: &Counters) -> Result<()> {
        let bytes = self.encode();
        self.check_bound(bytes.len() as u64)?;
        if disk.exists(MANIFEST_NEW_NAME)? {
            disk.remove(MANIFEST_NEW_NAME)?;
        }
        let file = disk.create(MANIFEST_NEW_NAME)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        disk.sync_directory()?;
        disk.rename(MANIFEST_NEW_NAME, MANIFEST_NAME)?;
        counters.wrote(0, bytes.len());
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let head = Self { segments: Vec::new(), ..self.clone() };
        #[expect(clippy::expect_used, reason = "numbers, strings and lists always serialize")]
        let head = serde_json::to_string_pretty(&head).expect("a manifest is plain data");
        let head = head.trim_start_matches("{\n").trim_end_matches(SEGMENTS_EMPTY);
        let mut body = format!("{head}\"segments\": [");
        for (number, entry) in self.segments.iter().enumerate() {
            #[expect(clippy::expect_used, reason = "the same")]
            let line = serde_json::to_string(entry).expect("an entry is plain data");
            body.push_str(if number == 0 { "\n    " } else { ",\n    " });
            body.push_str(&line);
        }
        body.push_str(if self.segments.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" });
        let sum = sum_text(hash::checksum(body.as_bytes()));
        format!("{HEAD}{sum}{HEAD_END}{body}").into_bytes()
    }

    /// Refuses to write a manifest too large to read back.
    fn check_bound(&self, bytes: u64) -> Result<()> {
        if bytes <= MANIFEST_BYTES_MAX {
            return Ok(());
        }
        Err(Error::Options(format!(
            "a manifest of {} segments takes {bytes} bytes, more than the maximum of \
             {MANIFEST_BYTES_MAX}: copy the store into one of larger segments (tiers.segment)",
            self.segments.len()
        )))
    }

    /// Checks that the store has the rows that `options` describe.
    pub(crate) fn check(&self, options: &StoreOptions, disk: &dyn Disk) -> Result<()> {
        let path = disk.path().join(MANIFEST_NAME);
        let differ = |what: &str, found: u64, asked: u64| {
            let why = format!("holds {what} {found}, but {asked} was requested");
            Err(Error::Mismatch { path: path.clone(), why })
        };
        if self.table != options.table {
            return differ("rows of table", self.table.into(), options.table.into());
        }
        if self.row_bytes != options.row_bytes as u64 {
            return differ("rows whose bytes are", self.row_bytes, options.row_bytes as u64);
        }
        Ok(())
    }

    /// Describes the first impossible value in a manifest whose checksum is right; `None` if all
    /// are possible.
    fn fault(&self) -> Option<&'static str> {
        let numbers: BTreeSet<u64> = self.segments.iter().map(|entry| entry.segment).collect();
        let (row, page) = (self.row_bytes as usize, self.page_bytes as usize);
        let layout_fits = (1..=ROW_BYTES_MAX as u64).contains(&self.row_bytes)
            && self.page_bytes <= 2 * ROW_BYTES_MAX as u64
            && Layout::holds_rows(page, row)
            && (self.version > 2 || page == Layout::old(self.table, row).page_bytes);
        let holds = |entry: &SegmentEntry| self.layout().footer_offset(entry.rows) <= entry.bytes;
        let rows = self.rows_all();
        if self.format != FORMAT_NAME || self.checksum_name != hash::CHECKSUM_NAME {
            Some("it is not a manifest of a segment store")
        } else if !layout_fits {
            Some("pages do not fit the rows")
        } else if !self.segments.iter().all(holds) {
            Some("a segment has fewer bytes than its rows take")
        } else if self.commit > COUNT_MAX || self.next_seq > COUNT_MAX {
            Some("it has impossibly high counts")
        } else if self.rows > rows {
            Some("it counts more rows than the segments have")
        } else if numbers.len() != self.segments.len() {
            Some("a segment is named twice")
        } else if !self.segments.is_sorted_by_key(|entry| entry.segment) {
            Some("segments are not sorted by number")
        } else if numbers.last().is_some_and(|last| *last >= self.next_segment) {
            Some("a segment has a number that is not in use yet")
        } else if self.next_segment > u64::from(SegmentNumber::END) {
            Some("segment numbers have run out")
        } else if !self.segments.iter().all(|entry| self.has_origin(entry)) {
            Some("a segment has an invalid origin")
        } else if self.key_shards.is_empty() || !self.origins.iter().all(|of| self.has_shards(of)) {
            Some("it counts rows of key shards that it does not have")
        } else if (self.store == StoreId::OLD) != (self.version == FORMAT_VERSION_BEFORE) {
            Some("a store has an id if, and only if, its version is 3 or later")
        } else {
            None
        }
    }

    /// Whether a segment has a valid origin, or none because this store made it.
    fn has_origin(&self, entry: &SegmentEntry) -> bool {
        match (entry.origin, entry.number) {
            (None, None) => true,
            (Some(origin), Some(number)) => {
                (origin as usize) < self.origins.len() && number < self.next_segment
            }
            _ => false,
        }
    }

    fn has_shards(&self, adopted: &Adopted) -> bool {
        adopted.key_shards.is_none_or(|counting| counting.without(self.key_shards).is_empty())
    }

    /// Converts a manifest of the previous version to this one.
    fn upgraded(mut self) -> Self {
        if self.version == FORMAT_VERSION_BEFORE {
            self.version = FORMAT_VERSION;
            self.origins = vec![Adopted { store: StoreId::OLD, key_shards: None }];
            for entry in &mut self.segments {
                (entry.origin, entry.number) = (Some(0), Some(entry.segment));
            }
        }
        self
    }
}

fn decode(bytes: &[u8], path: PathBuf) -> Result<Manifest> {
    // The version is checked first: other versions may have other checksums.
    let version = serde_json::from_slice::<serde_json::Value>(bytes).ok();
    match version.and_then(|value| value.get("version").and_then(serde_json::Value::as_u64)) {
        Some(FORMAT_VERSION | FORMAT_VERSION_BEFORE) | None => {}
        Some(found) => return Err(Error::Version { path, found, known: FORMAT_VERSION }),
    }
    let damaged = |why: &str| Error::Damaged { path: path.clone(), offset: 0, why: why.to_owned() };
    let body = checked_body(bytes).ok_or_else(|| damaged("it has a wrong checksum"))?;
    let manifest = serde_json::from_str::<Manifest>(&format!("{{\n{body}"));
    let manifest = manifest.map_err(|error| damaged(&error.to_string()))?;
    match manifest.fault() {
        None => Ok(manifest.upgraded()),
        Some(why) => Err(damaged(why)),
    }
}

/// Returns the text after the checksum's line if it has that checksum.
pub(crate) fn checked_body(bytes: &[u8]) -> Option<&str> {
    let rest = std::str::from_utf8(bytes).ok()?.strip_prefix(HEAD)?;
    let (sum, body) = rest.split_once(HEAD_END)?;
    (sum == sum_text(hash::checksum(body.as_bytes()))).then_some(body)
}

#[cfg(test)]
mod tests;
