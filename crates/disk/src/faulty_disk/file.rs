//! A file that fails on demand.

use std::path::Path;
use std::sync::Arc;

use super::faults::{Fate, Fates, Held};
use crate::buffer::{BLOCK_BYTES, Buffer};
use crate::error::Operation;
use crate::file::File;
use crate::{Error, Result};

/// Unit that a cut leaves intact.
const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct FaultyFile {
    pub(super) inner: Arc<dyn File>,
    pub(super) fates: Fates,
    pub(super) _held: Held,
}

impl FaultyFile {
    /// For operations that either happen or fail.
    fn before(&self, operation: Operation) -> Result<()> {
        match self.fates.next(operation) {
            Fate::Torn(error) | Fate::Fails(error) => Err(Error::io(operation, self.path(), error)),
            _ => Ok(()),
        }
    }

    /// Writes the first half of `bytes`; in a direct file, whole sectors of it, followed by the
    /// file's previous bytes.
    fn write_half(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let half = bytes.len() / 2;
        if !self.inner.is_direct() {
            return self.inner.write_at(offset, &bytes[..half]);
        }
        let half = half - half % SECTOR_BYTES;
        let whole = half - half % BLOCK_BYTES;
        if whole > 0 {
            self.inner.write_at(offset, &bytes[..whole])?;
        }
        if half > whole {
            let at = offset + whole as u64;
            let mut block = Buffer::new(BLOCK_BYTES);
            // Beyond the file's end there are no bytes to keep.
            if self.inner.read_at(at, &mut block).is_err() {
                block.fill(0);
            }
            block[..half - whole].copy_from_slice(&bytes[whole..half]);
            self.inner.write_at(at, &block)?;
        }
        Ok(())
    }

    /// Fills the first half of `buffer`, in whole blocks if the file is direct.
    fn read_half(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let step = if self.inner.is_direct() { BLOCK_BYTES } else { 1 };
        let half = buffer.len() / 2 / step * step;
        self.inner.read_at(offset, &mut buffer[..half])
    }
}

impl File for FaultyFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.before(Operation::Measure)?;
        self.inner.len()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        crate::queue::check_direct(self.is_direct(), offset, bytes.len());
        let error = match self.fates.next(Operation::Write) {
            Fate::Lost => return Ok(()),
            Fate::Misdirected => return self.inner.write_at(offset + BLOCK_BYTES as u64, bytes),
            Fate::Torn(error) => {
                self.write_half(offset, bytes)?;
                error
            }
            Fate::Fails(error) => error,
            _ => return self.inner.write_at(offset, bytes),
        };
        Err(Error::io_at(Operation::Write, self.path(), offset, bytes.len(), error))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        crate::queue::check_direct(self.is_direct(), offset, buffer.len());
        let error = match self.fates.next(Operation::Read) {
            Fate::Short(error) => {
                self.read_half(offset, buffer)?;
                error
            }
            Fate::Torn(error) | Fate::Fails(error) => error,
            Fate::Flipped(bit) => {
                self.inner.read_at(offset, buffer)?;
                if !buffer.is_empty() {
                    let bit = bit % (buffer.len() as u64 * 8);
                    buffer[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                return Ok(());
            }
            _ => return self.inner.read_at(offset, buffer),
        };
        Err(Error::io_at(Operation::Read, self.path(), offset, buffer.len(), error))
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.before(Operation::Truncate)?;
        self.inner.truncate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.before(Operation::Sync)?;
        self.inner.sync()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    // No descriptor, so that every operation of a queue goes through here.
}
