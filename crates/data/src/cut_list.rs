//! Lists of a chunk that exceed their limit.

/// Most entries per chunk; further lists are added to the last entry of their column.
pub(crate) const ENTRIES_MAX: usize = 4096;

/// One or more truncated lists of an id column in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutList {
    /// Last example of the chunk with such a list.
    pub example: u32,
    /// Number of the id column.
    pub column: u32,
    /// Number of examples.
    pub examples: u32,
    /// Number of dropped ids.
    pub ids: u64,
}

/// Most bytes of entries in a chunk with `lists` list columns, made from `block_bytes` bytes.
pub(crate) fn bytes_max(lists: usize, block_bytes: usize) -> usize {
    let most = if lists == 0 { 0 } else { ENTRIES_MAX.min(block_bytes) + lists };
    most * size_of::<CutList>()
}
