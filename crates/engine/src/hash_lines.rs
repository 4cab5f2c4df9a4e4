//! Tables of lines of words by the hash of a key: a key's line, and the part of its hash in a word.

use stepwell_base::Key;
use stepwell_base::scatter::Scatter;

/// Number of words of a line, which is a cache line.
pub(crate) const WORDS: usize = 8;
/// Number of keys whose lines are prefetched before the first is visited.
pub(crate) const AT_ONCE: usize = 32;

/// The line of a hash among `lines`, from its lower half.
#[inline]
pub(crate) fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash.rotate_right(32)) * lines as u128) >> 64) as usize
}

/// The upper half of a hash, which words contain.
#[inline]
pub(crate) fn tag_of(hash: u64) -> u64 {
    hash >> 32
}

/// Visits `keys` with their hashes in order; calls `ask` for [`AT_ONCE`] of them before the first
/// of these is visited, to prefetch their lines.
#[inline]
pub(crate) fn each_ahead<T>(
    of: &mut T,
    keys: impl Iterator<Item = Key>,
    ask: impl Fn(&T, u64),
    mut meet: impl FnMut(&mut T, Key, u64),
) {
    let mut keys = keys.fuse();
    let mut ahead = [(Key(0), 0); AT_ONCE];
    loop {
        let mut asked = 0;
        for (place, key) in ahead.iter_mut().zip(keys.by_ref()) {
            *place = (key, Scatter::KNOWN.of(key));
            ask(of, place.1);
            asked += 1;
        }
        ahead[..asked].iter().for_each(|(key, hash)| meet(of, *key, *hash));
        if asked < AT_ONCE {
            return;
        }
    }
}
