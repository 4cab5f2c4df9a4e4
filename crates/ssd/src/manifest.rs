//! The manifest: which segments make up the store as of its last commit.
//!
//! How       A JSON object in `manifest.json`. Its second line is the checksum of everything after
//!           that line. A new one is written beside the old under another name, synced, and
//!           renamed over it, so that there is always exactly one.
//! Failure   A missing manifest is no store; another version, a changed byte, or numbers that
//!           cannot be are errors, and nothing is guessed from the files that lie around.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stepwell_base::hash;
use stepwell_disk::Disk;

use crate::layout::Layout;
use crate::options::ROW_BYTES_MAX;
use crate::stats::Counters;
use crate::{Error, Result, StoreOptions};

/// Version of the format that this build writes and reads.
pub const FORMAT_VERSION: u64 = 2;
/// Name of the manifest's file.
pub const MANIFEST_NAME: &str = "manifest.json";
/// Name of a manifest that is being written; worth nothing.
const MANIFEST_NEW_NAME: &str = "manifest.json.new";
const FORMAT_NAME: &str = "stepwell segment store";
/// The most bytes of a manifest: some hundred thousand segments.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Commits and changes of a store at most: nobody gets there, and counting on stays possible.
const COUNT_MAX: u64 = 1 << 62;

const HEAD: &str = "{\n  \"checksum\": \"";
const HEAD_END: &str = "\",\n";

/// What a commit names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: String,
    version: u64,
    checksum_name: String,
    /// Number of the table.
    pub table: u32,
    /// Bytes of a row's payload.
    pub row_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Number of the commit, the empty store's being 0.
    pub commit: u64,
    /// Rows that were put and keys that were deleted so far: what this commit is a prefix of.
    pub next_seq: u64,
    /// Rows last used before this step do not count.
    pub expire_before: u32,
    /// The directories that segments were put into, the one with the manifest first.
    pub directories: Vec<String>,
    /// Number of the next segment.
    pub next_segment: u64,
    /// Rows that the store has.
    pub rows: u64,
    /// The segments, by number.
    pub segments: Vec<SegmentEntry>,
}

/// A segment as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentEntry {
    /// Its number.
    pub segment: u64,
    /// Rows in it, live and stale.
    pub rows: u32,
    /// Length of its file.
    pub bytes: u64,
    /// Checksum of its tail, which covers the sums of all else in it; 16 hexadecimal digits.
    pub checksum: String,
}

impl SegmentEntry {
    /// The checksum as a number; no number is none that a tail has.
    pub(crate) fn sum(&self) -> u64 {
        u64::from_str_radix(&self.checksum, 16).unwrap_or_default()
    }
}

/// A checksum as it is written in JSON.
pub(crate) fn sum_text(sum: u64) -> String {
    format!("{sum:016x}")
}

impl Manifest {
    /// The manifest of an empty store.
    pub(crate) fn empty(layout: &Layout) -> Self {
        Self {
            format: FORMAT_NAME.to_owned(),
            version: FORMAT_VERSION,
            checksum_name: hash::CHECKSUM_NAME.to_owned(),
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

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.table, self.row_bytes as usize)
    }

    /// Reads the manifest of the store in `disk`.
    ///
    /// # Errors
    /// When there is none, or it is damaged or of another version.
    pub fn load(disk: &dyn Disk) -> Result<Self> {
        if !disk.exists(MANIFEST_NAME)? {
            return Err(Error::Missing { path: disk.path().to_owned() });
        }
        let path = disk.path().join(MANIFEST_NAME);
        let bytes = disk.read(MANIFEST_NAME, MANIFEST_BYTES_MAX)?;
        decode(&bytes, path)
    }

    /// Writes the manifest beside the old one and puts it in its place; the names of all segments
    /// in the directory become durable before.
    pub(crate) fn store(&self, disk: &dyn Disk, counters: &Counters) -> Result<()> {
        if disk.exists(MANIFEST_NEW_NAME)? {
            disk.remove(MANIFEST_NEW_NAME)?;
        }
        let bytes = self.encode();
        let file = disk.create(MANIFEST_NEW_NAME)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
        disk.sync_directory()?;
        disk.rename(MANIFEST_NEW_NAME, MANIFEST_NAME)?;
        counters.wrote(0, bytes.len());
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        #[expect(clippy::expect_used, reason = "numbers, strings and lists always serialize")]
        let json = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        let body = format!("{}\n", json.trim_start_matches("{\n"));
        let sum = sum_text(hash::checksum(body.as_bytes()));
        format!("{HEAD}{sum}{HEAD_END}{body}").into_bytes()
    }

