//! Copying a file from one disk to another.

use crate::{Buffer, Disk, File, Result};

/// Bytes of one read and one write.
const COPY_BYTES: usize = 1 << 20;

/// Copies a file into a new one in a directory, and syncs it; removes the copy if it fails. The
/// length of a direct file must be a multiple of a block.
///
/// # Errors
/// If the name is taken there (`AlreadyExists`), or the system refuses.
pub fn copy(from: &dyn File, directory: &dyn Disk, to: &str) -> Result<()> {
    let bytes = from.len()?;
    let target = directory.create(to)?;
    let copied = || -> Result<()> {
        let mut buffer = Buffer::new(COPY_BYTES);
        for offset in (0..bytes).step_by(COPY_BYTES) {
            let part = (bytes - offset).min(COPY_BYTES as u64) as usize;
            let buffer = &mut buffer[..part];
            from.read_at(offset, buffer)?;
            target.write_at(offset, buffer)?;
        }
        target.sync()
    };
    copied().inspect_err(|_| {
        // The first error is the one to report; only what this call made is removed.
        let _ = directory.remove(to);
    })
}
