//! Memory of a rank that others put bytes into.
//!
//! - **Why.** Other processes may write into it at any time, without a lock of this one. So there
//!   are no references to its bytes: they are copied in and out, word by word.
//! - **How.** Words are atomic. Reading ends with a fence, so that values read after seeing a word
//!   are at least as new as when that word was written.
//! - **Bounds.** The requested words; they are counted where windows are opened.

use std::fmt::{Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use bytemuck::Pod;

use crate::message::Malformed;

const WORD: usize = size_of::<u64>();

/// Memory of a window.
pub(crate) type Words = Arc<dyn AsRef<[AtomicU64]> + Send + Sync>;

/// A window of this rank.
pub(crate) struct Window {
    words: Words,
    bytes: usize,
    /// Whether others reach it without this rank's help.
    is_exposed: bool,
}

impl Debug for Window {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { bytes, is_exposed, .. } = self;
        f.debug_struct("Window").field("bytes", bytes).field("is_exposed", is_exposed).finish()
    }
}

impl Window {
    /// A window of `bytes` bytes, all zero.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { words: own_words(bytes), bytes, is_exposed: false }
    }

    pub(crate) fn is_exposed(&self) -> bool {
        self.is_exposed
    }

    /// Moves it to `words`, which others reach, too.
    #[cfg(feature = "mpi")]
    pub(crate) fn expose(&mut self, words: Words) {
        self.move_to(words);
        self.is_exposed = true;
    }

    /// Moves it to memory of this process alone, which no other rank puts into any more.
    #[cfg(feature = "mpi")]
    pub(crate) fn recall(&mut self) {
        self.move_to(own_words(self.bytes));
        self.is_exposed = false;
    }

    #[cfg(feature = "mpi")]
    fn move_to(&mut self, words: Words) {
        let (from, to) = ((*self.words).as_ref(), (*words).as_ref());
        assert_eq!(from.len(), to.len(), "a window keeps its size");
        for (from, to) in from.iter().zip(to) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.words = words;
    }

    /// Puts `bytes` at `offset`. Words at both ends are read and written again, so no other rank
    /// may put into them concurrently.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), Malformed> {
        let start = usize::try_from(offset).ok();
        let end = start.and_then(|start| start.checked_add(bytes.len()));
        let (Some(start), Some(_)) = (start, end.filter(|end| *end <= self.bytes)) else {
            return Err(Malformed::Wrong("it reaches beyond its window"));
        };
        let words = &(*self.words).as_ref()[start / WORD..];
        let head = (WORD - start % WORD) % WORD;
        let (head, rest) = bytes.split_at(head.min(bytes.len()));
        let (whole, tail) = rest.as_chunks::<WORD>();
        let next = usize::from(!head.is_empty());
        put_part(words, start % WORD, head);
        for (bytes, word) in whole.iter().zip(&words[next..]) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        put_part(&words[next + whole.len()..], 0, tail);
        Ok(())
    }

    /// Copies values out, from `offset` on, a multiple of a word.
    pub(crate) fn read<T: Pod>(&self, offset: usize, values: &mut [T]) {
        let (bytes, length) = (bytemuck::cast_slice_mut::<T, u8>(values), self.bytes);
        assert!(offset.is_multiple_of(WORD), "windows are read in words, not from byte {offset}");
        let is_inside = offset.checked_add(bytes.len()).is_some_and(|end| end <= length);
        assert!(is_inside, "{} bytes from {offset} of a window of {length}", bytes.len());
        let words = &(*self.words).as_ref()[offset / WORD..];
        let (whole, tail) = bytes.as_chunks_mut::<WORD>();
        let count = whole.len();
        for (bytes, word) in whole.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if !tail.is_empty() {
            let word = words[count].load(Ordering::Relaxed).to_ne_bytes();
            tail.copy_from_slice(&word[..tail.len()]);
        }
        fence(Ordering::Acquire);
    }
}

fn own_words(bytes: usize) -> Words {
    let words = (0..bytes.div_ceil(WORD)).map(|_| AtomicU64::new(0));
    Arc::new(words.collect::<Vec<AtomicU64>>())
}

/// Puts bytes into a part of the first word.
fn put_part(words: &[AtomicU64], from: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let mut word = words[0].load(Ordering::Relaxed).to_ne_bytes();
    word[from..from + bytes.len()].copy_from_slice(bytes);
    words[0].store(u64::from_ne_bytes(word), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(window: &Window, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        window.read(0, &mut bytes);
        bytes
    }

    #[test]
    fn what_is_put_anywhere_is_read_and_nothing_beside_it_changes() {
        for start in 0..=20usize {
            for count in 0..=20 - start {
                let window = Window::new(20);
                let put: Vec<u8> = (1..=count as u8).collect();
                assert_eq!(window.put(start as u64, &put), Ok(()));
                let mut wanted = vec![0; 20];
                wanted[start..start + count].copy_from_slice(&put);
                assert_eq!(bytes(&window, 20), wanted, "{count} bytes at {start}");
            }
        }
    }

    #[test]
    fn what_reaches_beyond_changes_nothing() {
        let window = Window::new(20);
        for (offset, count) in [(20, 1), (17, 4), (u64::MAX, 1), (u64::MAX, 0), (0, 21)] {
            assert!(window.put(offset, &vec![1; count]).is_err(), "{count} at {offset}");
        }
        assert_eq!(window.put(20, &[]), Ok(()));
        assert_eq!(bytes(&window, 20), [0; 20]);
    }

    #[test]
    fn values_of_any_kind_are_read_from_any_word() {
        let window = Window::new(24);
        window.put(8, bytemuck::cast_slice(&[1.5f32, 2.5, 3.5])).unwrap();
        let mut values = [0f32; 3];
        window.read(8, &mut values);
        assert_eq!(values, [1.5, 2.5, 3.5]);
        let mut last = [0f32; 1];
        window.read(16, &mut last);
        assert_eq!(last, [3.5]);
        window.read::<u64>(24, &mut []);
    }
}
