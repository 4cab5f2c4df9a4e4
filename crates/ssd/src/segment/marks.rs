//! The bytes at both ends of a segment: its header page and its tail.
//!
//! ```text
//! header, page 0                              tail, the last 128 bytes
//! offset  bytes                               offset  bytes
//! 0       8      "STEPWSEG"                   0       4      rows
//! 8       4      format version               4       4      runs
//! 12      4      table                        8       4      deletions
//! 16      4      bytes of a row's payload     12      4      generation
//! 20      4      bytes of a page              16      8      XXH3-64 of the footer
//! 24      8      number of the segment        24      8      XXH3-64 of the pages' checksums
//! …              zeros                        32      64     sixteenths of `used`, u32 each
//! end - 8 8      checksum as of any page      96      16     zeros
//!                                             112     8      XXH3-64 of the 112 bytes before, xor
//!                                                            that of (table, segment, 2^32 - 1)
//!                                             120     8      "STEPWEND"
//! ```

use stepwell_base::hash;

use super::page::{self, u32_and_rest, u64_and_rest};
use crate::FORMAT_VERSION;
use crate::layout::{Counts, Layout, TAIL_BYTES};

const HEADER_MAGIC: &[u8; 8] = b"STEPWSEG";
const TAIL_MAGIC: &[u8; 8] = b"STEPWEND";
/// Stands for the tail where pages have their number.
const TAIL_PLACE: u32 = u32::MAX;
/// Where the tail's own checksum lies in it.
const TAIL_SUM_AT: usize = TAIL_BYTES - 16;
/// Parts into which a segment's rows are divided by their last use.
pub(crate) const USED_PARTS: usize = 16;

/// Why bytes are not the mark that was looked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Another version of the format.
    Version(u64),
    /// Something else.
    Damage(String),
}

/// Writes the header page of a segment into a zeroed page and returns its checksum.
pub(crate) fn put_header(page: &mut [u8], layout: &Layout, segment: u64) -> u64 {
    page[..8].copy_from_slice(HEADER_MAGIC);
    page[8..12].copy_from_slice(&(FORMAT_VERSION as u32).to_le_bytes());
    page[12..16].copy_from_slice(&layout.table.to_le_bytes());
    page[16..20].copy_from_slice(&(layout.row_bytes as u32).to_le_bytes());
    page[20..24].copy_from_slice(&(layout.page_bytes as u32).to_le_bytes());
    page[24..32].copy_from_slice(&segment.to_le_bytes());
    page::seal(page, layout.table, segment, 0)
}

/// Checks that a header page is the one of this segment.
pub(crate) fn check_header(bytes: &[u8], layout: &Layout, segment: u64) -> Result<(), Fault> {
    let damage = |why: &str| Err(Fault::Damage(why.to_owned()));
    let Some((magic, rest)) = bytes.split_first_chunk() else { return damage("it is empty") };
    if magic != HEADER_MAGIC {
        return damage("it does not begin as a segment");
    }
    let version = rest.first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
    if version != FORMAT_VERSION {
        return Err(Fault::Version(version));
    }
    let mut expected = vec![0; layout.page_bytes];
    put_header(&mut expected, layout, segment);
    if bytes != expected {
        return damage("the header page is not that of this table and segment");
    }
    Ok(())
}

/// What the end of a segment says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) counts: Counts,
    /// How many merges its rows have been through at most.
    pub(crate) generation: u32,
    pub(crate) footer_sum: u64,
    pub(crate) pages_sum: u64,
    /// Of every sixteenth of the rows, ordered by last use, the latest use; from a sample.
    pub(crate) used: [u32; USED_PARTS],
}

impl Tail {
    pub(crate) fn encode(&self, layout: &Layout, segment: u64) -> [u8; TAIL_BYTES] {
        let mut bytes = [0; TAIL_BYTES];
        bytes[..4].copy_from_slice(&self.counts.rows.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.counts.runs.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.counts.deletions.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.footer_sum.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.pages_sum.to_le_bytes());
        for (place, used) in bytes[32..].chunks_exact_mut(4).zip(self.used) {
            place.copy_from_slice(&used.to_le_bytes());
        }
        let place = page::place_sum(layout.table, segment, TAIL_PLACE);
        let sum = hash::checksum(&bytes[..TAIL_SUM_AT]) ^ place;
        bytes[TAIL_SUM_AT..TAIL_SUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
        bytes[TAIL_SUM_AT + 8..].copy_from_slice(TAIL_MAGIC);
        bytes
    }

    /// The checksum of the tail, which covers the sums of all else in the segment.
    pub(crate) fn sum(&self, layout: &Layout, segment: u64) -> u64 {
        let bytes = self.encode(layout, segment);
        u64_and_rest(&bytes[TAIL_SUM_AT..]).0
    }

    pub(crate) fn decode(
        bytes: &[u8; TAIL_BYTES],
        layout: &Layout,
        segment: u64,
    ) -> Result<Self, Fault> {
        let (rows, rest) = u32_and_rest(bytes);
        let (runs, rest) = u32_and_rest(rest);
        let (deletions, rest) = u32_and_rest(rest);
        let (generation, rest) = u32_and_rest(rest);
        let (footer_sum, rest) = u64_and_rest(rest);
        let (pages_sum, mut rest) = u64_and_rest(rest);
        let mut used = [0; USED_PARTS];
        for part in &mut used {
            (*part, rest) = u32_and_rest(rest);
        }
        let counts = Counts { rows, runs, deletions };
        let tail = Self { counts, generation, footer_sum, pages_sum, used };
        // Every byte follows from the fields, so comparing checks magic, zeros and checksum.
        if tail.encode(layout, segment) == *bytes {
            Ok(tail)
        } else {
            Err(Fault::Damage("the tail is not that of this table and segment".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(layout: &Layout, segment: u64) -> Vec<u8> {
        let mut page = vec![0; layout.page_bytes];
        put_header(&mut page, layout, segment);
        page
    }

    #[test]
    fn every_changed_byte_of_a_header_shows() {
        let layout = Layout::new(5, 64);
        let mut bytes = header(&layout, 8);
        assert_eq!(check_header(&bytes, &layout, 8), Ok(()));
        assert!(check_header(&bytes, &layout, 9).is_err());
        assert!(check_header(&bytes, &Layout::new(6, 64), 8).is_err());
        assert!(check_header(&bytes, &Layout::new(5, 65), 8).is_err());
        assert!(check_header(&bytes[..20], &layout, 8).is_err());
        assert!(check_header(&[], &layout, 8).is_err());
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            let fault = check_header(&bytes, &layout, 8).unwrap_err();
            assert_eq!(matches!(fault, Fault::Version(_)), (8..12).contains(&at), "byte {at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn every_changed_byte_of_a_tail_shows() {
        let layout = Layout::new(5, 64);
        let counts = Counts { rows: 100, runs: 3, deletions: 1 };
        let used = std::array::from_fn(|part| part as u32 * 9);
        let tail = Tail { counts, generation: 2, footer_sum: 0x1234, pages_sum: 77, used };
        let mut bytes = tail.encode(&layout, 8);
        assert_eq!(Tail::decode(&bytes, &layout, 8), Ok(tail));
        assert!(Tail::decode(&bytes, &layout, 9).is_err());
        for at in 0..bytes.len() {
            bytes[at] ^= 0x80;
            assert!(Tail::decode(&bytes, &layout, 8).is_err(), "byte {at}");
            bytes[at] ^= 0x80;
        }
    }
}
