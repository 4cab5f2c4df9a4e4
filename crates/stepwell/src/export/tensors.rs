//! Writes safetensors files: 8 bytes with the length of a JSON header, the header, then the bytes
//! of one tensor after the other.
//!
//! - **Why.** The format's library needs whole tensors in memory, which tables don't fit.
//! - **How.** Shapes are known before the first value, so each tensor has its place in the file.
//!   Values are added to all tensors alternately, through a buffer for each.
//! - **Source.** <https://github.com/huggingface/safetensors>, whose library reads these files in
//!   the tests.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::sink::Sink;

/// Bytes of a tensor's buffer.
pub(super) const BUFFER_BYTES: usize = 256 << 10;

/// Type of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    U32,
    U64,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::U32 => "U32",
            Self::U64 => "U64",
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::U64 => 8,
        }
    }
}

/// Name, type and shape of a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Extents, the slowest-varying first.
    pub(crate) shape: Vec<u64>,
}

impl Tensor {
    pub(super) fn bytes(&self) -> u64 {
        self.kind.bytes() * self.shape.iter().product::<u64>()
    }
}

/// A file of tensors that is being written.
pub(crate) struct TensorFile {
    file: File,
    places: Vec<Place>,
}

/// Where a tensor's values are written.
struct Place {
    at: u64,
    end: u64,
    waiting: Vec<u8>,
}

impl TensorFile {
    /// Begins a new file with these tensors, in this order, and texts about them.
    pub(crate) fn create(
        path: &Path,
        tensors: &[Tensor],
        about: &[(&str, String)],
    ) -> io::Result<Self> {
        let (mut header, mut ends) = (Map::new(), Vec::new());
        let texts = about.iter().map(|(name, text)| ((*name).to_owned(), Value::from(&**text)));
        header.insert("__metadata__".to_owned(), Value::Object(texts.collect()));
        let mut end = 0;
        for tensor in tensors {
            let start = end;
            end += tensor.bytes();
            ends.push((start, end));
            let (kind, shape) = (tensor.kind.name(), &tensor.shape);
            let entry = json!({ "dtype": kind, "shape": shape, "data_offsets": [start, end] });
            header.insert(tensor.name.clone(), entry);
        }
        let mut header = Value::Object(header).to_string();
        // Values are aligned if the header's length is a multiple of eight.
        header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
        let file = File::create_new(path)?;
        file.write_all_at(&(header.len() as u64).to_le_bytes(), 0)?;
        file.write_all_at(header.as_bytes(), 8)?;
        let body = 8 + header.len() as u64;
        let place =
            |(start, end): (u64, u64)| Place { at: body + start, end: body + end, waiting: vec![] };
        Ok(Self { file, places: ends.into_iter().map(place).collect() })
    }
}

impl Sink for TensorFile {
    fn put(&mut self, tensor: usize, bytes: &[u8]) -> io::Result<()> {
        let place = &mut self.places[tensor];
        place.waiting.extend_from_slice(bytes);
        if place.waiting.len() >= BUFFER_BYTES { place.write(&self.file) } else { Ok(()) }
    }

    /// # Panics
    /// If the number of a tensor's values does not match its shape.
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        for place in &mut self.places {
            place.write(&self.file)?;
            assert_eq!(place.at, place.end, "a tensor has the values of its shape");
        }
        self.file.sync_all()
    }
}

impl Place {
    fn write(&mut self, file: &File) -> io::Result<()> {
        let end = self.at + self.waiting.len() as u64;
        assert!(end <= self.end, "a tensor has no more values than its shape says");
        file.write_all_at(&self.waiting, self.at)?;
        self.waiting.clear();
        self.at = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use safetensors::{Dtype, SafeTensors};

    use super::*;

    fn tensor(name: &str, kind: Kind, shape: &[u64]) -> Tensor {
        Tensor { name: name.to_owned(), kind, shape: shape.to_vec() }
    }

    #[test]
    fn the_library_of_the_format_reads_what_was_put_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.safetensors");
        let rows = 100_000u64;
        let tensors = [
            tensor("keys", Kind::U64, &[rows]),
            tensor("embedding", Kind::F32, &[rows, 3]),
            tensor("step", Kind::U32, &[rows]),
            tensor("none", Kind::F32, &[0, 4]),
        ];
        let about = [("name", "a \"table\"".to_owned())];
        let mut file = Box::new(TensorFile::create(&path, &tensors, &about).unwrap());
        for row in 0..rows {
            file.put(0, &(row << 32).to_le_bytes()).unwrap();
            file.put(1, bytemuck::bytes_of(&[row as f32, 0.5, -1.0])).unwrap();
            file.put(2, &(row as u32).to_le_bytes()).unwrap();
        }
        file.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let read = SafeTensors::deserialize(&bytes).unwrap();
        let keys = read.tensor("keys").unwrap();
        assert_eq!((keys.dtype(), keys.shape()), (Dtype::U64, &[rows as usize][..]));
        assert_eq!(keys.data()[8 * 77..][..8], (77u64 << 32).to_le_bytes());
        let embedding = read.tensor("embedding").unwrap();
        assert_eq!((embedding.dtype(), embedding.shape()), (Dtype::F32, &[rows as usize, 3][..]));
        assert_eq!(
            embedding.data()[12 * 99_999..],
            *bytemuck::bytes_of(&[99_999.0_f32, 0.5, -1.0])
        );
        assert_eq!(read.tensor("none").unwrap().data().len(), 0);
        let (_, about) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(about.metadata().as_ref().unwrap()["name"], "a \"table\"");
    }
}
