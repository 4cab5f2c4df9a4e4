//! Parquet's hybrid encoding of small numbers: runs of one number, and groups of packed numbers.
//!
//! From the format's specification ("RLE / Bit-packing hybrid"): a run starts with a header in
//! groups of 7 bits. An even header is twice the length of a run of one number, which follows in
//! whole bytes. An odd header gives the number of groups of 8 packed numbers that follow, lowest
//! bits first.

/// Numbers decoded at once while counting.
const COUNTED: usize = 1024;

/// Decoder.
#[derive(Clone, Debug)]
pub(super) struct Hybrid {
    /// Bits per number, at most 32.
    width: u32,
    /// Position after the current run, in the bytes passed to each call.
    at: usize,
    end: usize,
    run: Run,
}

#[derive(Clone, Copy, Debug)]
enum Run {
    /// `left` times the same number.
    Same { number: u32, left: usize },
    /// `left` packed numbers, the first at bit `bit`.
    Packed { bit: usize, left: usize },
}

/// Invalid encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Hybrid {
    /// Decodes numbers of `width` bits from `at` to `end` of the bytes passed to each call.
    pub(super) fn new(width: u32, at: usize, end: usize) -> Result<Self, Broken> {
        if width > 32 || at > end {
            return Err(Broken);
        }
        Ok(Self { width, at, end, run: Run::Same { number: 0, left: 0 } })
    }

    /// Appends the next `count` numbers to `numbers`.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        count: usize,
        numbers: &mut Vec<u32>,
    ) -> Result<(), Broken> {
        let mut wanted = count;
        while wanted > 0 {
            match &mut self.run {
                Run::Same { left: 0, .. } | Run::Packed { left: 0, .. } => self.next_run(bytes)?,
                Run::Same { number, left } => {
                    let taken = wanted.min(*left);
                    numbers.resize(numbers.len() + taken, *number);
                    *left -= taken;
                    wanted -= taken;
                }
                Run::Packed { bit, left } => {
                    let taken = wanted.min(*left);
                    let width = self.width;
                    let mask = ((1u64 << width) - 1) as u32;
                    for number in 0..taken {
                        let at = *bit + number * width as usize;
                        let word = word_at(bytes, at / 8) >> (at % 8);
                        numbers.push(word as u32 & mask);
                    }
                    *bit += taken * width as usize;
                    *left -= taken;
                    wanted -= taken;
                }
            }
        }
        Ok(())
    }

    /// Counts the occurrences of `wanted` in the next `count` numbers.
    pub(super) fn count(
        &mut self,
        bytes: &[u8],
        count: usize,
        wanted: u32,
    ) -> Result<usize, Broken> {
        let (mut found, mut numbers) = (0, Vec::new());
        for counted in (0..count).step_by(COUNTED) {
            numbers.clear();
            self.read(bytes, COUNTED.min(count - counted), &mut numbers)?;
            found += numbers.iter().filter(|number| **number == wanted).count();
        }
        Ok(found)
    }

    fn next_run(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let bytes = bytes.get(..self.end).ok_or(Broken)?;
        let (mut head, mut shift) = (0u64, 0);
        loop {
            let byte = *bytes.get(self.at).ok_or(Broken)?;
            self.at += 1;
            head |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
            if shift > 28 {
                return Err(Broken);
            }
        }
        let count = (head >> 1) as usize;
        if head & 1 == 1 {
            let (bit, bytes_left) = (self.at * 8, bytes.len() - self.at);
            let wanted = count.checked_mul(self.width as usize).ok_or(Broken)?;
            // The last group of a page may be truncated after the numbers in use.
            let held = wanted.min(bytes_left);
            let left = (held * 8).checked_div(self.width as usize);
            let left = left.unwrap_or(count * 8).min(count * 8);
            self.at += held;
            self.run = Run::Packed { bit, left };
        } else {
            let width = self.width.div_ceil(8) as usize;
            let number = bytes.get(self.at..self.at + width).ok_or(Broken)?;
            let number =
                number.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
            // The bytes have room for larger numbers than the width allows.
            if self.width < 32 && number >> self.width > 0 {
                return Err(Broken);
            }
            self.at += width;
            self.run = Run::Same { number, left: count };
        }
        // Empty runs would never finish.
        if matches!(self.run, Run::Same { left: 0, .. } | Run::Packed { left: 0, .. }) {
            return Err(Broken);
        }
        Ok(())
    }
}

/// Eight bytes from `at`; zero past the end.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let rest = bytes.get(at..).unwrap_or_default();
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(width: u32, bytes: &[u8], counts: &[usize]) -> Result<Vec<u32>, Broken> {
        let mut hybrid = Hybrid::new(width, 0, bytes.len())?;
        let mut numbers = Vec::new();
        counts.iter().try_for_each(|count| hybrid.read(bytes, *count, &mut numbers))?;
        Ok(numbers)
    }

    #[test]
    fn runs_and_groups_are_as_the_format_has_them() {
        // The specification's example: 0 to 7 in three bits.
        let packed = [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(read(3, &packed, &[8]), Ok(vec![0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(read(3, &packed, &[3, 1, 4]), Ok(vec![0, 1, 2, 3, 4, 5, 6, 7]));
        // A run, then a group truncated after its fourth number, in 16 bits.
        let both = [6, 0x34, 0x12, 3, 1, 0, 2, 0, 3, 0, 4, 0];
        assert_eq!(read(16, &both, &[2, 5]), Ok(vec![0x1234, 0x1234, 0x1234, 1, 2, 3, 4]));
        assert_eq!(read(16, &both, &[8]), Err(Broken));
        let count = |counts: usize, wanted| {
            Hybrid::new(16, 0, both.len()).and_then(|mut of| of.count(&both, counts, wanted))
        };
        assert_eq!((count(7, 0x1234), count(3, 2), count(8, 1)), (Ok(3), Ok(0), Err(Broken)));
        let long = Hybrid::new(1, 0, 4).and_then(|mut of| of.count(&[0x80, 0x80, 4, 1], 9999, 1));
        assert_eq!(long, Ok(9999));
        // Numbers of width 0 take no bytes.
        assert_eq!(read(0, &[10], &[5]), Ok(vec![0; 5]));
        assert_eq!(read(0, &[3], &[8]), Ok(vec![0; 8]));
    }

    #[test]
    fn any_bytes_are_numbers_or_refused() {
        let mut dice = stepwell_base::random::Stream::named(3, b"hybrid");
        for _ in 0..20_000 {
            let len = dice.next_u64() % 12;
            let bytes: Vec<u8> = (0..len).map(|_| dice.next_u64() as u8).collect();
            let (width, count) = ((dice.next_u64() % 34) as u32, dice.next_u64() % 40);
            if let Ok(numbers) = read(width, &bytes, &[count as usize, 3]) {
                assert_eq!(numbers.len() as u64, count + 3);
                assert!(
                    width == 32 || numbers.iter().all(|number| u64::from(*number) < 1 << width)
                );
            }
        }
    }
}
