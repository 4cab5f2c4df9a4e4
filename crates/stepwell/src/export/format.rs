//! The formats of exported tensors.
//!
//! - **Why.** Readers have a library for at least one of them.

use std::io;
use std::path::{Path, PathBuf};

use super::npy::Arrays;
use super::parquet::{Lists, Records};
use super::sink::{About, Sink};
use super::tensors::{Tensor, TensorFile};
use crate::cli::Format;

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
