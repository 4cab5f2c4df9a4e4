//! Reads safetensors files piece by piece.
//!
//! - **Why.** The format's library needs the whole file in memory, and tables are larger.
//! - **Bounds.** The header, at most 100 MB, as in that library; values go into the caller's
//!   buffers. A file is open only while it is read, so that any number of tables takes one
//!   descriptor.
//! - **Failure.** A wrong header is an error of one line. Its lengths are checked against the
//!   file's before they are used.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use stepwell_base::mend;

use crate::export::tensors::{Kind, Tensor};

/// Most bytes of a header.
const HEADER_BYTES_MAX: u64 = 100_000_000;
/// The entry of texts about all tensors.
const ABOUT: &str = "__metadata__";

/// A file of tensors that is being read.
pub(super) struct TensorReader {
    path: PathBuf,
    tensors: BTreeMap<String, Entry>,
    about: BTreeMap<String, String>,
    /// Offset of the values in the file.
    body: u64,
}

/// A tensor's entry in the header.
#[derive(Clone, Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The entries of a header; deserializing refuses a name that occurs twice.
struct Header(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object with an entry for each tensor")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Header, M::Error> {
                let mut entries = BTreeMap::new();
                while let Some((name, entry)) = map.next_entry::<String, Value>()? {
                    if let Some(_twice) = entries.insert(name.clone(), entry) {
                        return Err(M::Error::custom(format!("tensor '{name}' occurs twice")));
                    }
                }
                Ok(Header(entries))
            }
        }
        from.deserialize_map(Entries)
    }
}

