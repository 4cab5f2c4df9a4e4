//! An open packed file with a validated header and tail.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stepwell_base::hash;

use super::layout::{
    ENTRY_BYTES, Fault, HEADER_BYTES, Head, TAIL_BYTES, Tail, check_header, sums_differ,
};
use crate::block::Seal;
use crate::data_file::DataFile;
use crate::error::{DataError, MEND_CACHE, MEND_PACKED};
use crate::layout::Layout;
use crate::open_file::{Unreadable, explain};
use crate::read_options::ReadOptions;
use crate::schema::Schema;

/// A packed file with a valid header and tail.
#[derive(Debug)]
pub(crate) struct PackedFile {
    path: PathBuf,
    file: DataFile,
    head: Head,
    tail: Tail,
}

impl PackedFile {
    /// Opens `file`, which starts like a packed file.
    pub(crate) fn new(path: &Path, file: DataFile) -> Result<Self, DataError> {
        let unfit = |why: String| DataError::Path { path: path.to_owned(), why };
        let bytes = file.length().map_err(|error| unfit(explain(&error)))?;
        let head = Head { schema: Schema::CRITEO, rules: None };
        let mut this = Self { path: path.to_owned(), file, head, tail: Tail::default() };
        let tail_offset = bytes.checked_sub(TAIL_BYTES as u64);
        let Some(tail_offset) = tail_offset.filter(|offset| *offset >= HEADER_BYTES as u64) else {
            let why = format!("{bytes} bytes are fewer than a packed file has");
            return Err(this.damaged("its end".to_owned(), why));
        };
        let header: [u8; HEADER_BYTES] = this.read_array(0)?;
        this.head = check_header(&header).map_err(|fault| this.fault("its header", fault))?;
        let tail: [u8; TAIL_BYTES] = this.read_array(tail_offset)?;
        this.tail =
            Tail::decode(&tail, &header, bytes).map_err(|fault| this.fault("its end", fault))?;
        Ok(this)
    }

    /// Number of examples.
    pub(crate) fn examples(&self) -> u64 {
        self.tail.examples
    }

    /// Whether the file records its origin.
    pub(crate) fn has_origin(&self) -> bool {
        self.tail.origin_bytes > 0
    }

