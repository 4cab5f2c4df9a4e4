//! Segments: immutable files of rows.
//!
//! [`page`] and [`marks`] know the bytes; [`pages`] packs rows into pages in memory; [`builder`]
//! writes a segment's file front to back; [`reader`] reads one back and trusts nothing.

pub(crate) mod builder;
pub(crate) mod marks;
pub(crate) mod page;
pub(crate) mod pages;
pub(crate) mod reader;

pub(crate) use builder::{Builder, Sealed};
pub(crate) use pages::PageBuffer;
pub(crate) use reader::SegmentFile;

/// The most bytes that footers and files are read or written at once.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

const NAME_PREFIX: &str = "segment-";
const NAME_SUFFIX: &str = ".rows";

/// Name of a segment's file.
pub(crate) fn name(number: u64) -> String {
    format!("{NAME_PREFIX}{number:012}{NAME_SUFFIX}")
}

/// Whether a file is called like a segment.
pub(crate) fn is_name(name: &str) -> bool {
    let number = name.strip_prefix(NAME_PREFIX).and_then(|rest| rest.strip_suffix(NAME_SUFFIX));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}
