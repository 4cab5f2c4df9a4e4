//! Segments: immutable files of rows.
//!
//! [`page`] and [`header_and_tail`] define the bytes; [`pages`] packs rows into pages in memory;
//! [`draft`] collects the contents of the footer; [`reader`] and [`footer`] read a file and trust
//! nothing.

pub(crate) mod draft;
pub(crate) mod entry;
pub(crate) mod footer;
pub(crate) mod header_and_tail;
mod held_file;
pub(crate) mod page;
pub(crate) mod pages;
pub(crate) mod reader;

pub(crate) use draft::Draft;
pub(crate) use header_and_tail::{Header, Tail};
pub(crate) use held_file::hold;
pub(crate) use pages::PageBuffer;
pub(crate) use reader::{PageRead, SegmentFile, Spot};

use crate::numbers::SegmentNumber;

/// The most bytes of footers and pages per read when reading sequentially.
pub(crate) const READ_BYTES: u64 = 1 << 20;

const NAME_PREFIX: &str = "segment-";
const NAME_SUFFIX: &str = ".rows";

/// Name of a segment's file.
pub(crate) fn name(number: SegmentNumber) -> String {
    let number = u64::from(number);
    format!("{NAME_PREFIX}{number:012}{NAME_SUFFIX}")
}

/// Number in a file name of the form of segments' names. It may exceed any segment's number.
pub(crate) fn number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    number.parse().ok()
}

/// Whether a file's name is like a segment's, whatever its contents.
pub fn is_segment(name: &str) -> bool {
    name.strip_prefix(NAME_PREFIX).is_some_and(|rest| rest.ends_with(NAME_SUFFIX))
}

/// Number of the segment whose file has or had this name: files set aside may have a suffix.
pub(crate) fn number_of_any(name: &str) -> Option<SegmentNumber> {
    let (number, _) = name.strip_prefix(NAME_PREFIX)?.split_once(NAME_SUFFIX)?;
    number.parse().ok().and_then(SegmentNumber::new)
}
