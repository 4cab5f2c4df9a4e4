//! Segments: immutable files of rows.
//!
//! [`page`] and [`marks`] know the bytes; [`pages`] packs rows into pages in memory; [`draft`]
//! collects what the footer will say; [`reader`] and [`footer`] read a file back and trust nothing.

pub(crate) mod draft;
pub(crate) mod footer;
mod held;
pub(crate) mod marks;
pub(crate) mod page;
pub(crate) mod pages;
pub(crate) mod reader;

pub(crate) use draft::{Deletion, Draft};
pub(crate) use held::hold;
pub(crate) use marks::{Header, Tail};
pub(crate) use pages::PageBuffer;
pub(crate) use reader::{SegmentFile, Spot};

/// The most bytes of footers and pages that are read one after the other.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// Above all numbers of segments.
pub(crate) const NUMBER_END: u32 = (1 << 31) - 1;

const NAME_PREFIX: &str = "segment-";
const NAME_SUFFIX: &str = ".rows";

/// Name of a segment's file.
pub(crate) fn name(number: u64) -> String {
    format!("{NAME_PREFIX}{number:012}{NAME_SUFFIX}")
}

/// The number of the segment whose file is called so.
pub(crate) fn number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    number.parse().ok()
}

/// Whether a file is called as segments are, whatever is in it.
pub fn is_segment(name: &str) -> bool {
    name.strip_prefix(NAME_PREFIX).is_some_and(|rest| rest.ends_with(NAME_SUFFIX))
}

/// The number of the segment whose file is or was called so: one set aside may have got a suffix.
pub(crate) fn number_of_any(name: &str) -> Option<u64> {
    let (number, _) = name.strip_prefix(NAME_PREFIX)?.split_once(NAME_SUFFIX)?;
    number.parse().ok().filter(|number| *number < u64::from(NUMBER_END))
}
