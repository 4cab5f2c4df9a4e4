//! Cache of compiled kernels on disk, so that only the first run compiles them.
//!
//! ```text
//! file    <digest of all inputs, 32 hex digits>
//!         checksum of the image: 8 bytes, little-endian
//!         image
//! ```
//!
//! - **Invariants.** A file is renamed to its name once complete, so that readers see all of it or
//!   nothing; a file with a wrong checksum is replaced.
//! - **Failure.** Errors of reading or writing are ignored: kernels are compiled again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::hash::checksum;

const CHECKSUM_BYTES: usize = 8;

/// The folder of this user's compiled kernels; `None` if there is no home.
pub(crate) fn folder() -> Option<PathBuf> {
    let named = |variable| std::env::var_os(variable).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    let cache = named("XDG_CACHE_HOME").filter(absolute);
    let cache = cache.or_else(|| named("HOME").filter(absolute).map(|home| home.join(".cache")))?;
    Some(cache.join("stepwell").join("kernels"))
}

fn path(folder: &Path, digest: u128) -> PathBuf {
    folder.join(format!("{digest:032x}"))
}

/// The image with this digest, if it exists and is intact.
pub(crate) fn read(folder: &Path, digest: u128) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path(folder, digest)).ok()?;
    let sum = u64::from_le_bytes(*bytes.first_chunk::<CHECKSUM_BYTES>()?);
    bytes.drain(..CHECKSUM_BYTES);
    (checksum(&bytes) == sum).then_some(bytes)
}

/// Writes an image, if possible.
pub(crate) fn write(folder: &Path, digest: u128, image: &[u8]) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let beside = folder.join(format!("{digest:032x}.{}.{number}", std::process::id()));
    let written = fs::create_dir_all(folder).and_then(|()| {
        let mut file = fs::File::create_new(&beside)?;
        file.write_all(&checksum(image).to_le_bytes())?;
        file.write_all(image)?;
        fs::rename(&beside, path(folder, digest))
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("deep");
        assert_eq!(read(&folder, 5), None);
        write(&folder, 5, b"an image");
        assert_eq!(read(&folder, 5).as_deref(), Some(&b"an image"[..]));
        assert_eq!(read(&folder, 6), None);
        let path = path(&folder, 5);
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(read(&folder, 5), None, "{len} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            fs::write(&path, bytes).unwrap();
            assert_eq!(read(&folder, 5), None, "byte {at}");
        }
        write(&folder, 5, b"another");
        assert_eq!(read(&folder, 5).as_deref(), Some(&b"another"[..]));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside");
    }

    #[test]
    fn a_folder_that_cannot_be_is_no_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), 5, b"an image");
        assert_eq!(read(file.path(), 5), None);
    }
}
