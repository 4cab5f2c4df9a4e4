//! What a file holds: text, gzip, zstd, Parquet and packed examples are known by their first bytes,
//! never by a name.
//!
//! Cost: 128 KiB of input buffer. zstd adds its window, 8 MiB at the levels 1 to 19 and at most
//! 128 MiB for files packed with `--long=27`; gzip adds 32 KiB.

use std::io::{BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::DataError;
use crate::columnar::ColumnFile;
use crate::data_file::{DataFile, Unreadable};
use crate::files::explain;
use crate::packed::{HEAD_BYTES, PackedFile, is_packed};

/// Bytes of the buffer in front of a decompressor.
const INPUT_BYTES: usize = 128 * 1024;

/// The widest zstd window that is accepted, as a power of two.
///
/// The plan of a run counts it, and a wider one may begin at any frame of a file. So it cannot be
/// allowed for what is there: frames of `zstd --long=31` would take 2 GiB.
const WINDOW_LOG_MAX: u32 = 27;

#[derive(Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
    /// Not compressed, and not text.
    Packed,
    /// Neither, either.
    Columns,
    Unknown(&'static str),
    /// No compression, but a format that is not read.
    Foreign(&'static str),
    /// Columns that nobody can read without a key.
    Encrypted,
}

/// An open file.
pub(crate) enum Content {
    /// Lines, decompressed where they were compressed.
    Text(Box<dyn Read + Send>),
    /// Examples in columns.
    Packed(PackedFile),
    /// Rows in columns.
    Columns(ColumnFile),
}

/// Opens the file for reading.
pub(crate) fn open(path: &Path) -> Result<Content, DataError> {
    let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
    let mut file = DataFile::open(path)?;
    let head = read_head(&mut file).map_err(|e| wrong(explain(&e)))?;
    let compression = compression_of(&head);
    if file.is_stream() {
        let what = match compression {
            Compression::Packed => Some("packed"),
            Compression::Columns => Some("Parquet"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(wrong(format!(
                "is a stream of {what} data, which is read from its end: write it to a file, and \
                 name that"
            )));
        }
    }
    if compression == Compression::Packed {
        return PackedFile::new(path, file).map(Content::Packed);
    }
    if compression == Compression::Columns {
        return ColumnFile::new(path, file).map(Content::Columns);
    }
    let whole = Cursor::new(head).chain(file);
    let buffered = |whole| BufReader::with_capacity(INPUT_BYTES, whole);
    let text: Box<dyn Read + Send> = match compression {
        Compression::None | Compression::Packed | Compression::Columns => Box::new(whole),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(whole))),
        Compression::Zstd => zstd::Decoder::with_buffer(buffered(whole))
            .and_then(|mut decoder| {
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Ok(Box::new(decoder))
            })
            .map_err(|e| wrong(explain(&e)))?,
        Compression::Unknown(name) => {
            let why = format!("is packed with {name}; plain text, gzip and zstd can be read");
            return Err(wrong(why));
        }
        Compression::Encrypted => {
            let why = "is an encrypted Parquet file (it begins with PARE), which is not read: \
                       write it without encryption";
            return Err(wrong(why.to_owned()));
        }
        Compression::Foreign(name) => {
            let why = format!(
                "is a file of {name}; CSV, TSV, LibSVM, JSON lines and Parquet can be read"
            );
            return Err(wrong(why));
        }
    };
    Ok(Content::Text(text))
}

/// Whether there is no example in the file, of which both ends are read where it is packed, and the
/// first byte of text otherwise.
pub(crate) fn is_empty(path: &Path) -> Result<bool, DataError> {
    let mut text = match open(path)? {
        Content::Packed(file) => return Ok(file.examples() == 0),
        Content::Columns(file) => return Ok(file.rows() == 0),
        Content::Text(text) => text.take(1),
    };
    let read = text.read_to_end(&mut Vec::new());
    let fail = |why| DataError::Read { path: path.to_owned(), line: 0, why };
    read.map(|bytes| bytes == 0).map_err(|error| fail(broken(&error)))
}

/// The file, if it is a packed one; what cannot be opened is an error.
pub(crate) fn open_packed(path: &Path) -> Result<Option<PackedFile>, DataError> {
    match open(path)? {
        Content::Packed(file) => Ok(Some(file)),
        Content::Text(_) | Content::Columns(_) => Ok(None),
    }
}

/// Whether it is a file of columns.
pub(crate) fn has_columns(path: &Path) -> Result<bool, DataError> {
    let wrong = |error| DataError::Path { path: path.to_owned(), why: explain(&error) };
    let head = read_head(&mut DataFile::open(path)?).map_err(wrong)?;
    Ok(compression_of(&head) == Compression::Columns)
}

/// Whether the file is text that is not compressed; false where it cannot be read.
pub(crate) fn is_plain(path: &Path) -> bool {
    let head = DataFile::open(path).ok().and_then(|mut file| read_head(&mut file).ok());
    head.is_some_and(|head| compression_of(&head) == Compression::None)
}

/// The most bytes that reading the file takes beside the caller's buffers.
pub(crate) fn bytes_max(path: &Path) -> Result<u64, DataError> {
    let wrong = |e| DataError::Path { path: path.to_owned(), why: explain(&e) };
    let mut file = DataFile::open(path)?;
    let head = read_head(&mut file).map_err(wrong)?;
    let opened = file.bytes_max();
    Ok(opened
        + match compression_of(&head) {
            Compression::None
            | Compression::Unknown(_)
            | Compression::Foreign(_)
            | Compression::Encrypted => 0,
            Compression::Packed => PackedFile::new(path, file)?.bytes_max(),
            Compression::Columns => ColumnFile::new(path, file)?.bytes_max(),
            // The window of 32 KiB and its tables.
            Compression::Gzip => (INPUT_BYTES + 64 * 1024) as u64,
            // The window, and one block of 128 KiB on either side of it.
            Compression::Zstd => (INPUT_BYTES + 4 * 128 * 1024) as u64 + (1 << WINDOW_LOG_MAX),
        })
}

/// An error of reading or decompressing in words.
pub(crate) fn broken(error: &std::io::Error) -> String {
    match error.kind() {
        _ if Unreadable::of(error).is_some() => explain(error),
        ErrorKind::UnexpectedEof => {
            "the compressed data ends too early; the file may be cut short".to_owned()
        }
        _ if is_too_wide(error) => {
            "the file was compressed with a zstd window of more than 128 MiB, which reading would \
             have to keep in memory: compress it again with `--long=27`, or without `--long`"
                .to_owned()
        }
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other => {
            format!("the compressed data is damaged: {error}")
        }
        _ => explain(error),
    }
}

/// Whether decompressing ended at a frame whose window is wider than [`WINDOW_LOG_MAX`].
fn is_too_wide(error: &std::io::Error) -> bool {
    // The error's number in the interface of the library, which passes on its words alone.
    const WINDOW_TOO_LARGE: usize = 16;
    let words = zstd::zstd_safe::get_error_name(WINDOW_TOO_LARGE.wrapping_neg());
    error.get_ref().is_some_and(|inner| inner.to_string() == words)
}

fn read_head(file: &mut DataFile) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    file.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn compression_of(head: &[u8]) -> Compression {
    if is_packed(head) {
        return Compression::Packed;
    }
    match head {
        [0x1F, 0x8B, ..] => Compression::Gzip,
        // A frame, or a skippable frame in front of the first one.
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Compression::Zstd,
        [0xFD, b'7', b'z', b'X', b'Z', ..] => Compression::Unknown("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Unknown("bzip2"),
        [b'P', b'K', 3, 4, ..] => Compression::Unknown("zip"),
        [0x04, 0x22, 0x4D, 0x18, ..] => Compression::Unknown("lz4"),
        [b'P', b'A', b'R', b'1', ..] => Compression::Columns,
        // The length of a part, in four bytes; a text that begins so goes on as text.
        [b'P', b'A', b'R', b'E', rest @ ..] if rest.iter().take(4).any(|byte| *byte == 0) => {
            Compression::Encrypted
        }
        [b'A', b'R', b'R', b'O', b'W', b'1', 0, ..] => Compression::Foreign("Arrow"),
        [b'O', b'b', b'j', 1, ..] => Compression::Foreign("Avro"),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Compression::Foreign("NumPy"),
        _ => Compression::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_decide() {
        assert_eq!(compression_of(b""), Compression::None);
        assert_eq!(compression_of(b"1\t2\t3"), Compression::None);
        assert_eq!(compression_of(&[0x1F, 0x8B, 8]), Compression::Gzip);
        assert_eq!(compression_of(&[0x28, 0xB5, 0x2F, 0xFD]), Compression::Zstd);
        assert_eq!(compression_of(b"STEPWPAK"), Compression::Packed);
        assert_eq!(compression_of(b"PAR1xx"), Compression::Columns);
        assert_eq!(compression_of(b"PARE\x2F\0\0\0"), Compression::Encrypted);
        assert_eq!(compression_of(b"PARENT,click\n"), Compression::None);
    }
}
