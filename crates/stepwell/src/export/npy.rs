//! NumPy's `.npy` files: a directory with one for each tensor.
//!
//! ```text
//!   93 'NUMPY' 1 0   u16: length of the header   {'descr': '<f4', ... }␣␣␣␤   values, in C order
//! ```
//!
//! - **How.** A file is open only while values are written to it, so that any number of tensors
//!   takes one descriptor. Each tensor buffers 256 KiB of values. Texts about them are in
//!   `about.json`.
//! - **Source.** <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>, version
//!   1.0.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::sink::{About, Sink};
use super::tensors::{BUFFER_BYTES, Kind, Tensor};

/// Alignment of the first value in the file.
const ALIGNMENT: usize = 64;

/// A directory of arrays that is being written.
pub(crate) struct Arrays {
    folder: PathBuf,
    arrays: Vec<Array>,
}

struct Array {
    path: PathBuf,
    at: u64,
    end: u64,
    waiting: Vec<u8>,
}

impl Arrays {
    /// Creates the directory, and a file in it for each tensor.
    pub(crate) fn create(folder: &Path, tensors: &[Tensor], about: &About<'_>) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let texts = about.iter().map(|(name, text)| ((*name).to_owned(), Value::from(&**text)));
        let texts = Value::Object(texts.collect::<Map<_, _>>());
        let mut file = File::create_new(folder.join("about.json"))?;
        file.write_all(format!("{texts:#}\n").as_bytes())?;
        file.sync_all()?;
        let array = |tensor| Array::create(folder, tensor);
        let arrays = tensors.iter().map(array).collect::<io::Result<_>>()?;
        Ok(Self { folder: folder.to_owned(), arrays })
    }
}

impl Sink for Arrays {
    fn put(&mut self, tensor: usize, bytes: &[u8]) -> io::Result<()> {
        let array = &mut self.arrays[tensor];
        array.waiting.extend_from_slice(bytes);
        if array.waiting.len() >= BUFFER_BYTES { array.write().map(drop) } else { Ok(()) }
    }

    /// # Panics
    /// If the number of a tensor's values does not match its shape.
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        for array in &mut self.arrays {
            array.write()?.sync_all()?;
            assert_eq!(array.at, array.end, "a tensor has the values of its shape");
        }
        File::open(&self.folder)?.sync_all()
    }
}

impl Array {
    fn create(folder: &Path, tensor: &Tensor) -> io::Result<Self> {
        let path = folder.join(format!("{}.npy", tensor.name));
        let header = header(tensor);
        File::create_new(&path)?.write_all(&header)?;
        let at = header.len() as u64;
        Ok(Self { path, at, end: at + tensor.bytes(), waiting: Vec::new() })
    }

    /// Writes the buffered values; returns the open file.
    fn write(&mut self) -> io::Result<File> {
        let file = File::options().write(true).open(&self.path)?;
        file.write_all_at(&self.waiting, self.at)?;
        self.at += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(file)
    }
}

/// The bytes before the values. Shapes have at most two extents, so the header is always short.
fn header(tensor: &Tensor) -> Vec<u8> {
    let kind = match tensor.kind {
        Kind::F32 => "<f4",
        Kind::U32 => "<u4",
        Kind::U64 => "<u8",
    };
    let extents: String = tensor.shape.iter().map(|extent| format!("{extent}, ")).collect();
    // A Python tuple of one ends in a comma; longer ones don't.
    let extents = match tensor.shape.len() {
        1 => extents.trim_end(),
        _ => extents.trim_end_matches(", "),
    };
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({extents}), }}");
    let before = MAGIC.len() + size_of::<u16>();
    let padded = (before + text.len() + 1).next_multiple_of(ALIGNMENT) - before;
    text.extend(std::iter::repeat_n(' ', padded - 1 - text.len()));
    text.push('\n');
    let length = text.len() as u16;
    [MAGIC, &length.to_le_bytes(), text.as_bytes()].concat()
}

/// Magic bytes of format version 1.0.
const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_that_numpy_writes() {
        let of = |kind, shape: &[u64]| {
            let shape = shape.to_vec();
            let header = header(&Tensor { name: "x".to_owned(), kind, shape });
            assert_eq!((header.len() % ALIGNMENT, header.last()), (0, Some(&b'\n')));
            assert_eq!(header[..8], *b"\x93NUMPY\x01\x00");
            let length = u16::from_le_bytes([header[8], header[9]]);
            assert_eq!(usize::from(length) + 10, header.len());
            String::from_utf8(header[10..].to_vec()).unwrap().trim_end().to_owned()
        };
        let keys = "{'descr': '<u8', 'fortran_order': False, 'shape': (7,), }";
        assert_eq!(of(Kind::U64, &[7]), keys);
        let rows = "{'descr': '<f4', 'fortran_order': False, 'shape': (7, 0), }";
        assert_eq!(of(Kind::F32, &[7, 0]), rows);
        let most = of(Kind::U32, &[u64::MAX, u64::MAX]);
        assert!(most.contains("(18446744073709551615, 18446744073709551615)"), "{most}");
    }
}
