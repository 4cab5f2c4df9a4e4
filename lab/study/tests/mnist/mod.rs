//! MNIST with fewer test examples, so that evaluations take less time.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use tempfile::TempDir;

/// Test examples in the folder.
const TEST: u32 = 1000;

/// A folder with MNIST's training examples and its first [`TEST`] test examples; `None` without
/// `STEPWELL_DATA`.
pub(crate) fn folder() -> Option<TempDir> {
    let Some(data) = std::env::var_os("STEPWELL_DATA") else {
        stepwell_skip::skipped("STEPWELL_DATA is not set");
        return None;
    };
    let (from, to) = (PathBuf::from(data).join("mnist"), tempfile::tempdir().unwrap());
    for name in ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"] {
        symlink(from.join(name), to.path().join(name)).unwrap();
    }
    for (name, header, each) in
        [("t10k-images-idx3-ubyte", 16, 28 * 28), ("t10k-labels-idx1-ubyte", 8, 1)]
    {
        let mut bytes = vec![0; header + TEST as usize * each];
        let file = File::open(from.join(format!("{name}.gz"))).unwrap();
        GzDecoder::new(file).read_exact(&mut bytes).unwrap();
        bytes[4..8].copy_from_slice(&TEST.to_be_bytes());
        fs::write(to.path().join(name), bytes).unwrap();
    }
    Some(to)
}
