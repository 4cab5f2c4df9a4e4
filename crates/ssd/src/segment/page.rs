//! The bytes of a page: rows and a checksum that depends on the page's place.
//!
//! ```text
//! offset            bytes
//! i * stride        8       key of row i
//! i * stride + 8    4       birth of row i: the number of the segment it was first put into
//! i * stride + 12   4       used: step of the last use of row i
//! i * stride + 16   row     payload of row i
//! …                         zeros after the last row
//! page - 8          8       XXH3-64 of all before, xor that of (id, table, segment, page)
//! ```
//!
//! The second term detects pages written to, or read from, a wrong place.

use stepwell_base::{Key, hash};

use crate::identity::Origin;
use crate::layout::{Layout, PAGE_SUM_BYTES, ROW_HEAD_BYTES};
use crate::numbers::{Birth, PageNumber};

/// A row on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) key: Key,
    pub(crate) birth: Birth,
    pub(crate) used: u32,
    pub(crate) payload: &'a [u8],
}

/// Writes a page's checksum and returns it.
pub(crate) fn seal(page: &mut [u8], table: u32, origin: &Origin, number: PageNumber) -> u64 {
    let (body, sum) = page.split_at_mut(page.len() - PAGE_SUM_BYTES);
    let value = hash::checksum(body) ^ origin.place_sum(table, number);
    sum.copy_from_slice(&value.to_le_bytes());
    value
}

/// The checksum on a page.
pub(crate) fn sum(page: &[u8]) -> u64 {
    page.last_chunk().map_or(0, |sum| u64::from_le_bytes(*sum))
}

/// Whether a page is intact and belongs to this place.
pub(crate) fn is_whole(page: &[u8], table: u32, origin: &Origin, number: PageNumber) -> bool {
    let Some((body, sum)) = page.split_last_chunk::<PAGE_SUM_BYTES>() else { return false };
    u64::from_le_bytes(*sum) == hash::checksum(body) ^ origin.place_sum(table, number)
}

/// Writes row `at` of a page, which must be long enough.
pub(crate) fn put_row(page: &mut [u8], layout: &Layout, at: u32, value: &Row<'_>) {
    let start = at as usize * layout.stride;
    let place = &mut page[start..start + layout.stride];
    place[..8].copy_from_slice(&value.key.0.to_le_bytes());
    place[8..12].copy_from_slice(&value.birth.0.to_le_bytes());
    place[12..16].copy_from_slice(&value.used.to_le_bytes());
    place[16..].copy_from_slice(value.payload);
}

/// Reads row `at` of a page, which must be long enough.
pub(crate) fn row<'a>(page: &'a [u8], layout: &Layout, at: u32) -> Row<'a> {
    let start = at as usize * layout.stride;
    let bytes = &page[start..start + layout.stride];
    let (key, rest) = u64_and_rest(bytes);
    let (marks, _) = u64_and_rest(rest);
    let payload = &bytes[ROW_HEAD_BYTES..];
    let (birth, used) = (Birth(marks as u32), (marks >> 32) as u32);
    Row { key: Key(key), birth, used, payload }
}

/// The last row of `key` among the first `rows` rows of a page, and its number.
pub(crate) fn find<'a>(
    page: &'a [u8],
    layout: &Layout,
    rows: u32,
    key: Key,
) -> Option<(u32, Row<'a>)> {
    let wanted = key.0.to_le_bytes();
    let mut strides = page[..rows as usize * layout.stride].chunks_exact(layout.stride);
    let at = strides.rposition(|bytes| bytes[..8] == wanted)? as u32;
    Some((at, row(page, layout, at)))
}

/// The number at the start of `bytes`, zero if they are too few, and the rest.
pub(crate) fn u64_and_rest(bytes: &[u8]) -> (u64, &[u8]) {
    bytes.split_first_chunk().map_or((0, &[]), |(first, rest)| (u64::from_le_bytes(*first), rest))
}

/// Same as [`u64_and_rest`], for 32 bits.
pub(crate) fn u32_and_rest(bytes: &[u8]) -> (u32, &[u8]) {
    bytes.split_first_chunk().map_or((0, &[]), |(first, rest)| (u32::from_le_bytes(*first), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::StoreId;
    use crate::numbers::SegmentNumber;

    #[test]
    fn any_changed_byte_and_any_other_place_shows() {
        let layout = Layout::new(3, 1000);
        let mut page = vec![0; layout.page_bytes];
        for at in 0..4 {
            let payload = vec![at as u8 + 1; 1000];
            let key = Key(u64::from(at) * 77);
            let row = Row { key, birth: Birth(5), used: at, payload: &payload };
            put_row(&mut page, &layout, at, &row);
        }
        let origin = |store, number| {
            let number = SegmentNumber::of_manifest(number);
            Origin { store: StoreId::from_number(store), number }
        };
        let (here, second) = (origin(8, 9), PageNumber(2));
        let value = seal(&mut page, 3, &here, second);
        assert_eq!(sum(&page), value);
        assert!(is_whole(&page, 3, &here, second));
        let third = row(&page, &layout, 2);
        assert_eq!((third.key, third.birth, third.used), (Key(154), Birth(5), 2));
        assert_eq!(third.payload, [3; 1000]);
        assert_eq!(find(&page, &layout, 4, Key(154)), Some((2, third)));
        assert_eq!(find(&page, &layout, 2, Key(154)), None);
        for (table, origin, number) in
            [(4, here, 2), (3, origin(8, 8), 2), (3, origin(7, 9), 2), (3, here, 3)]
        {
            assert!(!is_whole(&page, table, &origin, PageNumber(number)));
        }
        for at in 0..page.len() {
            page[at] ^= 0x10;
            assert!(!is_whole(&page, 3, &here, second), "byte {at}");
            page[at] ^= 0x10;
        }
        assert!(!is_whole(&page[..7], 3, &here, second));
        assert!(!is_whole(&[], 3, &here, second));
    }
}
