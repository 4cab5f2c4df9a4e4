//! An operation that asks for a buffer, as the application and the gathered sequence name it.

use stepwell_base::Key;

use crate::Staleness;
use crate::layout::Index;

/// Local data, by its place among [`crate::Settings::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub u32);

/// What is asked for, and of which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Parameters, as they are.
    Read(usize, Staleness),
    /// Room for updates.
    PreUpdate(usize),
    /// Local data, or room for it.
    Local(usize, Fetch),
}

/// Whether local data is to be brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// The buffer is filled with it.
    Fetch,
    /// The buffer's values are not to be relied on.
    NoFetch,
}

/// Whether local data is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    /// What lies in the buffer is kept.
    Save,
    /// What was written is not to be relied on; who has only read finds the data as it was.
    NoSave,
}

/// An operation that asks for a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Acquire {
    pub(crate) what: What,
    pub(crate) index: Index,
}

impl Acquire {
    pub(crate) fn is(&self, what: What, keys: &[Key]) -> bool {
        self.what == what && *self.index.keys == *keys
    }

    /// The table of parameter data that it is about.
    pub(crate) fn table(&self) -> Option<usize> {
        match self.what {
            What::Read(table, _) | What::PreUpdate(table) => Some(table),
            What::Local(..) => None,
        }
    }

    /// The local data that it is about.
    pub(crate) fn local(&self) -> Option<usize> {
        match self.what {
            What::Local(local, _) => Some(local),
            _ => None,
        }
    }
}
