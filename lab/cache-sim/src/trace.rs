//! Reads traces of look-ups: bare keys, or the ids of a training file.
//!
//! - **How.** Bare keys are big-endian numbers without a header, as in the traces of Caffeine and
//!   cache2k, plain or compressed with xz or zstd (detected by their first bytes). From a training
//!   file in Criteo's layout, ids are read row by row and hashed with their column, as the trainer
//!   does. Missing ids are skipped; labels are kept for policies that weigh them.
//!
//! - **Failure.** A missing file, an unknown format, unknown compression or damage, a length that
//!   isn't a multiple of a key's, no keys.

use std::fmt::{Display, Formatter};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use lzma_rust2::XzReader;
use serde::Serialize;
use stepwell_base::Key;
use stepwell_data::{Input, ReadOptions, Reader, Schema};

use crate::{Error, Result};

/// Most look-ups of a trace.
const LOOK_UPS_MAX: usize = 1 << 31;

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Format {
    /// Signed 64-bit keys, big-endian.
    #[serde(rename = "i64be")]
    I64Be,
    /// Signed 32-bit keys, big-endian.
    #[serde(rename = "i32be")]
    I32Be,
    /// Unsigned 32-bit keys, big-endian.
    #[serde(rename = "u32be")]
    U32Be,
    /// The ids of a training file in Criteo's layout, text or packed.
    #[serde(rename = "criteo-tsv")]
    CriteoTsv,
}

impl Format {
    const ALL: [Self; 4] = [Self::I64Be, Self::I32Be, Self::U32Be, Self::CriteoTsv];

    fn name(self) -> &'static str {
        match self {
            Self::I64Be => "i64be",
            Self::I32Be => "i32be",
            Self::U32Be => "u32be",
            Self::CriteoTsv => "criteo-tsv",
        }
    }

    fn key_bytes(self) -> usize {
        if self == Self::I64Be { 8 } else { 4 }
    }

    /// Format of a published trace, by file name.
    fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy();
        let starts = [
            ("scarab-recs", Self::I64Be),
            ("orm-busy", Self::I32Be),
            ("web07", Self::I32Be),
            ("w106", Self::U32Be),
        ];
        let known = starts.into_iter().find(|(start, _)| name.starts_with(start));
        known.map(|(_, format)| format).or(name.contains(".tsv").then_some(Self::CriteoTsv))
    }
}

impl Display for Format {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("there is no format {name}; give auto, {names}"))
    }
}

/// Accesses of a trace.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) keys: Vec<u64>,
    /// Whether the example of each access was clicked; empty if unknown.
    pub(super) positive: Vec<bool>,
}

/// Format of the trace in `path`, which is opened but not read: as given, else by its first bytes
/// if it is a packed training file, else by its name.
pub(super) fn probe(path: &Path, format: Option<Format>) -> Result<Format> {
    let fail = |why: String| Error::Trace(format!("{}: {why}", path.display()));
    let head = head(path).map_err(fail)?;
    let by_content = head.starts_with(PACKED_FIRST).then_some(Format::CriteoTsv);
    format.or(by_content).or_else(|| Format::of_name(path)).ok_or_else(|| {
        let names = Format::ALL.map(Format::name).join(", ");
        fail(format!("the format is not clear from name or content: give --format, one of {names}"))
    })
}

/// Opens a trace, which is read more than once, so it can't be a pipe or a device.
fn open(path: &Path) -> std::result::Result<File, String> {
    let kind = std::fs::metadata(path).map_err(explain)?.file_type();
    if kind.is_dir() {
        return Err("is a directory, not a trace".to_owned());
    }
    if !kind.is_file() {
        return Err("is a pipe or a device: write the trace to a file and give that".to_owned());
    }
    File::open(path).map_err(explain)
}

/// First bytes of a file.
fn head(path: &Path) -> std::result::Result<Vec<u8>, String> {
    let mut head = Vec::new();
    open(path)?.take(PACKED_FIRST.len() as u64).read_to_end(&mut head).map_err(explain)?;
    Ok(head)
}

/// Reads the trace in `path`; if no format is given, infers it from name or content.
pub(super) fn read(path: &Path, format: Option<Format>) -> Result<(Format, Trace)> {
    let fail = |why: String| Error::Trace(format!("{}: {why}", path.display()));
    let format = probe(path, format)?;
    let trace = match format {
        Format::CriteoTsv => criteo(path)?,
        _ => Trace { keys: numbers(path, format).map_err(fail)?, positive: Vec::new() },
    };
    match trace.keys.len() {
        0 => Err(fail("the trace contains no key".to_owned())),
        n if n > LOOK_UPS_MAX => Err(fail(format!("{n} keys are too many: give at most 2^31"))),
        _ => Ok((format, trace)),
    }
}

fn numbers(path: &Path, format: Format) -> std::result::Result<Vec<u64>, String> {
    let bytes = unpacked(path)?;
    let key_bytes = format.key_bytes();
    if !bytes.len().is_multiple_of(key_bytes) {
        let (length, over) = (bytes.len(), bytes.len() % key_bytes);
        return Err(format!(
            "{length} bytes are not a multiple of the {key_bytes} bytes of a key ({over} are left \
             over): the file is cut short, or {format} is not its format"
        ));
    }
    // Keys are compared as bits, so their sign doesn't matter.
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
    Ok(bytes.chunks_exact(key_bytes).map(number).collect())
}

