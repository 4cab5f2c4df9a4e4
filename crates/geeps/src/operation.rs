//! Operations that request a buffer, in the application's calls and in the recorded sequence.

use stepwell_base::Key;

use crate::layout::Index;
use crate::settings::Staleness;

/// Local data, by its place among [`crate::Settings::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub u32);

/// Kind of a request, with the table or local data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Current parameters.
    Read(usize, Staleness),
    /// A buffer for updates.
    PreUpdate(usize),
    /// Local data, or a buffer for it.
    Local(usize, Fetch),
}

/// Whether to fetch local data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// The buffer is filled with the data.
    Fetch,
    /// The buffer's values are unspecified.
    NoFetch,
}

/// Whether to save local data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    /// The buffer's content is saved.
    Save,
    /// Written values are unspecified afterwards; data that was only read is unchanged.
    NoSave,
}

/// An operation that requests a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Acquire {
    pub(crate) what: What,
    pub(crate) index: Index,
}

impl Acquire {
    pub(crate) fn is(&self, what: What, keys: &[Key]) -> bool {
        self.what == what && *self.index.keys == *keys
    }

    /// The table of parameter data that it concerns.
    pub(crate) fn table(&self) -> Option<usize> {
        match self.what {
            What::Read(table, _) | What::PreUpdate(table) => Some(table),
            What::Local(..) => None,
        }
    }

    /// The local data that it concerns.
    pub(crate) fn local(&self) -> Option<usize> {
        match self.what {
            What::Local(local, _) => Some(local),
            _ => None,
        }
    }
}
