//! Finds the ends of fields in text, 64 bytes at a time.
//!
//! - **Why.** Fields are short, and their lengths are the one thing that a processor can't predict:
//!   a separate search per field costs a branch misprediction every other field.
//! - **How.** The separators and line ends of a 64-byte block are the bits of a word, and the next
//!   end is its lowest bit. A block costs at most one misprediction.

use crate::short_fields::ONES;

/// Bytes of a block.
const BLOCK: usize = 64;

/// Iterates over the field ends of a text.
pub(crate) struct Ends<'a> {
    text: &'a [u8],
    separator: u8,
    /// Start of the current block.
    block: usize,
    /// Remaining ends in the block, as bits.
    left: u64,
    /// Position after the last returned end.
    at: usize,
}

impl<'a> Ends<'a> {
    pub(crate) fn new(text: &'a [u8], separator: u8) -> Self {
        let mut ends = Self { text, separator, block: 0, left: 0, at: 0 };
        ends.load(0);
        ends
    }

    fn load(&mut self, block: usize) {
        self.block = block;
        let rest = self.text.get(block..).unwrap_or_default();
        self.left = match rest.first_chunk() {
            Some(block) => ends_in(block, self.separator),
            None => {
                let mut last = [0; BLOCK];
                last[..rest.len()].copy_from_slice(rest);
                // Bytes past the end of the text never count, regardless of the separator.
                ends_in(&last, self.separator) & ((1 << rest.len()) - 1)
            }
        };
    }

    /// Continues at `at`. Cheap unless the caller skipped a part of the text.
    #[inline]
    pub(crate) fn seek(&mut self, at: usize) {
        if self.at != at {
            self.load(at);
            self.at = at;
        }
    }

    /// Position of the next end, or the length of the text.
    #[inline]
    pub(crate) fn next(&mut self) -> usize {
        while self.left == 0 {
            if self.block + BLOCK >= self.text.len() {
                self.at = self.text.len();
                return self.at;
            }
            self.load(self.block + BLOCK);
        }
        let end = self.block + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        self.at = end + 1;
        end
    }
}

/// Bit mask of the bytes of a block that are `separator` or a line end.
#[inline]
fn ends_in(block: &[u8; BLOCK], separator: u8) -> u64 {
    let (separators, ends) = (ONES * u64::from(separator), ONES * u64::from(b'\n'));
    let mut mask = 0;
    let (words, _) = block.as_chunks();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = zeros(word ^ separators) | zeros(word ^ ends);
        // Gathers one bit per byte in the highest byte.
        mask |= ((hits >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * number);
    }
    mask
}

/// Sets the highest bit of every zero byte of `word`, without carries between bytes.
#[inline]
fn zeros(word: u64) -> u64 {
    const LOWS: u64 = ONES * 0x7F;
    !(((word & LOWS) + LOWS) | word | LOWS)
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    #[test]
    fn ends_are_those_of_a_plain_search() {
        let mut random = Stream::named(1, b"ends");
        for round in 0..2000 {
            let len = (random.next_u64() % 300) as usize;
            let choices = 3 + random.next_u64() % 60;
            let text: Vec<u8> = (0..len)
                .map(|_| match random.next_u64() % choices {
                    0 => b',',
                    1 => b'\n',
                    _ => (random.next_u64() % 256) as u8,
                })
                .collect();
            let separator = if round % 2 == 0 { b',' } else { 0 };
            let mut ends = Ends::new(&text, separator);
            let mut at = 0;
            while at < len {
                let is_end = |byte: &u8| *byte == separator || *byte == b'\n';
                let plain = text[at..].iter().position(is_end).map_or(len, |end| at + end);
                assert_eq!(ends.next(), plain);
                at = plain + 1;
                if random.next_u64().is_multiple_of(8) {
                    at += (random.next_u64() % 90) as usize;
                    at = at.min(len);
                    ends.seek(at);
                }
            }
            assert_eq!((ends.next(), ends.next()), (len, len));
        }
    }
}