/// First bytes of xz and zstd files.
const XZ_FIRST: &[u8] = &[0xFD, b'7', b'z', b'X', b'Z', 0];
const ZSTD_FIRST: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
/// First bytes of packed training files, as written by `stepwell convert`.
const PACKED_FIRST: &[u8] = b"STEPWPAK";

/// All bytes of the file, decompressed if its first bytes show compression.
fn unpacked(path: &Path) -> std::result::Result<Vec<u8>, String> {
    let mut head = Vec::new();
    let mut file = open(path)?;
    file.by_ref().take(6).read_to_end(&mut head).map_err(explain)?;
    packed_as_named(path, &head)?;
    let whole = BufReader::new(head.as_slice().chain(file));
    let mut bytes = Vec::new();
    let read = match head.as_slice() {
        head if head.starts_with(XZ_FIRST) => XzReader::new(whole, true).read_to_end(&mut bytes),
        head if head.starts_with(ZSTD_FIRST) => zstd::Decoder::with_buffer(whole)
            .and_then(|mut decoder| decoder.read_to_end(&mut bytes)),
        [0x1F, 0x8B, 8, ..] => {
            return Err(
                "is compressed with gzip; only plain files, xz and zstd can be read".to_owned()
            );
        }
        _ => { whole }.read_to_end(&mut bytes),
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!(
            "decompression failed after {} bytes ({error}): the file may be cut short or damaged",
            bytes.len()
        )),
    }
}

/// Returns an error for a file with the name but not the first bytes of a compressed file.
fn packed_as_named(path: &Path, head: &[u8]) -> std::result::Result<(), String> {
    let named = |ending: &str| path.extension().is_some_and(|of| of == ending);
    for (ending, first) in [("xz", XZ_FIRST), ("zst", ZSTD_FIRST)] {
        if named(ending) && !head.starts_with(first) {
            return Err(format!("is called .{ending}, but does not start like such a file"));
        }
    }
    Ok(())
}

fn explain(error: std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => error.to_string(),
    }
}

fn criteo(path: &Path) -> Result<Trace> {
    let schema = Schema::CRITEO;
    let fail = |error: stepwell_data::DataError| Error::Trace(error.to_string());
    let files = stepwell_data::resolve(&[path]).map_err(fail)?;
    let missing: Vec<Key> = schema.namespaces().iter().map(|space| space.key_of(b"")).collect();
    let mut reader =
        Reader::open(Input::Files(files.into()), &ReadOptions::new(schema)).map_err(fail)?;
    let (mut trace, mut chunk) = (Trace::default(), reader.chunk());
    while reader.next_chunk(&mut chunk).map_err(fail)? {
        for (example, label) in chunk.labels.iter().enumerate() {
            for (slot, missing) in missing.iter().enumerate() {
                let present = chunk.bag(example, slot).iter().filter(|key| *key != missing);
                trace.keys.extend(present.map(|key| key.0));
            }
            trace.positive.resize(trace.keys.len(), *label > 0.5);
        }
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        let format = |name: &str| Format::of_name(Path::new(name));
        assert_eq!(format("a/scarab-recs.trace.xz"), Some(Format::I64Be));
        assert_eq!(format("orm-busy.trace"), Some(Format::I32Be));
        assert_eq!(format("w106.trace.zst"), Some(Format::U32Be));
        assert_eq!(format("day_1.tsv.zst"), Some(Format::CriteoTsv));
        assert_eq!(format("web07.dir/other.trace"), None);
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
    }

    /// The keys 1, -2, 3, 1 as `i32be`, compressed by the reference implementation of xz.
    const PACKED: [u8; 76] = [
        0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00, 0x00, 0x04, 0xE6, 0xD6, 0xB4, 0x46, 0x02, 0x00, 0x21,
        0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2F, 0xE5, 0xA3, 0xE0, 0x00, 0x0F, 0x00, 0x0E, 0x5D,
        0x00, 0x00, 0x67, 0xFE, 0xBF, 0xF8, 0xC2, 0x05, 0x21, 0x3E, 0x1F, 0x25, 0x8A, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x56, 0xFE, 0x25, 0x54, 0xE4, 0x44, 0x46, 0x15, 0x00, 0x01, 0x2A, 0x10,
        0x67, 0x69, 0x5A, 0x52, 0x1F, 0xB6, 0xF3, 0x7D, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59,
        0x5A,
    ];

    #[test]
    fn packed_traces_are_unpacked_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("orm-busy");
        let keys = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read(&path, None).map(|(_, trace)| trace.keys).map_err(|error| error.to_string())
        };
        let expected = Ok([1i32, -2, 3, 1].map(|key| u64::from(key as u32)).to_vec());
        assert_eq!(keys(&PACKED), expected);
        let plain: Vec<u8> = [1i32, -2, 3, 1].iter().flat_map(|key| key.to_be_bytes()).collect();
        assert_eq!(keys(&plain), expected);
        let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
        assert_eq!(keys(&zstd), expected);
        for packed in [&PACKED[..], &zstd] {
            let error = keys(&packed[..packed.len() - 5]).unwrap_err();
            assert!(error.contains("decompression failed"), "{error}");
        }
        let mut flipped = PACKED;
        flipped[30] ^= 1;
        assert!(keys(&flipped).is_err());
        assert!(keys(&[0x1F, 0x8B, 8, 0]).unwrap_err().contains("gzip"));
    }
}
