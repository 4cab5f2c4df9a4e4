//! Names of things: keys, tables, slots of a slab.

/// Id of a row within its table: a published 64-bit hash of (namespace, value), see
/// [`key_of`](crate::key_of).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Key(pub u64);

impl Key {
    /// The key xored with `salt`, which distinguishes tables in one store; salting twice restores
    /// it.
    #[inline]
    #[must_use]
    pub const fn salted(self, salt: u64) -> Self {
        Self(self.0 ^ salt)
    }
}

/// Number of an embedding table within a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct TableId(pub u32);

/// Position of a row in a slab, counted in rows from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SlotIndex(pub u32);

impl SlotIndex {
    /// The slot as an index into per-slot arrays.
    #[inline]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}
