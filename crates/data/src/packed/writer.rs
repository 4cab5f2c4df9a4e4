//! Writes examples to a packed file, which gets its name once it is complete.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use stepwell_base::hash;

use super::encode::{Shape, encode};
use super::layout::{ENTRY_BYTES, HEAD_BYTES, Holds, TAIL_BYTES, Tail, header, is_packed};
use crate::block::Seal;
use crate::chunk::Chunk;
use crate::error::DataError;
use crate::layout::Layout;
use crate::publish::publish;
use crate::read_options::BLOCK_BYTES;
use crate::schema::Schema;

/// Suffix of a file that is being written.
const UNFINISHED: &str = ".unfinished";

/// How to write a packed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedOptions {
    /// Columns of the examples.
    pub schema: Schema,
    /// Most bytes of a block. Every reader accepts a quarter of [`BLOCK_BYTES`].
    pub block_bytes: usize,
    /// Name of the layout's rules that made the examples; `None` for plain lines.
    pub rules: Option<String>,
}

impl PackedOptions {
    /// Options for plain lines, in blocks of a quarter of [`BLOCK_BYTES`], which training can read.
    pub fn new(schema: Schema) -> Self {
        Self { schema, block_bytes: BLOCK_BYTES / 4, rules: None }
    }

    /// Like [`Self::new`], for examples of `layout`, if there is one.
    pub fn laid_out(schema: Schema, layout: Option<&Layout>) -> Self {
        Self { rules: layout.map(Layout::rules_name), ..Self::new(schema) }
    }
}

/// Writes a packed file. If dropped before [`PackedWriter::finish`], it removes the file.
///
/// Cost: twice the size of a block, and 32 bytes per written block.
///
/// ```
/// use stepwell_data::{Chunk, PackedOptions, PackedWriter, Schema, Synth, SynthOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("clicks.packed");
/// let stream = Synth::new(&SynthOptions { examples: 1000, ..SynthOptions::default() })?;
/// let mut chunk = Chunk::new(stream.schema());
/// let mut writer = PackedWriter::new(&path, &PackedOptions::new(stream.schema()))?;
/// for first in [0, 500] {
///     stream.fill(first, 500, &mut chunk);
///     writer.add(&chunk)?;
/// }
/// assert_eq!(writer.finish()?, 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PackedWriter {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    options: PackedOptions,
    /// Examples of the current block.
    block: Chunk,
    shape: Shape,
    /// Buffer for the encoded block.
    bytes: Vec<u8>,
    table: Vec<u8>,
    tail: Tail,
    /// Whether any label is strictly between 0 and 1.
    shares: bool,
    /// Offset of the next block.
    offset: u64,
    /// Set during a write, so that it stays set after an error; then nothing more is written.
    failed: bool,
    finished: bool,
}

impl PackedWriter {
    /// Starts a file. An existing file at `path` stays until this one is complete.
    ///
    /// # Errors
    /// A schema without features, a path that can't be written or isn't a regular file, or a file
    /// that another writer uses.
    ///
    /// # Panics
    /// If `block_bytes` exceeds 32 bits.
    pub fn new(path: &Path, options: &PackedOptions) -> Result<Self, DataError> {
        options.schema.check()?;
        assert!(u32::try_from(options.block_bytes).is_ok(), "places in a block have 32 bits");
        if path.exists() && !path.is_file() {
            let why = "is not a file: choose another path for a packed file".to_owned();
            return Err(DataError::Path { path: path.to_owned(), why });
        }
        let unfinished = Self::unfinished(path);
        let file = begin(&unfinished)?;
        let mut writer = Self {
            path: path.to_owned(),
            unfinished,
            file,
            options: options.clone(),
            block: Chunk::new(options.schema),
            shape: Shape::EMPTY,
            bytes: Vec::new(),
            table: Vec::new(),
            tail: Tail::default(),
            shares: false,
            offset: 0,
            failed: false,
            finished: false,
        };
        // Rewritten at the end with the final contents.
        writer.write(&header(&options.schema, options.rules.as_deref(), Holds::default()))?;
        Ok(writer)
    }

    /// Temporary path while the file for `path` is written.
    pub fn unfinished(path: &Path) -> PathBuf {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(UNFINISHED);
        unfinished.into()
    }

    /// Appends the examples of `chunk`; malformed lines are dropped.
    ///
    /// # Errors
    /// A label outside 0 to 1 unless the schema allows it, an example larger than a block, or a
    /// disk error. After an error, the writer can't be used again.
    ///
    /// # Panics
    /// If the chunk has a different schema than the file.
    pub fn add(&mut self, chunk: &Chunk) -> Result<(), DataError> {
        self.add_first(chunk, chunk.len())
    }

    /// Like [`PackedWriter::add`], but only the first `examples` examples.
    pub(crate) fn add_first(&mut self, chunk: &Chunk, examples: usize) -> Result<(), DataError> {
        assert_eq!(chunk.schema, self.options.schema, "a file has one schema");
        self.check_usable()?;
        self.failed = true;
        (0..examples).try_for_each(|example| self.push(chunk, example))?;
        self.failed = false;
        Ok(())
    }

