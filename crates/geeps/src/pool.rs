//! The pool of access buffers.
//!
//! - **How.** A buffer is one piece of memory of exactly the size of its access. Returned buffers
//!   are kept by size, since an iteration requests the same sizes again; if there is no room for a
//!   new one, kept ones of other sizes are freed. So memory is never split into pieces that are too
//!   small: all memory that is not in use is available.
//! - **Saved.** A buffer whose local data was saved still holds it. Until it is reused, that data
//!   need not be fetched: layers mostly read what the previous one has just written.
//! - **Invariants.** Bytes in use and kept never exceed the pool's. A kept piece is freed only
//!   after the last operation that used it.
//! - **Cost.** An iteration like the previous one allocates nothing, as long as all sizes fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use stepwell_device::Event;

use crate::Result;
use crate::memory::{Memory, Piece, bytes_counted};

/// Access buffers of a given total size.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    bytes: u64,
    used: u64,
    kept: u64,
    /// By number of floats.
    spares: BTreeMap<usize, Vec<Spare>>,
    /// The most bytes in use and kept.
    peak: u64,
}

/// A buffer that is not in use.
#[derive(Debug)]
struct Spare {
    piece: Piece,
    /// The number of the local data that it still holds whole, as it was saved.
    saved: Option<usize>,
}

/// Outcome of taking a buffer.
#[derive(Debug)]
pub(crate) enum Taken {
    Piece(Piece),
    /// Others must be given back first.
    Full,
    /// There is room once this is over.
    Busy(Arc<Event>),
}

impl Pool {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    pub(crate) fn take(&mut self, memory: &Memory, floats: usize) -> Result<Taken> {
        let bytes = bytes_counted(floats);
        if let Some(spares) = self.spares.get_mut(&floats).filter(|spares| !spares.is_empty()) {
            // Buffers with saved data are reused last.
            let empty = spares.iter().rposition(|spare| spare.saved.is_none());
            let spare = spares.remove(empty.unwrap_or(spares.len() - 1));
            (self.kept, self.used) = (self.kept - bytes, self.used + bytes);
            return Ok(Taken::Piece(spare.piece));
        }
        if self.used + bytes > self.bytes {
            return Ok(Taken::Full);
        }
        while self.used + self.kept + bytes > self.bytes {
            if let Some(event) = self.let_one_go()? {
                return Ok(Taken::Busy(event));
            }
        }
        let piece = memory.piece(floats)?;
        self.used += bytes;
        self.peak = self.peak.max(self.used + self.kept);
        Ok(Taken::Piece(piece))
    }

    /// Frees a kept piece that is not in use; else returns the event of one.
    fn let_one_go(&mut self) -> Result<Option<Arc<Event>>> {
        let mut first = None;
        for (floats, spares) in &mut self.spares {
            for place in 0..spares.len() {
                if let Some(event) = spares[place].piece.under_way()? {
                    first.get_or_insert(event);
                    continue;
                }
                drop(spares.swap_remove(place));
                self.kept -= bytes_counted(*floats);
                return Ok(None);
            }
        }
        assert!(first.is_some(), "unused buffers are kept");
        Ok(first)
    }

    /// Takes back a buffer.
    pub(crate) fn give(&mut self, piece: Piece) {
        self.keep(piece, None);
    }

    /// Takes back a buffer that has all of this local data, as it was just saved.
    pub(crate) fn give_saved(&mut self, piece: Piece, local: usize) {
        self.forget(local);
        self.keep(piece, Some(local));
    }

    /// Takes the buffer that still holds this local data, if there is one.
    pub(crate) fn take_saved(&mut self, local: usize, floats: usize) -> Option<Piece> {
        let spares = self.spares.get_mut(&floats)?;
        let at = spares.iter().position(|spare| spare.saved == Some(local))?;
        let bytes = bytes_counted(floats);
        (self.kept, self.used) = (self.kept - bytes, self.used + bytes);
        Some(spares.remove(at).piece)
    }

    /// Records that this local data has changed.
    pub(crate) fn forget(&mut self, local: usize) {
        let spares = self.spares.values_mut().flatten();
        spares.filter(|spare| spare.saved == Some(local)).for_each(|spare| spare.saved = None);
    }

    fn keep(&mut self, piece: Piece, saved: Option<usize>) {
        let (floats, bytes) = (piece.floats(), bytes_counted(piece.floats()));
        assert!(
            self.used >= bytes,
            "a buffer of {bytes} bytes is returned, but {} are in use",
            self.used
        );
        (self.kept, self.used) = (self.kept + bytes, self.used - bytes);
        self.spares.entry(floats).or_default().push(Spare { piece, saved });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn taken(pool: &mut Pool, memory: &Memory, floats: usize) -> Option<Piece> {
        match pool.take(memory, floats).unwrap() {
            Taken::Piece(piece) => Some(piece),
            Taken::Full => None,
            Taken::Busy(event) => panic!("{event:?} on the host"),
        }
    }

    #[test]
    fn what_is_not_in_use_is_available_in_any_size() {
        let memory = Memory::new(&Settings::default()).unwrap();
        let mut pool = Pool::new(16 * 256);
        let small: Vec<Piece> = (0..16).filter_map(|_| taken(&mut pool, &memory, 64)).collect();
        assert_eq!(small.len(), 16);
        assert!(taken(&mut pool, &memory, 1).is_none(), "it is full");
        // Every other buffer is given back: half of the pool is free, in separate pieces.
        let mut held = Vec::new();
        for (number, piece) in small.into_iter().enumerate() {
            if number % 2 == 0 { pool.give(piece) } else { held.push(piece) }
        }
        assert!(taken(&mut pool, &memory, 8 * 64 + 1).is_none());
        let large = taken(&mut pool, &memory, 8 * 64).unwrap();
        assert_eq!((pool.used(), pool.peak()), (16 * 256, 16 * 256));
        pool.give(large);
        assert_eq!(taken(&mut pool, &memory, 8 * 64).map(|piece| piece.floats()), Some(8 * 64));
        assert_eq!(pool.peak(), pool.bytes());
    }

    #[test]
    fn a_buffer_has_what_was_saved_until_somebody_needs_it() {
        let memory = Memory::new(&Settings::default()).unwrap();
        let mut pool = Pool::new(3 * 256);
        let [a, b, c] = [(); 3].map(|()| taken(&mut pool, &memory, 64).unwrap());
        pool.give_saved(a, 7);
        pool.give(b);
        pool.give_saved(c, 8);
        // The one without saved data goes first.
        let other = taken(&mut pool, &memory, 64).unwrap();
        let saved = pool.take_saved(7, 64).unwrap();
        assert_eq!((pool.used(), pool.take_saved(7, 64).is_some()), (2 * 256, false));
        // Saved again, or partly: the older buffer no longer holds it.
        pool.give_saved(saved, 8);
        pool.give(other);
        assert!(pool.take_saved(8, 64).is_some() && pool.take_saved(8, 64).is_none());
        pool.forget(8);
        assert_eq!(pool.used(), 256);
    }
}
