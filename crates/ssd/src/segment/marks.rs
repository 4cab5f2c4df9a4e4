//! The bytes at both ends of a segment: its header page and its tail.
//!
//! ```text
//! header, page 0                              tail, the last 48 bytes
//! offset  bytes                               offset  bytes
//! 0       8      "STEPWSEG"                   0       8      where the footer starts
//! 8       4      format version               8       8      rows
//! 12      4      table                        16      8      highest sequence number
//! 16      4      bytes of a row's payload     24      8      XXH3-64 of the footer
//! 20      4      bytes of a page              32      8      XXH3-64 of the 32 bytes before, xor
//! 24      8      number of the segment                       that of (table, segment, 2^32 - 1)
//! …              zeros                        40      8      "STEPWEND"
//! end - 8 8      checksum as of any page
//! ```

use stepwell_base::hash;

use super::page::{self, u64_and_rest};
use crate::FORMAT_VERSION;
use crate::layout::{Layout, TAIL_BYTES};

const HEADER_MAGIC: &[u8; 8] = b"STEPWSEG";
const TAIL_MAGIC: &[u8; 8] = b"STEPWEND";
/// Stands for the tail where pages have their number.
const TAIL_PLACE: u32 = u32::MAX;

/// Why bytes are not the mark that was looked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Another version of the format.
    Version(u64),
    /// Something else.
    Damage(String),
}

/// The header page of a segment.
pub(crate) fn header(layout: &Layout, segment: u64) -> Vec<u8> {
    let mut bytes = vec![0; layout.page_bytes];
    bytes[..8].copy_from_slice(HEADER_MAGIC);
    bytes[8..12].copy_from_slice(&(FORMAT_VERSION as u32).to_le_bytes());
    bytes[12..16].copy_from_slice(&layout.table.to_le_bytes());
    bytes[16..20].copy_from_slice(&(layout.row_bytes as u32).to_le_bytes());
    bytes[20..24].copy_from_slice(&(layout.page_bytes as u32).to_le_bytes());
    bytes[24..32].copy_from_slice(&segment.to_le_bytes());
    page::seal(&mut bytes, layout.table, segment, 0);
    bytes
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
    if bytes != header(layout, segment) {
        return damage("the header page is not that of this table and segment");
    }
    Ok(())
}

/// What the end of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) rows: u32,
    pub(crate) seq_max: u64,
    pub(crate) footer_sum: u64,
}

impl Tail {
    pub(crate) fn encode(&self, layout: &Layout, segment: u64) -> [u8; TAIL_BYTES] {
        let mut bytes = [0; TAIL_BYTES];
        bytes[..8].copy_from_slice(&layout.footer_offset(self.rows).to_le_bytes());
        bytes[8..16].copy_from_slice(&u64::from(self.rows).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seq_max.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.footer_sum.to_le_bytes());
        let place = page::place_sum(layout.table, segment, TAIL_PLACE);
        let sum = hash::checksum(&bytes[..32]) ^ place;
        bytes[32..40].copy_from_slice(&sum.to_le_bytes());
        bytes[40..].copy_from_slice(TAIL_MAGIC);
        bytes
    }

    pub(crate) fn decode(
        bytes: &[u8; TAIL_BYTES],
        layout: &Layout,
        segment: u64,
    ) -> Result<Self, Fault> {
        let (_offset, rest) = u64_and_rest(bytes);
        let (rows, rest) = u64_and_rest(rest);
        let (seq_max, rest) = u64_and_rest(rest);
        let (footer_sum, _) = u64_and_rest(rest);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let tail = Self { rows, seq_max, footer_sum };
        // Every byte follows from the fields, so comparing checks magic, offset and checksum.
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
        let tail = Tail { rows: 100, seq_max: 77, footer_sum: 0x1234 };
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