    /// Examples added so far.
    pub fn examples(&self) -> u64 {
        self.tail.examples + self.shape.examples
    }

    /// Completes the file, renames it to its path, and returns its number of examples.
    ///
    /// # Errors
    /// A disk error, now or before.
    pub fn finish(self) -> Result<u64, DataError> {
        self.finish_with(&[])
    }

    /// Like [`PackedWriter::finish`], with an encoded origin.
    pub(crate) fn finish_with(mut self, origin: &[u8]) -> Result<u64, DataError> {
        self.check_usable()?;
        self.close_block()?;
        let table = std::mem::take(&mut self.table);
        let mut sum = hash::Checksum::new();
        sum.update(&table);
        sum.update(origin);
        (self.tail.table_offset, self.tail.table_sum) = (self.offset, sum.value());
        self.tail.origin_bytes = u32::try_from(origin.len()).map_err(|_| {
            let why = format!("has an origin of {} bytes, which is too large", origin.len());
            DataError::Path { path: self.path.clone(), why }
        })?;
        self.write(&table)?;
        self.write(origin)?;
        let rules = self.options.rules.as_deref();
        let (shares, values) = (self.shares, self.tail.values);
        let holds = Holds { origin: !origin.is_empty(), shares, values };
        let head = header(&self.options.schema, rules, holds);
        let tail: [u8; TAIL_BYTES] = self.tail.encode(&head);
        self.write(&tail)?;
        self.file.write_all_at(&head, 0).map_err(|error| self.cannot_write(error))?;
        let named = publish(&self.file, &self.unfinished, &self.path);
        named.map_err(|error| self.cannot_write(error))?;
        self.finished = true;
        Ok(self.tail.examples)
    }

    /// Blocks written so far.
    pub(crate) fn blocks(&self) -> u64 {
        self.tail.blocks
    }

    /// Most bytes of an example in a block, with one key in each bag. `lists` is whether bags may
    /// have other numbers of keys, and `values` whether keys may have values.
    pub(crate) fn example_bytes_max(schema: &Schema, lists: bool, values: bool) -> u64 {
        let keys = schema.id_columns as u64;
        let shape =
            Shape { examples: 1, keys, one_key_a_bag: !lists, truth: false, shares: true, values };
        shape.bytes(schema).unwrap_or(u64::MAX)
    }

    /// Most bytes that a writer takes for a file of `blocks` blocks.
    pub(crate) fn bytes_max(options: &PackedOptions, blocks: u64) -> u64 {
        let Schema { dense, id_columns, labels } = options.schema;
        let weight = if labels.weighted { 4 } else { 0 };
        let labels = Shape::EMPTY.label_bytes(&options.schema);
        let example = labels + weight + 4 * dense + 4 * id_columns;
        let examples = options.block_bytes / example;
        // In memory, labels are wider and every bag has an end. Growing vectors may allocate twice
        // their length.
        let chunk = options.block_bytes + examples * (3 + 4 * id_columns);
        let table = blocks.saturating_mul(ENTRY_BYTES as u64);
        table.saturating_add((chunk + options.block_bytes) as u64).saturating_mul(2)
    }

    fn check_usable(&self) -> Result<(), DataError> {
        if self.failed {
            let why = "writing it failed before; start again".to_owned();
            return Err(DataError::Path { path: self.path.clone(), why });
        }
        Ok(())
    }

    fn push(&mut self, chunk: &Chunk, example: usize) -> Result<(), DataError> {
        let Schema { id_columns, labels: lanes, .. } = chunk.schema;
        let labels = chunk.labels_of(example);
        let is_wrong = |label: &&f32| !(0.0..=1.0).contains(*label);
        if let Some(label) = labels.iter().find(is_wrong).filter(|_| !lanes.are_numbers) {
            let (number, path) = (self.examples() + 1, self.path.display());
            return Err(DataError::Options(format!(
                "{path}: a label of example {number} is {label}: give numbers from 0 to 1"
            )));
        }
        let (start, end) = (chunk.keys_start(example), chunk.keys_start(example + 1));
        let ends = &chunk.bag_ends[example * id_columns..][..id_columns];
        let one_key_a_bag = (start as u32 + 1..).zip(ends).all(|(wanted, end)| wanted == *end);
        let one = Shape {
            examples: 1,
            keys: (end - start) as u64,
            one_key_a_bag,
            truth: !chunk.truth.is_empty(),
            shares: chunk.has_share(example),
            values: self.check_values(chunk, start..end)?,
        };
        self.make_room(&one)?;
        self.shares |= one.shares;
        let base = self.block.keys.len() as u32;
        self.block.labels.extend_from_slice(labels);
        self.block.weights.extend(chunk.weights.get(example));
        self.block.dense.extend_from_slice(chunk.dense_of(example));
        self.block.push_bag(&chunk.keys, &chunk.values, start..end);
        self.block.bag_ends.extend(ends.iter().map(|end| end - start as u32 + base));
        self.block.truth.extend(chunk.truth.get(example));
        let most = &mut self.tail.example_keys_max;
        *most = (*most).max(one.keys as u32);
        Ok(())
    }

