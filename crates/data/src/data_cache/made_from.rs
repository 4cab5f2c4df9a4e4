//! Origin of a packed file: its text files, the number of their lines, and which lines are
//! malformed.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use stepwell_base::hash::Checksum;

use crate::chunk::Chunk;
use crate::data_file::DataFile;
use crate::error::DataError;
use crate::from_path::name_of_file;
use crate::layout::Layout;
use crate::open_file::explain;
use crate::packed::{NAME_BYTES, put, u32_at, u64_at};
use crate::parse_lines::RULES_NAME;

/// Most malformed lines that a cache records.
pub const CACHE_MALFORMED_MAX: u64 = 1 << 17;

/// Bytes read at either end of a file to identify it.
const END_BYTES: u64 = 64 << 10;

const HEAD_BYTES: usize = NAME_BYTES + 8;
const FILE_BYTES: usize = 40;

/// Distinguishes a data file from others, and from later versions of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Name of the file without its directory, which may differ between machines, but with path
    /// columns.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Modification time, in nanoseconds since 1970.
    pub modified: i64,
    /// Checksum of the first and last 64 KiB.
    pub ends: u64,
}

impl SourceFile {
    /// Reads the identity of a file; directories that are columns of `layout` are part of its name.
    ///
    /// # Errors
    /// Not a regular file, or unreadable.
    pub fn of(path: &Path, layout: Option<&Layout>) -> Result<Self, DataError> {
        let fail = |why: String| DataError::Path { path: path.to_owned(), why };
        let mut file = DataFile::open(path)?;
        let about = file.identity().map_err(|error| fail(explain(&error)))?;
        let (mut ends, mut buffer) = (Checksum::new(), Vec::new());
        let mut read = || {
            for start in [0, about.bytes.saturating_sub(END_BYTES)] {
                buffer.clear();
                file.seek(SeekFrom::Start(start))?;
                file.by_ref().take(END_BYTES).read_to_end(&mut buffer)?;
                ends.update(&buffer);
            }
            Ok(())
        };
        read().map_err(|error: std::io::Error| fail(explain(&error)))?;
        let name = name_of_file(path, layout);
        // A server's version distinguishes objects that changed within a second.
        ends.update(about.version.as_bytes());
        Ok(Self { name, bytes: about.bytes, modified: about.modified, ends: ends.value() })
    }

    /// Describes how the file differs from `was`, if it does.
    pub(super) fn differs(&self, was: &Self) -> Option<String> {
        if self.name != was.name {
            return Some(format!("'{}' was '{}'", self.name, was.name));
        }
        if self.bytes != was.bytes {
            return Some(format!(
                "'{}' had {} bytes, now has {}",
                self.name, was.bytes, self.bytes
            ));
        }
        (self != was).then(|| format!("'{}' has changed since", self.name))
    }
}

/// A text file that was parsed to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OriginFile {
    pub(super) source: SourceFile,
    /// Number of lines; each is an example or malformed.
    pub(super) lines: u64,
    /// Number of lines before each malformed one. // ascending
    pub(super) malformed: Vec<u64>,
}

impl OriginFile {
    pub(super) fn examples(&self) -> u64 {
        self.lines - self.malformed.len() as u64
    }

    /// Number of examples in the first `lines` lines.
    pub(super) fn examples_before(&self, lines: u64) -> u64 {
        lines - self.malformed_before(lines)
    }

    /// Number of malformed lines in the first `lines` lines.
    pub(super) fn malformed_before(&self, lines: u64) -> u64 {
        self.malformed.partition_point(|line| *line < lines) as u64
    }

