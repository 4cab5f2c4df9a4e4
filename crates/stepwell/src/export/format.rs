//! How tensors are written: one way for each format.
//!
//! Why       Whoever reads them has a library for one of them at hand.
//! How       A sink is told all tensors before the first value, takes values of all of them side by
//!           side, and never holds more of one than its buffer.

use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::npy::Arrays;
use super::parquet::{Lists, Records};
use super::tensors::{Tensor, TensorFile};

/// A format of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A file of the dense part and one of each table
    Safetensors,
    /// NumPy's: a directory of the dense part and one of each table, a file for each tensor
    Npy,
    /// A file of the dense part and one of each table, with a record for each row
    Parquet,
}

/// Texts about the tensors of a file, by name.
pub(crate) type About<'a> = [(&'a str, String)];

/// Takes the values of tensors.
pub(crate) trait Sink {
    /// Adds values to tensor number `tensor`, as bytes, little-endian. Of a table each row gives
    /// its values to all tensors in order before the next one does.
    fn put(&mut self, tensor: usize, bytes: &[u8]) -> io::Result<()>;

    /// Writes what waits, down to the disk.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl Format {
    /// The place of the tensors called `name` in `folder`.
    pub(crate) fn place(self, folder: &Path, name: &str) -> PathBuf {
        folder.join(match self {
            Self::Safetensors => format!("{name}.safetensors"),
            Self::Npy => name.to_owned(),
            Self::Parquet => format!("{name}.parquet"),
        })
    }

    /// Begins the tensors of the dense part, each of which comes whole.
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

    /// Begins the tensors of a table, all of which have an entry for each row.
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
