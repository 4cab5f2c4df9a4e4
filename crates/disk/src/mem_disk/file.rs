//! A file in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::FILE_BYTES_MAX;
use super::world::Inode;
use crate::error::Operation;
use crate::file::{File, Mode};
use crate::mutex::lock;
use crate::queue::check_direct;
use crate::{Error, Result};

pub(super) fn refuse<T>(operation: Operation, path: &Path, kind: io::ErrorKind) -> Result<T> {
    Err(Error::io(operation, path, kind.into()))
}

#[derive(Debug)]
pub(super) struct MemFile {
    pub(super) path: PathBuf,
    pub(super) inode: Arc<Inode>,
    pub(super) mode: Mode,
}

impl MemFile {
    fn at(&self, operation: Operation, offset: u64, bytes: usize, kind: io::ErrorKind) -> Error {
        Error::io_at(operation, &self.path, offset, bytes, kind.into())
    }
}

impl File for MemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(lock(&self.inode.0).live().len() as u64)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_direct(self.mode.direct, offset, bytes.len());
        let refused = |kind| Err(self.at(Operation::Write, offset, bytes.len(), kind));
        if !self.mode.writable {
            return refused(io::ErrorKind::PermissionDenied);
        }
        if offset.saturating_add(bytes.len() as u64) > FILE_BYTES_MAX {
            return refused(io::ErrorKind::FileTooLarge);
        }
        lock(&self.inode.0).write(offset as usize, bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_direct(self.mode.direct, offset, buffer.len());
        let content = lock(&self.inode.0);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = content.live().get(start..).and_then(|rest| rest.get(..buffer.len()));
        let Some(found) = found else {
            let kind = io::ErrorKind::UnexpectedEof;
            return Err(self.at(Operation::Read, offset, buffer.len(), kind));
        };
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        if !self.mode.writable {
            return refuse(Operation::Truncate, &self.path, io::ErrorKind::PermissionDenied);
        }
        if bytes > FILE_BYTES_MAX {
            return refuse(Operation::Truncate, &self.path, io::ErrorKind::FileTooLarge);
        }
        lock(&self.inode.0).truncate(bytes as usize);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        lock(&self.inode.0).sync();
        Ok(())
    }

    fn is_direct(&self) -> bool {
        self.mode.direct
    }
}
