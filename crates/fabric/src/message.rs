//! A message: sections of plain values, which are read in place.
//!
//! A section is a word of 64 bits with its number of bytes, followed by these, padded to a whole
//! word. So values of any kind are aligned, and nothing is copied to be read.

use bytemuck::Pod;

const WORD: usize = size_of::<u64>();
/// Words copied at once. A section begins a word later than the values that it is copied from, if
/// both start a page. Long copies (`rep movsb`) with this offset took 16 times as long on an EPYC.
const PART: usize = 128;

/// A message, or the buffer of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    words: Vec<u64>,
}

impl Message {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty message with a buffer of `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { words: Vec::with_capacity(bytes.div_ceil(WORD)) }
    }

    /// A message of these words, from [`Message::words`].
    pub fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// All words of the message.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// All words of the message, with their buffer.
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.words.len() * WORD
    }

    /// Capacity of its buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.words.capacity() * WORD
    }

    /// Removes all content and keeps the buffer.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Makes it equal to `other`, reusing its buffer.
    pub fn copy_from(&mut self, other: &Self) {
        self.words.clear();
        self.words.reserve_exact(other.words.len());
        self.words.extend_from_slice(&other.words);
    }

    /// Appends a section of `values`.
    pub fn put<T: Pod>(&mut self, values: &[T]) {
        // Values aligned as words are copied without zeroing their place first.
        if let Ok(words) = bytemuck::try_cast_slice::<T, u64>(values) {
            self.words.reserve_exact(1 + words.len());
            self.words.push(size_of_val(values) as u64);
            return words.chunks(PART).for_each(|part| self.words.extend_from_slice(part));
        }
        self.room(values.len()).copy_from_slice(values);
    }

    /// Appends a section of `count` zero values, to be filled in place.
    pub fn room<T: Pod>(&mut self, count: usize) -> &mut [T] {
        assert!(align_of::<T>() <= WORD, "values of a message need the alignment of words");
        let bytes = count * size_of::<T>();
        // A message has few sections, and its buffer is bounded by their size.
        self.words.reserve_exact(1 + bytes.div_ceil(WORD));
        self.words.push(bytes as u64);
        let start = self.words.len();
        self.words.resize(start + bytes.div_ceil(WORD), 0);
        let section = bytemuck::cast_slice_mut(&mut self.words[start..]);
        bytemuck::cast_slice_mut::<u8, T>(&mut section[..bytes])
    }

    /// Appends two sections, like [`Message::room`], to be filled at the same time.
    pub fn two_rooms<A: Pod, B: Pod>(&mut self, a: usize, b: usize) -> (&mut [A], &mut [B]) {
        let start = self.words.len();
        let bytes = size_of_val(self.room::<A>(a));
        let second = self.words.len();
        let other = size_of_val(self.room::<B>(b));
        let (first, second) = self.words[start..].split_at_mut(second - start);
        let first = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut first[1..])[..bytes];
        let second = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut second[1..])[..other];
        (bytemuck::cast_slice_mut(first), bytemuck::cast_slice_mut(second))
    }

    /// A reader of its sections, from the first.
    pub fn reader(&self) -> Reader<'_> {
        Reader { words: &self.words, section: 0 }
    }
}

/// Why a message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message ends before an expected section.
    #[error("it has {0} sections, but one more is expected")]
    Ends(usize),
    /// A section does not hold whole values of the expected kind, or is truncated.
    #[error("its section {section} of {bytes} bytes does not hold the expected values")]
    Section {
        /// Number of the section, from 0.
        section: usize,
        /// Declared size of the section, in bytes.
        bytes: u64,
    },
    /// The message has more sections than expected.
    #[error("it has more than {0} sections")]
    GoesOn(usize),
    /// The content contradicts itself or known facts.
    #[error("{0}")]
    Wrong(&'static str),
}

/// Reads a message, section by section.
#[derive(Clone, Debug, Default)]
pub struct Reader<'a> {
    words: &'a [u64],
    section: usize,
}

impl<'a> Reader<'a> {
    /// The values of the next section.
    ///
    /// # Errors
    /// If there is none, or it holds no such values.
    pub fn take<T: Pod>(&mut self) -> Result<&'a [T], Malformed> {
        let Some((bytes, rest)) = self.words.split_first() else {
            return Err(Malformed::Ends(self.section));
        };
        let wrong = Malformed::Section { section: self.section, bytes: *bytes };
        let length = usize::try_from(*bytes).map_err(|_| wrong)?;
        let (section, rest) = rest.split_at_checked(length.div_ceil(WORD)).ok_or(wrong)?;
        let values = bytemuck::try_cast_slice(&bytemuck::cast_slice::<u64, u8>(section)[..length]);
        let values = values.map_err(|_| wrong)?;
        (self.words, self.section) = (rest, self.section + 1);
        Ok(values)
    }

    /// The next section, of `count` values.
    ///
    /// # Errors
    /// As for [`Reader::take`], and if it holds another number of them.
    pub fn take_exactly<T: Pod>(&mut self, count: usize) -> Result<&'a [T], Malformed> {
        let section = self.section;
        let values = self.take::<T>()?;
        let bytes = size_of_val(values) as u64;
        (values.len() == count).then_some(values).ok_or(Malformed::Section { section, bytes })
    }

    /// Skips `sections` sections.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn skip(&mut self, sections: usize) -> Result<(), Malformed> {
        (0..sections).try_for_each(|_| self.take::<u8>().map(|_| ()))
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// If something is left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.words.is_empty() { Ok(()) } else { Err(Malformed::GoesOn(self.section)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_come_back_aligned_and_whole() {
        let mut message = Message::new();
        message.put(&[1u8, 2, 3]);
        message.put(&[0.5f32, -1.0]);
        message.put::<u64>(&[]);
        message.room::<u64>(2)[1] = 7;
        let mut reader = message.reader();
        assert_eq!(reader.take::<u8>().unwrap_or_default(), [1, 2, 3]);
        assert_eq!(reader.take_exactly::<f32>(2), Ok(&[0.5, -1.0][..]));
        assert_eq!(reader.take::<u64>(), Ok(&[][..]));
        assert_eq!(reader.clone().end(), Err(Malformed::GoesOn(3)));
        assert_eq!(reader.take::<u64>(), Ok(&[0, 7][..]));
        assert_eq!(reader.take::<u64>(), Err(Malformed::Ends(4)));
        assert_eq!(reader.end(), Ok(()));
        assert_eq!(message.bytes(), 8 * (2 + 2 + 1 + 3));
        message.clear();
        let (seen, sums) = message.two_rooms::<u32, f32>(3, 1);
        seen.copy_from_slice(&[1, 2, 3]);
        sums[0] = 0.5;
        let mut reader = message.reader();
        assert_eq!(reader.take::<u32>(), Ok(&[1, 2, 3][..]));
        assert_eq!(reader.take::<f32>(), Ok(&[0.5][..]));
        assert_eq!(reader.end(), Ok(()));
        let mut reader = message.reader();
        assert_eq!(reader.skip(1), Ok(()));
        assert_eq!(reader.take::<f32>(), Ok(&[0.5][..]));
        assert_eq!(message.reader().skip(3), Err(Malformed::Ends(2)));
    }

    #[test]
    fn whatever_comes_is_an_error_and_no_panic() {
        let mut message = Message::new();
        message.put(&[1u32, 2, 3]);
        assert!(message.reader().take::<u64>().is_err(), "no whole values");
        assert!(message.reader().take_exactly::<u32>(2).is_err(), "another number of them");
        for length in 0..message.words().len() {
            let cut = Message::from_words(message.words()[..length].to_vec());
            assert!(cut.reader().take::<u32>().is_err(), "cut to {length} words");
        }
        let absurd = Message::from_words(vec![u64::MAX, 0]);
        assert!(absurd.reader().take::<u8>().is_err());
    }
}