    /// A second handle of the file. The two may be read at the same time on disk only.
    pub(crate) fn again(&self) -> Result<Self, DataError> {
        let file = self.file.again().map_err(|error| self.failed(0, &error))?;
        Ok(Self { path: self.path.clone(), file, head: self.head.clone(), tail: self.tail })
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Returns an error if the examples were made by other rules than the rules of `layout`.
    pub(crate) fn check_rules(&self, layout: Option<&Layout>) -> Result<(), DataError> {
        let asked = layout.map(Layout::rules_name);
        if self.head.rules == asked {
            return Ok(());
        }
        let why = match (&self.head.rules, asked) {
            (Some(_), None) => {
                "its examples were made of columns that the settings do not name: give the \
                 settings that it was packed with"
            }
            (None, Some(_)) => {
                "its examples have the plain columns, but the settings name others: remove those, \
                 or pack the data again with these settings"
            }
            _ => {
                "its examples were made of other columns than the settings name, or in another \
                 way: pack the data again with these settings"
            }
        };
        Err(DataError::Path { path: self.path.clone(), why: why.to_owned() })
    }

    /// Whether any examples have true click probabilities.
    pub(crate) fn has_truth(&self) -> bool {
        self.tail.truth
    }

    /// Whether any ids have values other than 1.
    pub(crate) fn has_values(&self) -> bool {
        self.tail.values
    }

    /// Most bytes that reading takes, in addition to the caller's blocks.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.tail.index_bytes().unwrap_or(u64::MAX)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an error if the file has other columns than `options`, or exceeds their limits.
    pub(crate) fn check(&self, options: &ReadOptions) -> Result<(), DataError> {
        let unfit = |why: String| DataError::Path { path: self.path.clone(), why };
        let (has, asked) = (self.head.schema, options.schema);
        if has != asked {
            return Err(unfit(format!(
                "its examples have {} dense features and {} id columns, but {} and {} are expected",
                has.dense, has.id_columns, asked.dense, asked.id_columns
            )));
        }
        let (largest, room) = (self.tail.block_bytes_max as usize, options.block_bytes);
        if largest > room {
            return Err(unfit(format!(
                "its largest block has {largest} bytes, but at most {room} can be read; pack it \
                 again in smaller blocks"
            )));
        }
        let (most, room) = (self.tail.example_keys_max as usize, options.example_keys_max);
        if most > room {
            return Err(unfit(format!(
                "one of its examples has {most} keys, but at most {room} can be read; pack it \
                 again with fewer keys in its bags"
            )));
        }
        Ok(())
    }

    /// Reads and validates the table of blocks, which must be contiguous.
    pub(crate) fn table(&mut self) -> Result<Table, DataError> {
        let Tail { blocks, table_offset, table_sum, .. } = self.tail;
        let mut bytes = Vec::new();
        // The file has the length that the tail gives, so it contains the table.
        self.read(table_offset, self.bytes_max(), &mut bytes)?;
        let sum = hash::checksum(&bytes);
        if sum != table_sum {
            let why = sums_differ(sum, table_sum);
            return Err(self.damaged(format!("its table of blocks (at byte {table_offset})"), why));
        }
        let table = Table { bytes, tail: self.tail };
        let (mut offset, mut first) = (HEADER_BYTES as u64, 0);
        for number in 0..blocks {
            let seal = table.seal(number);
            let follows = seal.offset == offset && seal.first == first && seal.examples > 0;
            if !follows || seal.bytes > self.tail.block_bytes_max {
                let why = "the table does not place it after the previous block".to_owned();
                return Err(self.damaged(seal.place(), why));
            }
            // Entries are bounded by the table's own length, so neither sum can exceed 2^64.
            offset += u64::from(seal.bytes);
            first += u64::from(seal.examples);
        }
        if offset != table_offset || first != self.tail.examples {
            let why = format!("its blocks end at byte {offset} with {first} examples");
            return Err(self.damaged("its table of blocks".to_owned(), why));
        }
        Ok(table)
    }

    /// Reads exactly `bytes` bytes at `offset` into `into`, which is empty.
    pub(super) fn read(
        &mut self,
        offset: u64,
        bytes: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), DataError> {
        into.reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX));
        let read = self.file.read_at(offset, bytes, into);
        let read = read.map_err(|error| self.failed(offset, &error))?;
        if read as u64 == bytes {
            return Ok(());
        }
        let end = offset + read as u64;
        Err(self.damaged(format!("byte {end}"), "the file became shorter".to_owned()))
    }

    fn read_array<const N: usize>(&mut self, offset: u64) -> Result<[u8; N], DataError> {
        let mut bytes = Vec::with_capacity(N);
        let read = self.file.read_at(offset, N as u64, &mut bytes);
        read.map_err(|error| self.failed(offset, &error))?;
        bytes.try_into().map_err(|_| self.failed(offset, &ErrorKind::UnexpectedEof.into()))
    }

    fn failed(&self, offset: u64, error: &std::io::Error) -> DataError {
        if error.kind() == ErrorKind::UnexpectedEof {
            return self.damaged(format!("byte {offset}"), "the file became shorter".to_owned());
        }
        let why = match Unreadable::of(error) {
            Some(words) => words.to_owned(),
            None => format!("{} at byte {offset}", explain(error)),
        };
        DataError::Path { path: self.path.clone(), why }
    }

    pub(crate) fn damaged(&self, place: String, why: String) -> DataError {
        let mend = if self.has_origin() { MEND_CACHE } else { MEND_PACKED };
        DataError::Damaged { path: self.path.clone(), place, why, mend }
    }

    fn fault(&self, place: &str, fault: Fault) -> DataError {
        match fault {
            Fault::Damaged(why) => self.damaged(place.to_owned(), why),
            Fault::Unfit(why) => DataError::Path { path: self.path.clone(), why },
        }
    }
}

/// Table of a file's blocks, as stored, followed by its origin.
#[derive(Debug)]
pub(crate) struct Table {
    bytes: Vec<u8>,
    tail: Tail,
}

impl Table {
    pub(super) fn blocks(&self) -> u64 {
        self.tail.blocks
    }

    /// Encoded origin; empty if the file has none.
    pub(crate) fn origin(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.tail.origin_bytes as usize..]
    }

    /// Table entry of block `number`.
    pub(super) fn seal(&self, number: u64) -> Seal {
        // The table is in memory, so its offsets fit `usize`.
        let mut entry = [0; ENTRY_BYTES];
        entry.copy_from_slice(&self.bytes[number as usize * ENTRY_BYTES..][..ENTRY_BYTES]);
        Seal::decode(&entry, number, &self.tail)
    }

    /// The first block that ends after more than `examples` examples, or the number of blocks.
    pub(super) fn block_after(&self, examples: u64) -> u64 {
        let (mut low, mut high) = (0, self.blocks());
        while low < high {
            let middle = low + (high - low) / 2;
            let seal = self.seal(middle);
            if seal.first + u64::from(seal.examples) <= examples {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
