//! Lines of words by the hash of a key: where a key's line lies, and what of its hash a word keeps.

/// Words of a line, one of the processor's.
pub(crate) const WORDS: usize = 8;
/// Keys whose lines are asked for before the first is looked at.
pub(crate) const AT_ONCE: usize = 32;

/// The line of a hash among `lines`, by its lower half.
#[inline]
pub(crate) fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash.rotate_right(32)) * lines as u128) >> 64) as usize
}

/// The upper half of a hash, which a word keeps.
#[inline]
pub(crate) fn tag_of(hash: u64) -> u64 {
    hash >> 32
}