    /// Checks that the store holds the rows that `options` describe.
    pub(crate) fn check(&self, options: &StoreOptions, disk: &dyn Disk) -> Result<()> {
        let path = disk.path().join(MANIFEST_NAME);
        let differ = |what: &str, found: u64, asked: u64| {
            let why = format!("holds {what} {found}, but {asked} was asked for");
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

    /// What cannot be although the checksum holds.
    fn fault(&self) -> Option<&'static str> {
        let numbers: BTreeSet<u64> = self.segments.iter().map(|entry| entry.segment).collect();
        let layout_fits = (1..=ROW_BYTES_MAX as u64).contains(&self.row_bytes)
            && self.layout().page_bytes as u64 == self.page_bytes;
        let holds = |entry: &SegmentEntry| self.layout().footer_offset(entry.rows) <= entry.bytes;
        let rows: u64 = self.segments.iter().map(|entry| u64::from(entry.rows)).sum();
        if self.format != FORMAT_NAME || self.checksum_name != hash::CHECKSUM_NAME {
            Some("it is not a manifest of a segment store")
        } else if !layout_fits {
            Some("pages do not fit the rows")
        } else if !self.segments.iter().all(holds) {
            Some("a segment has fewer bytes than its rows take")
        } else if self.commit > COUNT_MAX || self.next_seq > COUNT_MAX {
            Some("it counts more than there can have been")
        } else if self.rows > rows {
            Some("there are more rows than the segments have")
        } else if numbers.len() != self.segments.len() {
            Some("a segment is named twice")
        } else if !self.segments.is_sorted_by_key(|entry| entry.segment) {
            Some("segments are not in order of their numbers")
        } else if numbers.last().is_some_and(|last| *last >= self.next_segment) {
            Some("a segment has a number that was not given yet")
        } else if self.next_segment > u64::from(u32::MAX) {
            Some("segment numbers have run out")
        } else {
            None
        }
    }
}

fn decode(bytes: &[u8], path: PathBuf) -> Result<Manifest> {
    // The version comes first: another one may sum up otherwise.
    let version = serde_json::from_slice::<serde_json::Value>(bytes).ok();
    match version.and_then(|value| value.get("version").and_then(serde_json::Value::as_u64)) {
        Some(FORMAT_VERSION) | None => {}
        Some(found) => return Err(Error::Version { path, found, known: FORMAT_VERSION }),
    }
    let damaged = |why: &str| Error::Damaged { path: path.clone(), offset: 0, why: why.to_owned() };
    let body = checked_body(bytes).ok_or_else(|| damaged("it does not have its checksum"))?;
    let manifest = serde_json::from_str::<Manifest>(&format!("{{\n{body}"));
    let manifest = manifest.map_err(|error| damaged(&error.to_string()))?;
    match manifest.fault() {
        None => Ok(manifest),
        Some(why) => Err(damaged(why)),
    }
}

/// What follows the checksum's line, if it has that checksum.
pub(crate) fn checked_body(bytes: &[u8]) -> Option<&str> {
    let rest = std::str::from_utf8(bytes).ok()?.strip_prefix(HEAD)?;
    let (sum, body) = rest.split_once(HEAD_END)?;
    (sum == sum_text(hash::checksum(body.as_bytes()))).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let mut manifest = Manifest::empty(&Layout::new(2, 64));
        manifest.next_segment = 9;
        for segment in [3, 8] {
            let checksum = sum_text(segment * 0x1234_5678_9abc);
            manifest.segments.push(SegmentEntry { segment, rows: 7, bytes: 8304, checksum });
        }
        manifest
    }

    fn read(bytes: &[u8]) -> Result<Manifest> {
        decode(bytes, PathBuf::from("m"))
    }

    #[test]
    fn is_plain_json_and_comes_back() {
        let bytes = manifest().encode();
        assert_eq!(read(&bytes).unwrap(), manifest());
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["segments"][1]["segment"], 8);
        assert_eq!(value["checksum"].as_str().unwrap().len(), 16);
    }

    #[test]
    fn every_changed_or_missing_byte_shows() {
        let bytes = manifest().encode();
        for at in 0..bytes.len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                read(&bytes).unwrap_err();
            }
            read(&bytes[..at]).unwrap_err();
        }
    }

    #[test]
    fn another_version_is_said_to_be_one() {
        let bytes = String::from_utf8(manifest().encode()).unwrap();
        let other = bytes.replace("\"version\": 2", "\"version\": 3");
        let message = read(other.as_bytes()).unwrap_err().to_string();
        assert!(message.contains("format version 3, this build reads version 2"), "{message}");
    }

    #[test]
    fn impossible_numbers_show() {
        let wrong = [
            Manifest { page_bytes: 8192, ..manifest() },
            Manifest { row_bytes: 0, ..manifest() },
            Manifest { next_segment: 8, ..manifest() },
            Manifest { format: "other".to_owned(), ..manifest() },
            Manifest { segments: vec![manifest().segments[0].clone(); 2], ..manifest() },
        ];
        for manifest in wrong {
            assert!(matches!(read(&manifest.encode()), Err(Error::Damaged { .. })));
        }
    }
}