    /// Number of lines before the example that follows `examples` others.
    pub(super) fn line_of(&self, examples: u64) -> u64 {
        let (mut low, mut high) = (0, self.malformed.len());
        while low < high {
            let middle = low + (high - low) / 2;
            // Number of examples before that malformed line.
            if self.malformed[middle] - middle as u64 <= examples {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        examples + low as u64
    }

    /// Sets positions and malformed lines of `chunk`, which has the examples of `lines` lines from
    /// `first`.
    pub(super) fn place(&self, first: u64, lines: u32, chunk: &mut Chunk) {
        let [from, to] = [first, first + u64::from(lines)]
            .map(|line| self.malformed.partition_point(|malformed| *malformed < line));
        let malformed = &self.malformed[from..to];
        let examples = chunk.len();
        assert_eq!(examples + malformed.len(), lines as usize, "lines from line {first} on");
        chunk.first_line = first;
        chunk.malformed.clear();
        chunk.malformed.reserve_exact(malformed.len());
        // Lines of a chunk fit 32 bits.
        chunk.malformed.extend(malformed.iter().map(|line| (line - first) as u32));
        chunk.lines.clear();
        chunk.lines.reserve_exact(examples);
        let mut start = 0;
        for end in chunk.malformed.iter().copied().chain([lines]) {
            chunk.lines.extend(start..end);
            start = end + 1;
        }
    }
}

/// Origin of a packed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) files: Vec<OriginFile>,
    /// Whether its lines were parsed by the current rules.
    pub(super) same_rules: bool,
}

impl Origin {
    /// Origin of `sources` before any line is read.
    pub(super) fn unread(sources: Vec<SourceFile>) -> Self {
        let unread = |source| OriginFile { source, lines: 0, malformed: Vec::new() };
        Self { files: sources.into_iter().map(unread).collect(), same_rules: true }
    }

    /// Most bytes of an origin with `malformed` malformed lines in memory; in a file it takes
    /// fewer.
    pub(super) fn bytes_max(sources: &[SourceFile], malformed: u64) -> u64 {
        let names: usize = sources.iter().map(|source| source.name.len()).sum();
        let files = sources.len() * size_of::<OriginFile>() + names + HEAD_BYTES;
        // Growing vectors may allocate twice their length.
        2 * (files as u64).saturating_add(malformed.saturating_mul(8))
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        let of = |file: &OriginFile| {
            size_of::<OriginFile>() + file.source.name.capacity() + file.malformed.capacity() * 8
        };
        self.files.iter().map(of).sum::<usize>() as u64
    }

    pub(super) fn examples(&self) -> u64 {
        // Saturates, as a forged file may claim any number.
        self.files.iter().map(OriginFile::examples).fold(0, u64::saturating_add)
    }

    /// Encodes the origin; `rules` name how lines were parsed, `None` for plain lines.
    pub(super) fn encode(&self, rules: Option<&str>) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        put(&mut bytes, 0, rules.unwrap_or(RULES_NAME).as_bytes());
        put(&mut bytes, NAME_BYTES, &(self.files.len() as u32).to_le_bytes());
        for OriginFile { source, lines, malformed } in &self.files {
            bytes.extend(source.bytes.to_le_bytes());
            bytes.extend(source.modified.to_le_bytes());
            bytes.extend(source.ends.to_le_bytes());
            bytes.extend(lines.to_le_bytes());
            bytes.extend((malformed.len() as u32).to_le_bytes());
            bytes.extend((source.name.len() as u32).to_le_bytes());
            bytes.extend(source.name.as_bytes());
            bytes.extend(malformed.iter().flat_map(|line| line.to_le_bytes()));
        }
        bytes
    }

