//! The formats of exported tensors.
//!
//! Why       Readers have a library for at least one of them.
//! How       A sink gets all shapes before the first value, takes values of all tensors
//!           alternately, and keeps a bounded buffer for each.

use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::npy::Arrays;
use super::parquet::{Lists, Records};
use super::tensors::{Tensor, TensorFile};

/// A format of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A file for the dense part and one for each table
    Safetensors,
    /// NumPy's: a directory for the dense part and one for each table, with a file for each tensor
    Npy,
    /// A file for the dense part and one for each table, with a record for each row
    Parquet,
}

/// Texts about the tensors of a file, by name.
pub(crate) type About<'a> = [(&'a str, String)];

/// A writer of tensors.
pub(crate) trait Sink {
    /// Adds values, as little-endian bytes, to tensor number `tensor`. For a table, the values of
    /// one row are added to all tensors in order before those of the next row.
    fn put(&mut self, tensor: usize, bytes: &[u8]) -> io::Result<()>;

    /// Writes and syncs the buffered values.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl Format {
    /// The path of the tensors called `name` in `folder`.
    pub(crate) fn place(self, folder: &Path, name: &str) -> PathBuf {
        folder.join(match self {
            Self::Safetensors => format!("{name}.safetensors"),
            Self::Npy => name.to_owned(),
            Self::Parquet => format!("{name}.parquet"),
        })
    }

    /// Begins the tensors of the dense part, each of which is added as a whole.
    pub(crate) fn dense(
        self,
        path: &Path,
        tensors: &[Tensor],
        about: &About<'_>,
    ) -> io::Result<Box<dyn Sink>> {
        match self {
            Self::Parquet => Ok(Box::new(Lists::create(path, tensors, about)?)),
            other => other.table(path, tensors, about),
        }
    }

    /// Begins the tensors of a table, each with an entry for each row.
    pub(crate) fn table(
        self,
        path: &Path,
        tensors: &[Tensor],
        about: &About<'_>,
    ) -> io::Result<Box<dyn Sink>> {
        Ok(match self {
            Self::Safetensors => Box::new(TensorFile::create(path, tensors, about)?),
            Self::Npy => Box::new(Arrays::create(path, tensors, about)?),
            Self::Parquet => Box::new(Records::create(path, tensors, about)?),
        })
    }
}
