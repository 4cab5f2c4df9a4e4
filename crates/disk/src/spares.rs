//! Reusable buffers for reads.
//!
//! - **How.** A read takes a buffer of its length and returns it; returned buffers are kept ready
//!   by length.
//! - **Bounds.** Lent and ready buffers together have at most `bytes_max` bytes: ready ones of
//!   other lengths are freed to make room for a new one.

use std::collections::BTreeMap;

use crate::buffer::Buffer;

#[derive(Debug)]
pub(crate) struct Spares {
    bytes_max: usize,
    bytes_lent: usize,
    bytes_ready: usize,
    ready: BTreeMap<usize, Vec<Buffer>>,
}

impl Spares {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes_lent: 0, bytes_ready: 0, ready: BTreeMap::new() }
    }

    /// Returns a buffer of `bytes` bytes, whole blocks, if there is room for one.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Buffer> {
        if self.bytes_lent + bytes > self.bytes_max {
            return None;
        }
        self.bytes_lent += bytes;
        if let Some(buffer) = self.ready.get_mut(&bytes).and_then(Vec::pop) {
            self.bytes_ready -= bytes;
            return Some(buffer);
        }
        while self.bytes_lent + self.bytes_ready > self.bytes_max {
            self.free_one();
        }
        Some(Buffer::new(bytes))
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, buffer: Buffer) {
        self.bytes_lent -= buffer.len();
        self.bytes_ready += buffer.len();
        self.ready.entry(buffer.len()).or_default().push(buffer);
    }

    fn free_one(&mut self) {
        let Some(mut largest) = self.ready.last_entry() else {
            unreachable!("ready buffers hold {} bytes and there are none", self.bytes_ready)
        };
        match largest.get_mut().pop() {
            Some(buffer) => self.bytes_ready -= buffer.len(),
            None => drop(largest.remove()),
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;
    use crate::buffer::BLOCK_BYTES;

    #[test]
    fn the_bound_holds_over_lent_and_ready_ones() {
        let mut spares = Spares::new(16 * BLOCK_BYTES);
        let mut lent: Vec<Buffer> = Vec::new();
        let mut dice = Stream::from_state(1);
        for _ in 0..10_000 {
            let bytes = (dice.next_u64() % 7 + 1) as usize * BLOCK_BYTES;
            let before: usize = lent.iter().map(|buffer| buffer.len()).sum();
            match spares.take(bytes) {
                Some(buffer) => {
                    assert_eq!(buffer.len(), bytes);
                    lent.push(buffer);
                }
                None => assert!(before + bytes > 16 * BLOCK_BYTES),
            }
            if dice.next_u64() & 1 == 0 && !lent.is_empty() {
                spares.give(lent.swap_remove(dice.next_u64() as usize % lent.len()));
            }
            let held: usize = lent.iter().map(|buffer| buffer.len()).sum();
            let ready: usize = spares.ready.values().flatten().map(|buffer| buffer.len()).sum();
            assert_eq!((held, ready), (spares.bytes_lent, spares.bytes_ready));
            assert!(held + ready <= 16 * BLOCK_BYTES);
        }
    }
}
