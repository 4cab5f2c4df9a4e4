//! A file of the machine's file system.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::open_files::Holder;
use crate::buffer::{BLOCK_BYTES, Buffer};
use crate::descriptor::{Access, Descriptor};
use crate::error::Operation;
use crate::file::File;
use crate::progress::{Next, Progress};
use crate::queue::check_direct;
use crate::{Error, Result};

/// Size of the buffer that is used if the caller's memory is not aligned.
const DETOUR_BYTES: usize = 1 << 20;

pub(super) fn named<T>(operation: Operation, path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::io(operation, path, source))
}

/// A file that is open while it is used, and otherwise as long as the bound on open files allows.
#[derive(Debug)]
pub(super) struct SystemFile {
    holder: Holder,
}

impl SystemFile {
    pub(super) fn new(holder: Holder) -> Self {
        Self { holder }
    }

    /// The file's descriptor, for one operation.
    fn file(&self, access: Access) -> Result<Descriptor> {
        named(Operation::Open, self.path(), self.holder.descriptor(access))
    }

    /// Allocates room for a new file.
    pub(super) fn reserve(&self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let file = self.file(Access::Write)?;
        loop {
            match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    let (path, source) = (self.path().to_owned(), error.into());
                    return Err(Error::Room { path, bytes, source });
                }
                Err(error) => {
                    return Err(Error::io(Operation::Create, self.path(), error.into()));
                }
            }
        }
    }
}

fn read_direct(file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    if is_aligned(buffer) {
        return read_blocks(file, offset, buffer);
    }
    let mut detour = Buffer::new(buffer.len().min(DETOUR_BYTES));
    for (part, offset) in buffer.chunks_mut(DETOUR_BYTES).zip(places(offset)) {
        let through = &mut detour[..part.len()];
        read_blocks(file, offset, through)?;
        part.copy_from_slice(through);
    }
    Ok(())
}

fn write_direct(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    if is_aligned(bytes) {
        return write_blocks(file, offset, bytes);
    }
    let mut detour = Buffer::new(bytes.len().min(DETOUR_BYTES));
    for (part, offset) in bytes.chunks(DETOUR_BYTES).zip(places(offset)) {
        let through = &mut detour[..part.len()];
        through.copy_from_slice(part);
        write_blocks(file, offset, through)?;
    }
    Ok(())
}

fn read_blocks(file: &fs::File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    attempts(Progress::of_read(buffer.len(), BLOCK_BYTES), |from, to| {
        file.read_at(&mut buffer[from..to], offset + from as u64)
    })
}

fn write_blocks(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    attempts(Progress::of_write(bytes.len(), BLOCK_BYTES), |from, to| {
        file.write_at(&bytes[from..to], offset + from as u64)
    })
}

/// Makes attempts until all bytes are moved. The standard library's own loops would continue where
/// a short attempt ended, which may not be a block boundary.
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

/// Offsets of the parts that go through a buffer one after the other.
fn places(offset: u64) -> impl Iterator<Item = u64> {
    (offset..).step_by(DETOUR_BYTES)
}

impl File for SystemFile {
    fn path(&self) -> &Path {
        self.holder.path()
    }

    fn len(&self) -> Result<u64> {
        let file = self.file(Access::Read)?;
        Ok(named(Operation::Measure, self.path(), file.file().metadata())?.len())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_direct(self.is_direct(), offset, bytes.len());
        let file = self.file(Access::Write)?;
        let written = if self.is_direct() {
            write_direct(file.file(), offset, bytes)
        } else {
            file.file().write_all_at(bytes, offset)
        };
        let place = |e| Error::io_at(Operation::Write, self.path(), offset, bytes.len(), e);
        written.map_err(place)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_direct(self.is_direct(), offset, buffer.len());
        let (file, bytes) = (self.file(Access::Read)?, buffer.len());
        let read = if self.is_direct() {
            read_direct(file.file(), offset, buffer)
        } else {
            file.file().read_exact_at(buffer, offset)
        };
        read.map_err(|e| Error::io_at(Operation::Read, self.path(), offset, bytes, e))
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        let file = self.file(Access::Write)?;
        named(Operation::Truncate, self.path(), file.file().set_len(bytes))
    }

    fn sync(&self) -> Result<()> {
        named(Operation::Sync, self.path(), self.holder.sync())
    }

    fn is_direct(&self) -> bool {
        self.holder.mode().direct
    }

    fn has_descriptor(&self) -> bool {
        true
    }

    fn descriptor(&self, access: Access) -> Result<Option<Descriptor>> {
        named(Operation::Open, self.path(), self.holder.descriptor_if_idle(access))
    }
}