    /// Decodes the output of [`Origin::encode`], with any rules, or returns what is wrong with it.
    pub(super) fn decode(bytes: &[u8], wanted: Option<&str>) -> Result<Self, String> {
        let short = || format!("{} bytes are too few for their contents", bytes.len());
        let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(short)?;
        let rules = head[..NAME_BYTES].split(|byte| *byte == 0).next().unwrap_or_default();
        let (count, mut files, mut total) = (u32_at(head, NAME_BYTES), Vec::new(), 0);
        for _ in 0..count {
            let (fixed, behind) = rest.split_at_checked(FILE_BYTES).ok_or_else(short)?;
            let (malformed, name) = (u32_at(fixed, 32), u32_at(fixed, 36));
            total += u64::from(malformed);
            if total > CACHE_MALFORMED_MAX {
                return Err(format!("{total} malformed lines, {CACHE_MALFORMED_MAX} at most"));
            }
            let (name, behind) = behind.split_at_checked(name as usize).ok_or_else(short)?;
            let name = String::from_utf8(name.to_vec()).map_err(|_| "a name is not UTF-8")?;
            let (list, behind) =
                behind.split_at_checked(malformed as usize * 8).ok_or_else(short)?;
            let malformed: Vec<u64> = list.chunks_exact(8).map(|line| u64_at(line, 0)).collect();
            let (lines, modified) = (u64_at(fixed, 24), u64_at(fixed, 8).cast_signed());
            let ascend = malformed.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascend || malformed.last().is_some_and(|last| *last >= lines) {
                return Err(format!("malformed lines of '{name}' are not in order"));
            }
            let (bytes, ends) = (u64_at(fixed, 0), u64_at(fixed, 16));
            let source = SourceFile { name, bytes, modified, ends };
            files.push(OriginFile { source, lines, malformed });
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(format!("{} bytes too many", rest.len()));
        }
        Ok(Self { files, same_rules: rules == wanted.unwrap_or(RULES_NAME).as_bytes() })
    }
}

const _: () = assert!(RULES_NAME.len() <= NAME_BYTES);

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    fn file(name: &str, lines: u64, malformed: &[u64]) -> OriginFile {
        let source = SourceFile { name: name.to_owned(), bytes: 9, modified: -7, ends: 1 << 63 };
        OriginFile { source, lines, malformed: malformed.to_vec() }
    }

    #[test]
    fn lines_and_examples_find_each_other() {
        for malformed in [&[][..], &[0], &[0, 1, 2], &[5], &[2, 3, 7, 11], &[11]] {
            let file = file("a", 12, malformed);
            let good: Vec<u64> = (0..12).filter(|line| !malformed.contains(line)).collect();
            assert_eq!(file.examples(), good.len() as u64);
            for (example, line) in good.iter().enumerate() {
                assert_eq!(file.line_of(example as u64), *line, "{malformed:?}");
                assert_eq!(file.examples_before(*line), example as u64, "{malformed:?}");
            }
            assert_eq!(file.examples_before(12), good.len() as u64);
        }
    }

    #[test]
    fn what_is_written_is_read_and_all_else_refused() {
        let files = vec![file("a.tsv", 5, &[0, 4]), file("tägliche", 0, &[]), file("", 1, &[0])];
        let origin = Origin { files, same_rules: true };
        let bytes = origin.encode(None);
        assert_eq!(Origin::decode(&bytes, None), Ok(origin.clone()));
        for cut in 0..bytes.len() {
            assert!(Origin::decode(&bytes[..cut], None).is_err(), "{cut}");
        }
        assert!(Origin::decode(&[&bytes[..], &[0]].concat(), None).is_err());
        let mut other = bytes.clone();
        other[0] ^= 1;
        assert!(!Origin::decode(&other, None).unwrap().same_rules);
        let refused = |files, why: &str| {
            let bytes = Origin { files, same_rules: true }.encode(None);
            let error = Origin::decode(&bytes, None).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused(vec![file("a", 5, &[5])], "of 'a' are not in order");
        refused(vec![file("a", 5, &[3, 3])], "of 'a' are not in order");
        let many: Vec<u64> = (0..=CACHE_MALFORMED_MAX).collect();
        refused(vec![file("a", 1 << 40, &many)], "131073 malformed lines, 131072 at most");
        // Arbitrary bytes are an origin or an error.
        let mut dice = Stream::named(1, b"origins");
        for _ in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..=dice.next_u64() % 3 {
                let at = (dice.next_u64() % bytes.len() as u64) as usize;
                bytes[at] = [0, 1, 2, 0x7F, 0xFF][(dice.next_u64() % 5) as usize];
            }
            if let Ok(origin) = Origin::decode(&bytes, None) {
                origin.files.iter().for_each(|file| assert!(file.examples() <= file.lines));
            }
        }
    }
}
