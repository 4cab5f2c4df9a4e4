//! A set of lists that have a slot, for finding the first one without looking at each.
//!
//! Cost: a bit a list; finding takes one step per 64 lists.

/// Which of a fixed number of lists have a slot.
#[derive(Debug)]
pub(super) struct Occupied {
    words: Box<[u64]>,
}

impl Occupied {
    /// None of `lists` lists.
    pub(super) fn new(lists: usize) -> Self {
        Self { words: vec![0; lists.div_ceil(64)].into() }
    }

    pub(super) fn insert(&mut self, list: usize) {
        self.words[list / 64] |= 1 << (list % 64);
    }

    pub(super) fn remove(&mut self, list: usize) {
        self.words[list / 64] &= !(1 << (list % 64));
    }

    /// The first list from `from` on.
    pub(super) fn first_from(&self, from: usize) -> Option<usize> {
        let first = self.words.get(from / 64)? & (u64::MAX << (from % 64));
        let later = self.words.iter().copied().enumerate().skip(from / 64 + 1);
        std::iter::once((from / 64, first))
            .chain(later)
            .find(|(_, bits)| *bits != 0)
            .map(|(word, bits)| word * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_from_anywhere_is_found() {
        let mut set = Occupied::new(200);
        assert_eq!(set.first_from(0), None);
        for list in [199, 3, 64, 63] {
            set.insert(list);
        }
        let found: Vec<_> = [0, 3, 4, 64, 65, 199].map(|from| set.first_from(from)).into();
        assert_eq!(found, [3, 3, 63, 64, 199, 199].map(Some));
        set.remove(199);
        assert_eq!(set.first_from(65), None);
        assert_eq!(set.first_from(256), None);
    }
}
