//! Reads IDX files: arrays of bytes with dimensions, such as MNIST's images and labels.
//!
//! ```text
//! 0, 0, kind of element (8: bytes), number of dimensions n
//! n dimensions, 32 bits each, big-endian
//! the elements, the last dimension varying fastest
//! ```
//!
//! The file may be plain, gzip or zstd, regardless of its name. Only bytes are supported as
//! elements. Source: the page of the MNIST database (LeCun, Cortes, Burges).

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::compression::{Content, broken, open};
use crate::error::DataError;

/// Most bytes of elements.
const ELEMENTS_MAX: u64 = 8 << 30;
/// Most dimensions.
const DIMENSIONS_MAX: usize = 8;
const BYTES: u8 = 8;

/// An array of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// Dimensions, slowest first; at least one.
    pub dimensions: Vec<usize>,
    /// Elements, the last dimension varying fastest.
    pub elements: Vec<u8>,
}

impl Idx {
    /// Reads a whole file.
    ///
    /// # Errors
    /// A file that can't be read, or isn't an IDX file of bytes.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
        let Content::Text(mut file) = open(path)? else {
            return Err(wrong("is not an IDX file: it begins with other bytes".to_owned()));
        };
        Self::read_from(&mut file).map_err(wrong)
    }

    /// Number of examples: the first dimension.
    pub fn count(&self) -> usize {
        self.dimensions[0]
    }

    /// Number of elements per example.
    pub fn each(&self) -> usize {
        self.dimensions[1..].iter().product()
    }

    fn read_from(file: &mut dyn Read) -> Result<Self, String> {
        let short = |error: std::io::Error| match error.kind() {
            ErrorKind::UnexpectedEof => "ends within its header: copy it again".to_owned(),
            _ => broken(&error),
        };
        let mut magic = [0; 4];
        file.read_exact(&mut magic).map_err(short)?;
        let [0, 0, kind, count] = magic else {
            return Err("is not an IDX file: it begins with other bytes".to_owned());
        };
        if kind != BYTES {
            return Err(format!(
                "is an IDX file with elements of type {kind}; only bytes (8) can be read"
            ));
        }
        let count = usize::from(count);
        if !(1..=DIMENSIONS_MAX).contains(&count) {
            return Err(format!("has {count} dimensions; 1 to {DIMENSIONS_MAX} can be read"));
        }
        let mut dimensions = Vec::with_capacity(count);
        for _ in 0..count {
            let mut word = [0; 4];
            file.read_exact(&mut word).map_err(short)?;
            dimensions.push(u32::from_be_bytes(word) as usize);
        }
        let mut sizes = dimensions.iter().map(|dimension| *dimension as u64);
        let wanted = sizes.try_fold(1u64, u64::checked_mul);
        let wanted = wanted.filter(|bytes| *bytes <= ELEMENTS_MAX).ok_or_else(|| {
            format!("claims {dimensions:?} elements, but at most {ELEMENTS_MAX} bytes can be read")
        })?;
        Self::read_elements(file, dimensions, wanted)
    }

    fn read_elements(
        file: &mut dyn Read,
        dimensions: Vec<usize>,
        wanted: u64,
    ) -> Result<Self, String> {
        // Allocate by what the file contains, not by what its head claims.
        let mut elements = Vec::new();
        let read = file.take(wanted + 1).read_to_end(&mut elements);
        read.map_err(|error| broken(&error))?;
        let found = elements.len() as u64;
        if found > wanted {
            return Err(format!(
                "has more data after its {dimensions:?} elements: is it the right file?"
            ));
        }
        if found < wanted {
            let why = format!("has {found} of {dimensions:?} = {wanted} elements: copy it again");
            return Err(why);
        }
        Ok(Self { dimensions, elements })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_base::random::Stream;

    fn file(kind: u8, dimensions: &[u32], elements: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, kind, dimensions.len() as u8];
        dimensions.iter().for_each(|d| bytes.extend(d.to_be_bytes()));
        bytes.extend(elements);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Idx, String> {
        Idx::read_from(&mut &bytes[..])
    }

    #[test]
    fn arrays_are_read() {
        let idx = read(&file(8, &[2, 1, 3], &[1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!((idx.count(), idx.each()), (2, 3));
        assert_eq!(idx.elements, [1, 2, 3, 4, 5, 6]);
        assert_eq!(read(&file(8, &[0], &[])).unwrap().count(), 0);
    }

    #[test]
    fn anything_else_says_what_is_wrong() {
        let says = |bytes: Vec<u8>, word: &str| {
            let error = read(&bytes).unwrap_err();
            assert!(error.contains(word), "{error}");
        };
        says(file(8, &[2, 2], &[1, 2, 3]), "has 3 of [2, 2] = 4 elements");
        says(file(8, &[2], &[1, 2, 3]), "has more data after");
        says(file(13, &[1], &[0; 4]), "of type 13");
        says(file(8, &[], &[]), "0 dimensions");
        says(file(8, &[u32::MAX, u32::MAX, u32::MAX], &[]), "at most");
        says(vec![0, 0, 8], "ends within its header");
        says(b"label\t1".to_vec(), "is not an IDX file");
    }

    #[test]
    fn no_bytes_are_a_panic() {
        let mut stream = Stream::named(1, b"idx");
        for _ in 0..20_000 {
            let mut bytes = file(8, &[2, 2], &[1, 2, 3, 4]);
            let place = (stream.next_u64() % bytes.len() as u64) as usize;
            bytes[place] = stream.next_u64() as u8;
            bytes.truncate((stream.next_u64() % 20) as usize);
            if let Ok(idx) = read(&bytes) {
                assert_eq!(idx.elements.len(), idx.dimensions.iter().product::<usize>());
            }
        }
    }

    #[test]
    fn real_images_are_read_packed_as_they_are() {
        let Some(data) = std::env::var_os("STEPWELL_DATA") else {
            return stepwell_skip::skipped("STEPWELL_DATA is not set");
        };
        let folder = Path::new(&data).join("mnist");
        let images = Idx::read(&folder.join("t10k-images-idx3-ubyte.gz")).unwrap();
        let labels = Idx::read(&folder.join("t10k-labels-idx1-ubyte.gz")).unwrap();
        assert_eq!((images.count(), images.each()), (10_000, 28 * 28));
        assert_eq!((labels.count(), labels.each(), labels.elements[0]), (10_000, 1, 7));
    }
}
