//! The bytes at both ends of a segment: its header page and its tail.
//!
//! ```text
//! header, page 0                              tail, the last 128 bytes
//! offset  bytes                               offset  bytes
//! 0       8      "STEPWSEG"                   0       4      rows
//! 8       4      format version               4       4      least birth (version 2: runs)
//! 12      4      table                        8       4      deletions
//! 16      4      bytes of a row's payload     12      4      generation
//! 20      4      bytes of a page              16      8      XXH3-64 of the footer
//! 24      8      number at its origin         24      8      XXH3-64 of the pages' checksums
//! 32      16     id of its origin             32      64     sixteenths of `used`, u32 each
//!                (version 2: zeros)           96      4      greatest birth (version 2: zeros)
//! …              zeros                        100     12     zeros
//! end - 8 8      checksum as of any page      112     8      XXH3-64 of the 112 bytes before, xor
//!                                                            that of its place, as page 2^32 - 1
//!                                             120     8      "STEPWEND"
//! ```

use stepwell_base::hash;

use super::page::{self, u32_and_rest, u64_and_rest};
use crate::identity::{Origin, StoreId};
use crate::layout::{Counts, Layout, ROW_BYTES_MAX, TAIL_BYTES, Version};
use crate::numbers::{Birth, Births, PageNumber, SegmentNumber};

const HEADER_MAGIC: &[u8; 8] = b"STEPWSEG";
const TAIL_MAGIC: &[u8; 8] = b"STEPWEND";
/// Page number of the tail in its place sum.
const TAIL_PLACE: PageNumber = PageNumber(u32::MAX);
/// Offset of the tail's own checksum in it.
const TAIL_SUM_AT: usize = TAIL_BYTES - 16;
/// Number of parts into which a segment's rows are divided by last use.
pub(crate) const USED_PARTS: usize = 16;

/// Reason why bytes are not the expected header or tail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes are of another version of the format.
    Version(u64),
    /// The bytes are damaged.
    Damage(String),
}

impl Version {
    /// The number in headers and manifests.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// Writes the header page of a segment into a zeroed page and returns its checksum.
pub(crate) fn put_header(page: &mut [u8], layout: &Layout, origin: &Origin) -> u64 {
    page[..8].copy_from_slice(HEADER_MAGIC);
    page[8..12].copy_from_slice(&layout.version.number().to_le_bytes());
    page[12..16].copy_from_slice(&layout.table.to_le_bytes());
    page[16..20].copy_from_slice(&(layout.row_bytes as u32).to_le_bytes());
    page[20..24].copy_from_slice(&(layout.page_bytes as u32).to_le_bytes());
    page[24..32].copy_from_slice(&u64::from(origin.number).to_le_bytes());
    page[32..48].copy_from_slice(&origin.store.to_bytes());
    page::seal(page, layout.table, origin, PageNumber::HEADER)
}

/// Checks that a header page belongs to this segment.
pub(crate) fn check_header(bytes: &[u8], layout: &Layout, origin: &Origin) -> Result<(), Fault> {
    let damage = |why: &str| Err(Fault::Damage(why.to_owned()));
    let Some((magic, rest)) = bytes.split_first_chunk() else { return damage("it is empty") };
    if magic != HEADER_MAGIC {
        return damage("it does not start like a segment");
    }
    let version = rest.first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
    if version != u64::from(layout.version.number()) {
        return Err(Fault::Version(version));
    }
    let mut expected = vec![0; layout.page_bytes];
    put_header(&mut expected, layout, origin);
    if bytes == expected {
        return Ok(());
    }
    match Header::read(bytes).filter(|_| is_whole(bytes)) {
        Some(header) if header.origin.store != origin.store => Err(Fault::Damage(format!(
            "it is a segment of another store, {}, not of {}",
            header.origin.store, origin.store
        ))),
        _ => damage("the header page does not match this table and segment"),
    }
}

/// Contents of a header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) layout: Layout,
    pub(crate) origin: Origin,
}

impl Header {
    /// Reads a header from its first block, if it can be one; not trusted before the whole page is
    /// checked.
    pub(crate) fn read(block: &[u8]) -> Option<Self> {
        let (magic, rest) = block.split_first_chunk::<8>()?;
        let (version, rest) = u32_and_rest(rest);
        let (table, rest) = u32_and_rest(rest);
        let (row_bytes, rest) = u32_and_rest(rest);
        let (page_bytes, rest) = u32_and_rest(rest);
        let (number, rest) = u64_and_rest(rest);
        let number = SegmentNumber::new(number)?;
        let store = StoreId::from_bytes(*rest.first_chunk()?);
        let (row_bytes, page_bytes) = (row_bytes as usize, page_bytes as usize);
        let known = magic == HEADER_MAGIC && (1..=ROW_BYTES_MAX).contains(&row_bytes);
        if !known || !Layout::holds_rows(page_bytes, row_bytes) {
            return None;
        }
        let layout = Layout::with_page(table, row_bytes, page_bytes);
        let layout = match version {
            2 => layout.of_version_2(),
            3 => layout,
            _ => return None,
        };
        Some(Self { layout, origin: Origin { store, number } })
    }
}

/// Whether a header page has a correct checksum.
pub(crate) fn is_whole(page: &[u8]) -> bool {
    let whole = |header: Header| {
        page.len() == header.layout.page_bytes
            && page::is_whole(page, header.layout.table, &header.origin, PageNumber::HEADER)
    };
    Header::read(page).is_some_and(whole)
}

/// Contents of the tail of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) counts: Counts,
    /// Births of the segment's rows; not in version 2.
    pub(crate) births: Births,
    /// The most merges that any of the segment's rows went through.
    pub(crate) generation: u32,
    pub(crate) footer_sum: u64,
    pub(crate) pages_sum: u64,
    /// The latest use in each sixteenth of the rows, ordered by last use; from a sample.
    pub(crate) used: [u32; USED_PARTS],
}

