//! Finds the end of a field, and parses short numbers, eight bytes at a time.
//!
//! Fields of a click log are shorter than ten bytes, so comparing eight bytes in a register is
//! faster than starting a search for each field.

pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
const LINE_ENDS: u64 = ONES * b'\n' as u64;
const ZEROS: u64 = ONES * b'0' as u64;

/// Most digits that [`short_number`] parses.
pub(crate) const SHORT_DIGITS: usize = 7;

/// The bytes from `at` as a little-endian word; zero past the end of `bytes`.
#[inline]
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word(bytes, at),
    }
}

#[cold]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// Bytes that end a field: a separator, or a line end.
#[derive(Clone, Copy)]
pub(crate) struct Separators {
    /// The separator, repeated in every byte.
    separator: u64,
}

impl Separators {
    pub(crate) const TABS: Self = Self::new(b'\t');

    pub(crate) const fn new(separator: u8) -> Self {
        Self { separator: ONES * separator as u64 }
    }

    /// A word with its lowest set bit in the first byte of `word` that ends a field.
    ///
    /// The subtraction only borrows from bytes above a hit, so the lowest hit is exact.
    #[inline]
    fn hits(self, word: u64) -> u64 {
        let (separators, ends) = (word ^ self.separator, word ^ LINE_ENDS);
        let separator = separators.wrapping_sub(ONES) & !separators;
        let end = ends.wrapping_sub(ONES) & !ends;
        (separator | end) & HIGHS
    }

    /// Number of bytes of `word` before the first byte that ends a field; 8 if none does.
    #[inline]
    fn bytes_before(self, word: u64) -> usize {
        (self.hits(word).trailing_zeros() / 8) as usize
    }

    /// Index of the first byte from `at` that ends a field, or the length of `bytes`.
    #[inline]
    pub(crate) fn field_end(self, bytes: &[u8], at: usize) -> usize {
        let mut from = at;
        loop {
            let skip = self.bytes_before(word_at(bytes, from));
            if skip < 8 || from >= bytes.len() {
                return (from + skip).min(bytes.len());
            }
            from += 8;
        }
    }
}

/// Bytes of `word` before its first tab or line end; 8 if it has neither.
#[inline]
pub(crate) fn bytes_before_separator(word: u64) -> usize {
    Separators::TABS.bytes_before(word)
}

/// Index of the first tab or line end from `at`, or the length of `bytes`.
#[inline]
pub(crate) fn field_end(bytes: &[u8], at: usize) -> usize {
    Separators::TABS.field_end(bytes, at)
}

/// Index of the first byte from `at` that ends a JSON string or must be escaped in it (a quote, a
/// backslash, a control character), or the length of `bytes`.
#[inline]
pub(crate) fn text_end(bytes: &[u8], at: usize) -> usize {
    const SPACES: u64 = ONES * b' ' as u64;
    let mut from = at;
    loop {
        let word = word_at(bytes, from);
        let (quotes, slashes) = (word ^ (ONES * b'"' as u64), word ^ (ONES * b'\\' as u64));
        let quote = quotes.wrapping_sub(ONES) & !quotes;
        let slash = slashes.wrapping_sub(ONES) & !slashes;
        let control = word.wrapping_sub(SPACES) & !word;
        // Bytes past the end are zero, so the first of them is a hit.
        let skip = (((quote | slash | control) & HIGHS).trailing_zeros() / 8) as usize;
        if skip < 8 {
            return (from + skip).min(bytes.len());
        }
        from += 8;
    }
}

/// Number of leading digits in the bytes of `word`, up to 8.
#[inline]
pub(crate) fn digits_before(word: u64) -> usize {
    // A byte is a digit if its high nibble is 3, with and without 6 added. Adding 6 to a digit
    // doesn't carry into the next byte.
    let high = word & (ONES * 0xF0);
    let others =
        (high ^ ZEROS) | ((word & (ONES * 0x7F)).wrapping_add(ONES * 6) ^ ZEROS) & (ONES * 0xF0);
    (others.trailing_zeros() / 8) as usize
}

/// The decimal number in the first `len` bytes of `word`, or `None` if they aren't all digits; 0 if
/// `len` is 0. `len` is at most [`SHORT_DIGITS`].
#[inline]
pub(crate) fn short_number(word: u64, len: usize) -> Option<u32> {
    debug_assert!(len <= SHORT_DIGITS, "{len} digits");
    // The first character is in the lowest byte; '0's before it make eight.
    let shift = 8 * len as u32;
    let text = ((word << 8) << (56 - shift)) | (ZEROS >> shift);
    // A byte is a digit if its high nibble is 3, with and without 6 added.
    let high = text & (ONES * 0xF0);
    let high_of_sum = text.wrapping_add(ONES * 6) & (ONES * 0xF0);
    if high | (high_of_sum >> 4) != ONES * 0x33 {
        return None;
    }
    Some(eight_digits(text))
}

/// Parses eight ASCII digits, joining neighbors into pairs, fours and eight.
#[inline]
fn eight_digits(text: u64) -> u32 {
    const PAIR: u64 = 1 + (10 << 8);
    const FOUR: u64 = 1 + (100 << 16);
    const EIGHT: u64 = 1 + (10_000 << 32);
    let pairs = (text & (ONES * 0x0F)).wrapping_mul(PAIR) >> 8;
    let fours = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul(FOUR) >> 16;
    ((fours & 0x0000_FFFF_0000_FFFF).wrapping_mul(EIGHT) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_base::random::Stream;

    #[test]
    fn short_numbers_read_as_written() {
        let read = |text: &str| short_number(word_at(text.as_bytes(), 0), text.len());
        for value in (0..2000).chain([9_999, 10_000, 123_456, 999_999, 1_000_000, 9_999_999]) {
            assert_eq!(read(&value.to_string()), Some(value));
        }
        assert_eq!(read(""), Some(0));
        assert_eq!(read("0000012"), Some(12));
        for bad in ["-1", "1.5", "12a", " 1", "/", ":", "\u{ff}", "1\r", "+3"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn field_ends_are_those_of_a_plain_search() {
        let mut random = Stream::named(1, b"scan");
        for round in 0..2000 {
            let len = (random.next_u64() % 40) as usize;
            // Bytes close to the separators expose arithmetic errors.
            let mut byte = || (random.next_u64() % 14) as u8 | ((round % 3 == 0) as u8 * 0x80);
            let bytes: Vec<u8> = (0..len).map(|_| byte()).collect();
            for at in 0..=len {
                let plain = bytes[at..].iter().position(|b| matches!(b, b'\t' | b'\n'));
                assert_eq!(field_end(&bytes, at), plain.map_or(len, |n| at + n), "{bytes:?} {at}");
            }
        }
    }
}
