//! Dense features that the model makes from ids: lengths of sequences, and bins of ids.

use stepwell_base::Key;
use stepwell_data::Chunk;
use stepwell_nn::BINS;

/// A dense feature made from the ids of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    /// Number of ids.
    Length {
        /// Number of the column.
        column: usize,
    },
    /// Bin of the first id's key, or -1 without ids: the upper bits of the key.
    Bin {
        /// Number of the column.
        column: usize,
    },
}

impl Derived {
    /// Its value for an example.
    pub(crate) fn of(self, chunk: &Chunk, example: usize) -> f32 {
        match self {
            Self::Length { column } => chunk.bag(example, column).len() as f32,
            Self::Bin { column } => {
                chunk.bag(example, column).first().map_or(-1.0, |key| bin_of(*key) as f32)
            }
        }
    }
}

/// Bin of a key.
fn bin_of(key: Key) -> u64 {
    const BITS: u32 = BINS.trailing_zeros();
    key.0 >> (u64::BITS - BITS)
}