impl TensorReader {
    /// Opens a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let fail = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{name} is missing: name a directory that `stepwell export --state` made, in the \
                 format safetensors"
            ),
            _ => format!("cannot read {name}: {error}{}", mend(&error)),
        };
        let about = std::fs::metadata(path).map_err(fail)?;
        if !about.is_file() {
            // Opening a pipe would wait, and it has no offsets.
            return Err(format!("{name} is not a file: tensors are read from files"));
        }
        let file = File::open(path).map_err(fail)?;
        let bytes = about.len();
        let damaged = |why: String| format!("{name}: {why}: it is not a complete safetensors file");
        let mut length = [0; 8];
        if bytes < 8 {
            return Err(damaged(format!("it has {bytes} bytes")));
        }
        file.read_exact_at(&mut length, 0).map_err(fail)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_BYTES_MAX || length > bytes - 8 {
            return Err(damaged(format!("its header claims to have {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact_at(&mut header, 8).map_err(fail)?;
        let body = 8 + length;
        let (tensors, about) = decode(&header, bytes - body).map_err(damaged)?;
        Ok(Self { path: path.to_owned(), tensors, about, body })
    }

    /// A line about this file.
    pub(super) fn wrong(&self, why: impl fmt::Display) -> String {
        format!("{}: {why}", self.path.display())
    }

    /// The file's text with this name.
    pub(super) fn about(&self, name: &str) -> Option<&str> {
        self.about.get(name).map(String::as_str)
    }

    /// Whether there is a tensor with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The first extent of a tensor.
    pub(super) fn rows(&self, name: &str) -> Option<u64> {
        self.tensors.get(name)?.shape.first().copied()
    }

    /// Refuses unknown tensors.
    pub(super) fn refuse_others(&self, known: impl Fn(&str) -> bool) -> Result<(), String> {
        match self.tensors.keys().find(|name| !known(name)) {
            Some(other) => Err(self.wrong(format_args!("has an unknown tensor '{other}'"))),
            None => Ok(()),
        }
    }

    /// Refuses a missing tensor, or one with another type or shape.
    pub(super) fn check(&self, wanted: &Tensor) -> Result<(), String> {
        let Tensor { name, kind, shape } = wanted;
        let Some(found) = self.tensors.get(name) else {
            return Err(self.wrong(format_args!("has no tensor '{name}'")));
        };
        if found.dtype != kind.name() {
            let (is, wants) = (&found.dtype, kind.name());
            return Err(self.wrong(format_args!("tensor '{name}' is {is}, not {wants}")));
        }
        if found.shape != *shape {
            let is = &found.shape;
            let why = format_args!("tensor '{name}' has the shape {is:?}, not {shape:?}");
            return Err(self.wrong(why));
        }
        Ok(())
    }

    /// Fills `to` with bytes of a checked tensor, from its byte `from` on. A tensor without values
    /// may be missing.
    pub(super) fn read(&self, name: &str, from: u64, to: &mut [u8]) -> Result<(), String> {
        let Some(entry) = self.tensors.get(name).filter(|_| !to.is_empty()) else { return Ok(()) };
        let at = self.body + entry.data_offsets[0] + from;
        let read = File::open(&self.path).and_then(|file| file.read_exact_at(to, at));
        read.map_err(|error| {
            format!("cannot read {}: {error}{}", self.path.display(), mend(&error))
        })
    }
}

type Decoded = (BTreeMap<String, Entry>, BTreeMap<String, String>);

/// Decodes a header whose tensors have `body` bytes in all.
fn decode(header: &[u8], body: u64) -> Result<Decoded, String> {
    let Header(mut entries) =
        serde_json::from_slice(header).map_err(|error| format!("its header is wrong ({error})"))?;
    let about = entries.remove(ABOUT).map(|texts| {
        serde_json::from_value(texts).map_err(|error| format!("{ABOUT} is wrong ({error})"))
    });
    let mut tensors = BTreeMap::new();
    for (name, entry) in entries {
        let entry: Entry = serde_json::from_value(entry)
            .map_err(|error| format!("the entry of tensor '{name}' is wrong ({error})"))?;
        entry.check(&name)?;
        tensors.insert(name, entry);
    }
    let mut places: Vec<[u64; 2]> = tensors.values().map(|entry| entry.data_offsets).collect();
    places.sort_unstable();
    let mut at = 0;
    for [start, end] in places {
        if start != at {
            return Err(format!("tensors overlap or leave a hole at byte {at} of their values"));
        }
        at = end;
    }
    if at != body {
        return Err(format!("its tensors have {at} bytes, but the file has {body}"));
    }
    Ok((tensors, about.transpose()?.unwrap_or_default()))
}

impl Entry {
    /// Refuses offsets that don't match the shape.
    fn check(&self, name: &str) -> Result<(), String> {
        let kinds = [Kind::F32, Kind::U32, Kind::U64];
        let kind = kinds.into_iter().find(|kind| kind.name() == self.dtype);
        let [start, end] = self.data_offsets;
        let values = self.shape.iter().try_fold(1u64, |all, extent| all.checked_mul(*extent));
        let bytes = |kind: Kind| values.and_then(|values| values.checked_mul(kind.bytes()));
        let Some(kind) = kind else {
            // An unknown type has an unknown length; it is only an error if the tensor is used.
            return if start <= end {
                Ok(())
            } else {
                Err(format!("tensor '{name}' ends before it begins"))
            };
        };
        if end.checked_sub(start).is_none_or(|length| bytes(kind) != Some(length)) {
            return Err(format!(
                "tensor '{name}' of shape {:?} claims bytes {start} to {end}",
                self.shape
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(header: &str, body: u64) -> String {
        decode(header.as_bytes(), body).unwrap_err()
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let whole = r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;
        assert_eq!(decode(whole.as_bytes(), 24).unwrap().0["a"].shape, [2, 3]);
        assert!(refused(whole, 25).contains("have 24 bytes, but the file has 25"));
        for (header, body, part) in [
            ("{", 0, "its header is wrong"),
            ("[]", 0, "an entry for each tensor"),
            (r#"{"a":1}"#, 0, "entry of tensor 'a' is wrong"),
            (r#"{"__metadata__":{"step":1}}"#, 0, "__metadata__ is wrong"),
            (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, 8, "claims bytes 8 to 0"),
            (r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#, 8, "claims bytes 0 to 8"),
            (r#"{"a":{"dtype":"Q","shape":[3],"data_offsets":[8,0]}}"#, 8, "ends before"),
            (
                r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#,
                0,
                "claims bytes",
            ),
            (
                r#"{"a":{"dtype":"U32","shape":[2],"data_offsets":[0,8]},
                    "b":{"dtype":"U32","shape":[2],"data_offsets":[4,12]}}"#,
                12,
                "overlap or leave a hole",
            ),
            (
                r#"{"a":{"dtype":"U32","shape":[0],"data_offsets":[0,0]},
                    "a":{"dtype":"U32","shape":[0],"data_offsets":[0,0]}}"#,
                0,
                "'a' occurs twice",
            ),
        ] {
            let why = refused(header, body);
            assert!(why.contains(part), "{header}: {why}");
        }
    }
}
