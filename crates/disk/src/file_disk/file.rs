//! A file of the machine's file system.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::named;
use crate::progress::{Next, Progress};
use crate::queue::check_direct;
use crate::{BLOCK_BYTES, Buffer, Error, File, Operation, Result};

/// Bytes that go through a buffer at once where the caller's memory is not aligned.
const DETOUR_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct SystemFile {
    file: fs::File,
    path: PathBuf,
    is_direct: bool,
}

impl SystemFile {
    pub(super) fn plain(file: fs::File, path: PathBuf) -> Self {
        Self { file, path, is_direct: false }
    }

    /// One that passes the system's cache by from now on; where the file system knows no such
    /// thing it goes through the cache, and the caller keeps to whole blocks all the same.
    ///
    /// The mode is set on the open file: opening with it makes a new file and then refuses it.
    pub(super) fn direct(file: fs::File, path: PathBuf) -> Result<Self> {
        let flags = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::DIRECT));
        match flags {
            Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(Error::io(Operation::Open, &path, error.into())),
        }
        Ok(Self { file, path, is_direct: true })
    }

    /// Sets room aside for a new file.
    pub(super) fn reserve(&self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    let (path, source) = (self.path.clone(), error.into());
                    return Err(Error::Room { path, bytes, source });
                }
                Err(error) => {
                    return Err(Error::io(Operation::Create, &self.path, error.into()));
                }
            }
        }
    }

    fn read_direct(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_direct(true, offset, buffer.len());
        if is_aligned(buffer) {
            return self.read_blocks(offset, buffer);
        }
        let mut detour = Buffer::new(buffer.len().min(DETOUR_BYTES));
        for (part, offset) in buffer.chunks_mut(DETOUR_BYTES).zip(places(offset)) {
            let through = &mut detour[..part.len()];
            self.read_blocks(offset, through)?;
            part.copy_from_slice(through);
        }
        Ok(())
    }

    fn write_direct(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        check_direct(true, offset, bytes.len());
        if is_aligned(bytes) {
            return self.write_blocks(offset, bytes);
        }
        let mut detour = Buffer::new(bytes.len().min(DETOUR_BYTES));
        for (part, offset) in bytes.chunks(DETOUR_BYTES).zip(places(offset)) {
            let through = &mut detour[..part.len()];
            through.copy_from_slice(part);
            self.write_blocks(offset, through)?;
        }
        Ok(())
    }

    fn read_blocks(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        attempts(Progress::of_read(buffer.len(), BLOCK_BYTES), |from, to| {
            self.file.read_at(&mut buffer[from..to], offset + from as u64)
        })
    }

    fn write_blocks(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        attempts(Progress::of_write(bytes.len(), BLOCK_BYTES), |from, to| {
            self.file.write_at(&bytes[from..to], offset + from as u64)
        })
    }
}

/// Makes attempts until all bytes are moved. The standard library's own loops would go on where a
/// short attempt ended, which need not be on a block.
fn attempts(
    mut progress: Progress,
    mut attempt: impl FnMut(usize, usize) -> io::Result<usize>,
) -> io::Result<()> {
    if progress.bytes() == 0 {
        return Ok(());
    }
    loop {
        match progress.after(attempt(progress.from(), progress.to())) {
            Next::Done => return Ok(()),
            Next::Again => {}
            Next::Failed(error) => return Err(error),
        }
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
}

/// Where the parts begin that go through a buffer one after the other.
fn places(offset: u64) -> impl Iterator<Item = u64> {
    (offset..).step_by(DETOUR_BYTES)
}

impl File for SystemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(named(Operation::Measure, &self.path, self.file.metadata())?.len())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = if self.is_direct {
            self.write_direct(offset, bytes)
        } else {
            self.file.write_all_at(bytes, offset)
        };
        let place = |e| Error::io_at(Operation::Write, &self.path, offset, bytes.len(), e);
        written.map_err(place)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bytes = buffer.len();
        let read = if self.is_direct {
            self.read_direct(offset, buffer)
        } else {
            self.file.read_exact_at(buffer, offset)
        };
        read.map_err(|e| Error::io_at(Operation::Read, &self.path, offset, bytes, e))
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        named(Operation::Truncate, &self.path, self.file.set_len(bytes))
    }

    fn sync(&self) -> Result<()> {
        named(Operation::Sync, &self.path, self.file.sync_all())
    }

    fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
