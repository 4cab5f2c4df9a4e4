//! XXH3-64 with seed 0 of 4 to 16 bytes: a namespace's name, NUL and an id.
//!
//! - **Why.** Nearly every id is that short together with its namespace. The library reads from
//!   memory, and reading bytes that were written there in two pieces waits for both writes: a third
//!   of the time of parsing a line. Here they are joined in registers.
//! - **How.** The specification's two cases, with constants from its secret; tests compare it to
//!   the library for every length.

/// Maximum and minimum bytes of the text.
const BYTES_MAX: usize = 16;
const BYTES_MIN: usize = 4;
/// Bytes of a word.
const WORD: usize = 8;

// Words of the secret, at 8 and 16, 24 and 32, 40 and 48, xored.
const FLIP: u64 = 0x1cad_21f7_2c81_017c ^ 0xdb97_9083_e96d_d4de;
const FLIP_FIRST: u64 = 0x1f67_b3b7_a4a4_4072 ^ 0x78e5_c0cc_4ee6_79cb;
const FLIP_LAST: u64 = 0x2172_ffcc_7dd0_5a82 ^ 0x8e24_43f7_7446_08b8;
const PRIME_MX1: u64 = 0x1656_6791_9e37_79f9;
const PRIME_MX2: u64 = 0x9fb2_1c65_1e98_df25;

/// Hash of the first `before` bytes of `head`, which is padded with zeros, and `bytes[at..end]`,
/// which is not empty; `None` if they are too long, too short, or too close to the end of `bytes`.
#[inline]
pub(super) fn xxh3_64(
    head: &[u8],
    before: usize,
    bytes: &[u8],
    at: usize,
    end: usize,
) -> Option<u64> {
    let (value_len, len) = (end - at, before + end - at);
    if before >= WORD || !(BYTES_MIN..=BYTES_MAX).contains(&len) {
        return None;
    }
    // Bytes after the id in its word are shifted out, or are beyond the hashed length.
    let value = word(bytes, at)?;
    let head = word(head, 0)?;
    let first = head | value << (8 * before);
    if len <= WORD {
        return Some(upto_8(first, len));
    }
    let last = match value_len.checked_sub(WORD) {
        Some(more) => word(bytes, at + more)?,
        None => value << (8 * (WORD - value_len)) | head >> (8 * (len - WORD)),
    };
    Some(upto_16(first, last, len))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Hash of 9 to 16 bytes, given the first and the last 8.
#[inline]
fn upto_16(first: u64, last: u64, len: usize) -> u64 {
    let (first, last) = (first ^ FLIP_FIRST, last ^ FLIP_LAST);
    let product = u128::from(first) * u128::from(last);
    let folded = product as u64 ^ (product >> 64) as u64;
    let sum = (len as u64).wrapping_add(first.swap_bytes()).wrapping_add(last).wrapping_add(folded);
    let mixed = (sum ^ sum >> 37).wrapping_mul(PRIME_MX1);
    mixed ^ mixed >> 32
}

/// Hash of the first 4 to 8 bytes of `text`.
#[inline]
fn upto_8(text: u64, len: usize) -> u64 {
    let first = u64::from(text as u32);
    let last = u64::from((text >> (8 * (len - 4))) as u32);
    let keyed = (last | first << 32) ^ FLIP;
    let mixed = (keyed ^ keyed.rotate_left(49) ^ keyed.rotate_left(24)).wrapping_mul(PRIME_MX2);
    let mixed = (mixed ^ (mixed >> 35).wrapping_add(len as u64)).wrapping_mul(PRIME_MX2);
    mixed ^ mixed >> 28
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_function() {
        let mut random = crate::random::Stream::from_state(5);
        for round in 0..20_000 {
            let (before, value_len) = (1 + round % 8, 1 + round / 8 % 16);
            let text: [u64; 4] = std::array::from_fn(|_| random.next_u64());
            let text: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
            let (at, end) = (before, before + value_len);
            let head: [u8; WORD] = std::array::from_fn(|i| if i < before { text[i] } else { 0 });
            let found = xxh3_64(&head, before, &text, at, end);
            let short = before < WORD && (BYTES_MIN..=BYTES_MAX).contains(&end);
            let published = crate::hash::checksum(&text[..end]);
            assert_eq!(found, short.then_some(published), "{before} {value_len} {text:?}");
            assert_eq!(xxh3_64(&head, before, &text[..at + WORD - 1], at, at + 4), None);
        }
    }
}