impl Tail {
    pub(crate) fn encode(&self, layout: &Layout, origin: &Origin) -> [u8; TAIL_BYTES] {
        let mut bytes = [0; TAIL_BYTES];
        let (second, last) = match layout.version {
            Version::Two => (self.counts.runs, 0),
            Version::Three => (self.births.least.0, self.births.greatest.0),
        };
        bytes[..4].copy_from_slice(&self.counts.rows.to_le_bytes());
        bytes[4..8].copy_from_slice(&second.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.counts.deletions.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.footer_sum.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.pages_sum.to_le_bytes());
        for (place, used) in bytes[32..].chunks_exact_mut(4).zip(self.used) {
            place.copy_from_slice(&used.to_le_bytes());
        }
        bytes[96..100].copy_from_slice(&last.to_le_bytes());
        let place = origin.place_sum(layout.table, TAIL_PLACE);
        let sum = hash::checksum(&bytes[..TAIL_SUM_AT]) ^ place;
        bytes[TAIL_SUM_AT..TAIL_SUM_AT + 8].copy_from_slice(&sum.to_le_bytes());
        bytes[TAIL_SUM_AT + 8..].copy_from_slice(TAIL_MAGIC);
        bytes
    }

    /// Checksum of the tail, which covers all other sums in the segment.
    pub(crate) fn sum(&self, layout: &Layout, origin: &Origin) -> u64 {
        let bytes = self.encode(layout, origin);
        u64_and_rest(&bytes[TAIL_SUM_AT..]).0
    }

    pub(crate) fn decode(
        bytes: &[u8; TAIL_BYTES],
        layout: &Layout,
        origin: &Origin,
    ) -> Result<Self, Fault> {
        let (rows, rest) = u32_and_rest(bytes);
        let (second, rest) = u32_and_rest(rest);
        let (deletions, rest) = u32_and_rest(rest);
        let (generation, rest) = u32_and_rest(rest);
        let (footer_sum, rest) = u64_and_rest(rest);
        let (pages_sum, mut rest) = u64_and_rest(rest);
        let mut used = [0; USED_PARTS];
        for part in &mut used {
            (*part, rest) = u32_and_rest(rest);
        }
        let (runs, births) = match layout.version {
            Version::Two => (second, Births::NONE),
            Version::Three => {
                let (least, greatest) = (Birth(second), Birth(u32_and_rest(rest).0));
                (0, Births { least, greatest })
            }
        };
        let counts = Counts { rows, runs, deletions };
        let tail = Self { counts, births, generation, footer_sum, pages_sum, used };
        // The fields determine every byte, so comparing checks magic, zeros and checksum.
        if tail.encode(layout, origin) == *bytes {
            Ok(tail)
        } else {
            Err(Fault::Damage("the tail does not match this table and segment".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(number: u64) -> Origin {
        Origin { store: StoreId::from_number(77), number: SegmentNumber::of_manifest(number) }
    }

    fn header(layout: &Layout, origin: &Origin) -> Vec<u8> {
        let mut page = vec![0; layout.page_bytes];
        put_header(&mut page, layout, origin);
        page
    }

    #[test]
    fn every_changed_byte_of_a_header_shows() {
        let layout = Layout::new(5, 64);
        let mut bytes = header(&layout, &origin(8));
        assert_eq!(check_header(&bytes, &layout, &origin(8)), Ok(()));
        assert!(is_whole(&bytes));
        assert_eq!(Header::read(&bytes), Some(Header { layout, origin: origin(8) }));
        assert!(check_header(&bytes, &layout, &origin(9)).is_err());
        assert!(check_header(&bytes, &Layout::new(6, 64), &origin(8)).is_err());
        assert!(check_header(&bytes, &Layout::new(5, 65), &origin(8)).is_err());
        assert!(check_header(&bytes[..20], &layout, &origin(8)).is_err());
        assert!(check_header(&[], &layout, &origin(8)).is_err());
        let other = Origin { store: StoreId::from_number(78), ..origin(8) };
        let Err(Fault::Damage(why)) = check_header(&bytes, &layout, &other) else { panic!() };
        assert!(why.contains("of another store"), "{why}");
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            let fault = check_header(&bytes, &layout, &origin(8)).unwrap_err();
            assert_eq!(matches!(fault, Fault::Version(_)), (8..12).contains(&at), "byte {at}");
            assert!(!is_whole(&bytes), "byte {at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn every_changed_byte_of_a_tail_shows() {
        for version in [Version::Two, Version::Three] {
            let layout = Layout { version, ..Layout::new(5, 64) };
            let counts = match version {
                Version::Two => Counts { rows: 100, runs: 3, deletions: 1 },
                Version::Three => Counts { rows: 100, runs: 0, deletions: 1 },
            };
            let births = match version {
                Version::Two => Births::NONE,
                Version::Three => Births { least: Birth(3), greatest: Birth(8) },
            };
            let used = std::array::from_fn(|part| part as u32 * 9);
            let (footer_sum, pages_sum) = (0x1234, 77);
            let tail = Tail { counts, births, generation: 2, footer_sum, pages_sum, used };
            let mut bytes = tail.encode(&layout, &origin(8));
            assert_eq!(Tail::decode(&bytes, &layout, &origin(8)), Ok(tail));
            assert!(Tail::decode(&bytes, &layout, &origin(9)).is_err());
            for at in 0..bytes.len() {
                bytes[at] ^= 0x80;
                assert!(Tail::decode(&bytes, &layout, &origin(8)).is_err(), "byte {at}");
                bytes[at] ^= 0x80;
            }
        }
    }
}
