//! A file that stays open while it is held.
//!
//! - **Why.** A disk closes unused files and reopens them by name. Files of a store that another
//!   process writes may lose their names at any time.

use std::path::Path;
use std::sync::Arc;

use stepwell_disk::{Access, Descriptor, File, Result};

#[derive(Debug)]
struct Held {
    file: Arc<dyn File>,
    _descriptor: Descriptor,
}

/// Returns `file`, held open until the result is dropped; `None` if too many files are open.
pub(crate) fn hold(file: Arc<dyn File>) -> Result<Option<Arc<dyn File>>> {
    if !file.has_descriptor() {
        // A file without a descriptor is never closed.
        return Ok(Some(file));
    }
    let descriptor = file.descriptor(Access::Read)?;
    Ok(descriptor.map(|descriptor| Arc::new(Held { file, _descriptor: descriptor }) as Arc<_>))
}

impl File for Held {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.file.truncate(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn has_descriptor(&self) -> bool {
        true
    }

    fn descriptor(&self, access: Access) -> Result<Option<Descriptor>> {
        self.file.descriptor(access)
    }
}

#[cfg(test)]
mod tests {
    use stepwell_disk::{Disk, FileDisk, MemDisk};

    use super::*;

    #[test]
    fn a_held_file_has_the_descriptor_that_queues_of_reads_need() {
        let home = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(home.path()).unwrap();
        let held = hold(disk.create("rows").unwrap()).unwrap().unwrap();
        assert!(held.has_descriptor());
        assert!(held.descriptor(Access::Read).unwrap().is_some());
        let in_memory = MemDisk::new().create("rows").unwrap();
        assert!(!hold(in_memory).unwrap().unwrap().has_descriptor());
    }
}
