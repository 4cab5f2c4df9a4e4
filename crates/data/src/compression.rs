//! Detects the content of a file (text, gzip, zstd, Parquet, packed examples) by its first bytes,
//! never by its name.
//!
//! Cost: an input buffer of 128 KiB. zstd adds its window: 8 MiB at levels 1 to 19, and at most 128
//! MiB for files compressed with `--long=27`. gzip adds 32 KiB.

use std::io::{BufRead as _, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::columnar::ColumnFile;
use crate::data_file::DataFile;
use crate::error::DataError;
use crate::open_file::{Unreadable, explain};
use crate::packed::{HEAD_BYTES, PackedFile, is_packed};

/// Bytes of the decompressor's input buffer.
const INPUT_BYTES: usize = 128 * 1024;

/// Largest accepted zstd window, as a power of two.
///
/// A run's memory plan includes this window. It can't be sized by the first frame, as a larger
/// window may start at any frame: frames of `zstd --long=31` would take 2 GiB.
const WINDOW_LOG_MAX: u32 = 27;

#[derive(Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
    /// Packed examples.
    Packed,
    /// Parquet.
    Columns,
    Unknown(&'static str),
    /// An unsupported uncompressed format.
    Foreign(&'static str),
    /// Encrypted Parquet.
    Encrypted,
}

/// Contents of an open file.
pub(crate) enum Content {
    /// Lines, decompressed if necessary.
    Text(Box<dyn Read + Send>),
    /// A packed file.
    Packed(PackedFile),
    /// A Parquet file.
    Columns(ColumnFile),
}

/// Opens a file for reading.
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
                 name that file"
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
                Ok(Box::new(EvenReads(BufReader::with_capacity(EVEN_BYTES, decoder))))
            })
            .map_err(|e| wrong(explain(&e)))?,
        Compression::Unknown(name) => {
            let why =
                format!("is compressed with {name}; only plain text, gzip and zstd can be read");
            return Err(wrong(why));
        }
        Compression::Encrypted => {
            let why = "is an encrypted Parquet file (it begins with PARE), which is not supported: \
                       write it without encryption";
            return Err(wrong(why.to_owned()));
        }
        Compression::Foreign(name) => {
            let why = format!(
                "is a file of {name}; only CSV, TSV, LibSVM, JSON lines and Parquet can be read"
            );
            return Err(wrong(why));
        }
    };
    Ok(Content::Text(text))
}

/// Bytes of output that the zstd decoder always has room for.
const EVEN_BYTES: usize = 128 * 1024;

/// Reads from a decoder that always has the same room for its output.
///
/// The zstd library decodes a frame in one pass if its input is at hand and its output fits, and
/// then compares the size in the frame's header with the decompressed size; otherwise it can miss a
/// difference. Whether a damaged file is refused must not depend on the caller's buffers.
/// A plain [`BufReader`] would pass large reads on to the decoder.
struct EvenReads<R>(BufReader<R>);

impl<R: Read> Read for EvenReads<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.fill_buf()?.read(into)?;
        self.0.consume(read);
        Ok(read)
    }
}

/// Whether the file has no examples. Reads both ends of a packed or Parquet file, and one byte of
/// text.
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

/// The file, if it is packed; an error if it can't be opened.
pub(crate) fn open_packed(path: &Path) -> Result<Option<PackedFile>, DataError> {
    match open(path)? {
        Content::Packed(file) => Ok(Some(file)),
        Content::Text(_) | Content::Columns(_) => Ok(None),
    }
}

/// Whether the file is packed.
///
/// # Errors
/// If it can't be opened.
pub fn is_packed_file(path: &Path) -> Result<bool, DataError> {
    open_packed(path).map(|file| file.is_some())
}

/// Whether the file is Parquet.
pub(crate) fn has_columns(path: &Path) -> Result<bool, DataError> {
    let wrong = |error| DataError::Path { path: path.to_owned(), why: explain(&error) };
    let head = read_head(&mut DataFile::open(path)?).map_err(wrong)?;
    Ok(compression_of(&head) == Compression::Columns)
}

/// Whether the file is uncompressed text; false if it can't be read.
pub(crate) fn is_plain(path: &Path) -> bool {
    let head = DataFile::open(path).ok().and_then(|mut file| read_head(&mut file).ok());
    head.is_some_and(|head| compression_of(&head) == Compression::None)
}

/// Most bytes that reading the file takes, in addition to the caller's buffers.
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
            // Window of 32 KiB, and tables.
            Compression::Gzip => (INPUT_BYTES + 64 * 1024) as u64,
            // Window, a block of 128 KiB on either side, and one for its output.
            Compression::Zstd => {
                (INPUT_BYTES + 4 * 128 * 1024 + EVEN_BYTES) as u64 + (1 << WINDOW_LOG_MAX)
            }
        })
}

/// Description of a read or decompression error.
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

/// Whether decompression failed because of a window larger than [`WINDOW_LOG_MAX`].
fn is_too_wide(error: &std::io::Error) -> bool {
    // Number of this error in the C library. Its Rust binding only passes the message on.
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
        // A frame, or a skippable frame before the first one.
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Compression::Zstd,
        [0xFD, b'7', b'z', b'X', b'Z', ..] => Compression::Unknown("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Unknown("bzip2"),
        [b'P', b'K', 3, 4, ..] => Compression::Unknown("zip"),
        [0x04, 0x22, 0x4D, 0x18, ..] => Compression::Unknown("lz4"),
        [b'P', b'A', b'R', b'1', ..] => Compression::Columns,
        // The length of a part, in four bytes. Text with this prefix has no zero bytes.
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
