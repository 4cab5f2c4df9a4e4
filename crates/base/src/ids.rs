//! Names of things: keys, tables, slots of a slab, steps of training.

/// Id of a row within its table: a published 64-bit hash of (namespace, value), see
/// [`key_of`](crate::key_of).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Key(pub u64);

impl Key {
    /// The key under `salt`, which tells tables apart that share a store; twice, it is itself.
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

/// Place of a row in a slab, counted in rows from its start.
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
