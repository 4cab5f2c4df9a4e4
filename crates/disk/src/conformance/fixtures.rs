//! Files for tests.

use std::sync::Arc;

use crate::disk::Disk;
use crate::file::File;

/// Bytes that vary with their position.
pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n.wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}

pub(super) fn filled(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}
