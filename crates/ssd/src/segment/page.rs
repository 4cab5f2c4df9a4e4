//! The bytes of a page: rows and a checksum that knows where the page belongs.
//!
//! ```text
//! offset            bytes
//! i * stride        8       key of row i
//! i * stride + 8    8       sequence number of row i
//! i * stride + 16   row     payload of row i
//! …                         zeros after the last row
//! page - 8          8       XXH3-64 of all before, xor XXH3-64 of (table, segment, page)
//! ```
//!
//! The second term makes a page that was written to, or read from, a wrong place as visible as a
//! changed byte.

use stepwell_base::{Key, hash};

use crate::layout::{Layout, PAGE_SUM_BYTES};

/// A row as it lies on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) key: Key,
    pub(crate) seq: u64,
    pub(crate) payload: &'a [u8],
}

/// What a checksum owes to its place.
pub(crate) fn place_sum(table: u32, segment: u64, page: u32) -> u64 {
    let mut place = [0; 16];
    place[..4].copy_from_slice(&table.to_le_bytes());
    place[4..12].copy_from_slice(&segment.to_le_bytes());
    place[12..].copy_from_slice(&page.to_le_bytes());
    hash::checksum(&place)
}

/// Writes a page's checksum.
pub(crate) fn seal(page: &mut [u8], table: u32, segment: u64, number: u32) {
    let (body, sum) = page.split_at_mut(page.len() - PAGE_SUM_BYTES);
    let value = hash::checksum(body) ^ place_sum(table, segment, number);
    sum.copy_from_slice(&value.to_le_bytes());
}

/// Whether a page is what was written at this place.
pub(crate) fn is_whole(page: &[u8], table: u32, segment: u64, number: u32) -> bool {
    let Some((body, sum)) = page.split_last_chunk::<PAGE_SUM_BYTES>() else { return false };
    u64::from_le_bytes(*sum) == hash::checksum(body) ^ place_sum(table, segment, number)
}

/// Writes a row at its place on a page that is long enough.
pub(crate) fn put_row(page: &mut [u8], layout: &Layout, row: u32, value: Row<'_>) {
    let start = layout.offset_on_page(row);
    let place = &mut page[start..start + layout.stride];
    place[..8].copy_from_slice(&value.key.0.to_le_bytes());
    place[8..16].copy_from_slice(&value.seq.to_le_bytes());
    place[16..].copy_from_slice(value.payload);
}

/// A row of a page that is long enough.
pub(crate) fn row<'a>(page: &'a [u8], layout: &Layout, row: u32) -> Row<'a> {
    let start = layout.offset_on_page(row);
    let (key, rest) = u64_and_rest(&page[start..start + layout.stride]);
    let (seq, payload) = u64_and_rest(rest);
    Row { key: Key(key), seq, payload }
}

/// The number at the front of `bytes`, zero where they are too few, and what follows it.
pub(crate) fn u64_and_rest(bytes: &[u8]) -> (u64, &[u8]) {
    bytes.split_first_chunk().map_or((0, &[]), |(first, rest)| (u64::from_le_bytes(*first), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_and_any_other_place_shows() {
        let layout = Layout::new(3, 1000);
        let mut page = vec![0; layout.page_bytes];
        for number in 0..4 {
            let payload = vec![number as u8 + 1; 1000];
            let key = Key(u64::from(number) * 77);
            put_row(&mut page, &layout, number + 8, Row { key, seq: 5, payload: &payload });
        }
        seal(&mut page, 3, 9, 2);
        assert!(is_whole(&page, 3, 9, 2));
        assert_eq!(row(&page, &layout, 10).key, Key(154));
        assert_eq!(row(&page, &layout, 10).payload, [3; 1000]);
        for (table, segment, number) in [(4, 9, 2), (3, 8, 2), (3, 9, 3)] {
            assert!(!is_whole(&page, table, segment, number));
        }
        for at in 0..page.len() {
            page[at] ^= 0x10;
            assert!(!is_whole(&page, 3, 9, 2), "byte {at}");
            page[at] ^= 0x10;
        }
        assert!(!is_whole(&page[..7], 3, 9, 2));
        assert!(!is_whole(&[], 3, 9, 2));
    }
}