    /// Checks the values of the keys at `range`; returns whether any isn't 1.
    fn check_values(&self, chunk: &Chunk, range: Range<usize>) -> Result<bool, DataError> {
        let values = chunk.values.get(range).unwrap_or_default();
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            let (number, path) = (self.examples() + 1, self.path.display());
            return Err(DataError::Options(format!(
                "{path}: an id of example {number} has the value {value}: give finite numbers"
            )));
        }
        Ok(values.iter().any(|value| *value != 1.0))
    }

    /// Counts an example of shape `one` in the current block, or in a new one if it doesn't fit.
    fn make_room(&mut self, one: &Shape) -> Result<(), DataError> {
        if self.shape.examples > 0 {
            let grown = self.shape.with(one);
            if self.fits(&grown) && one.truth == self.shape.truth {
                self.shape = grown;
                return Ok(());
            }
            self.close_block()?;
        }
        if !self.fits(one) {
            let (number, room) = (self.tail.examples + 1, self.options.block_bytes);
            return Err(DataError::Options(format!(
                "{}: example {number} with {} keys is larger than a block of {room} bytes",
                self.path.display(),
                one.keys
            )));
        }
        self.shape = *one;
        Ok(())
    }

    fn fits(&self, shape: &Shape) -> bool {
        let bytes = shape.bytes(&self.options.schema);
        bytes.is_some_and(|bytes| bytes <= self.options.block_bytes as u64)
    }

    /// Writes the current block, so that the next example starts a new one.
    pub(crate) fn close_block(&mut self) -> Result<(), DataError> {
        let shape = std::mem::replace(&mut self.shape, Shape::EMPTY);
        if shape.examples == 0 {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        self.block.complete_values();
        encode(&self.block, &shape, &mut bytes);
        self.block.clear();
        let seal = Seal {
            offset: self.offset,
            first: self.tail.examples,
            // A block has fewer than 2^32 bytes, so fewer examples.
            examples: shape.examples as u32,
            bytes: bytes.len() as u32,
            checksum: hash::checksum(&bytes),
            ..Seal::default()
        };
        self.write(&bytes)?;
        self.table.extend(seal.encode());
        self.tail.blocks += 1;
        self.tail.examples += shape.examples;
        self.tail.block_bytes_max = self.tail.block_bytes_max.max(seal.bytes);
        self.tail.truth |= shape.truth;
        self.tail.values |= shape.values;
        self.bytes = bytes;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.file.write_all(bytes).map_err(|error| self.cannot_write(error))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn cannot_write(&self, source: std::io::Error) -> DataError {
        DataError::Packing { path: self.path.clone(), examples: self.tail.examples, source }
    }
}

impl Drop for PackedWriter {
    fn drop(&mut self) {
        if !self.finished {
            // In a destructor, this error can't be reported.
            let _ = std::fs::remove_file(&self.unfinished);
        }
    }
}

#[cfg(test)]
impl PackedWriter {
    /// Bytes currently allocated.
    pub(crate) fn held(&self) -> u64 {
        (self.block.bytes() + self.bytes.capacity() + self.table.capacity()) as u64
    }
}

/// Whether a file may be left over from a writer: empty, or the start of a packed file.
fn is_unfinished(file: &File) -> std::io::Result<bool> {
    let mut head = [0; HEAD_BYTES];
    let mut found = 0;
    loop {
        match file.read_at(&mut head[found..], found as u64)? {
            0 => return Ok(found == 0 || is_packed(&head[..found])),
            more => found += more,
        }
    }
}

/// Creates and locks an empty file. Reuses a file that a stopped writer left.
fn begin(path: &Path) -> Result<File, DataError> {
    let fail = |why: String| DataError::Path { path: path.to_owned(), why };
    if path.symlink_metadata().is_ok_and(|about| about.is_symlink()) {
        let why = "is a link in the place of a packed file: remove it or choose another path";
        return Err(fail(why.to_owned()));
    }
    let create = || File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = create().map_err(|error| fail(format!("cannot be created: {error}")))?;
    let busy = || fail("is being written by another process: wait for it".to_owned());
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy()),
        Err(TryLockError::Error(error)) => return Err(fail(format!("cannot be locked: {error}"))),
    }
    // Another writer may have renamed it between opening and locking.
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let here = file.metadata().map(identity).ok() == path.metadata().map(identity).ok();
    if !here {
        return Err(busy());
    }
    if !is_unfinished(&file).map_err(|error| fail(format!("cannot be read: {error}")))? {
        let why = "is in the place of a packed file, but is something else: rename it or choose \
                   another path";
        return Err(fail(why.to_owned()));
    }
    file.set_len(0).map_err(|error| fail(format!("cannot be emptied: {error}")))?;
    Ok(file)
}
