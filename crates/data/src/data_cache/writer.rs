//! Writes chunks of text to a cache while they are read.

use std::path::{Path, PathBuf};

use super::cache::{CacheAt, DataCache};
use super::made_from::{CACHE_MALFORMED_MAX, Origin, SourceFile};
use crate::chunk::Chunk;
use crate::compression::{is_plain, open_packed};
use crate::data_file::length_of;
use crate::error::DataError;
use crate::files::Files;
use crate::layout::Layout;
use crate::packed::{ENTRY_BYTES, PackedOptions, PackedWriter};
use crate::read_options::Position;
use crate::schema::Schema;

/// Most blocks if the number of lines is unknown: a table of 128 MiB, a file of 1 TB.
const BLOCKS_MAX: u64 = 1 << 22;

/// Writes the cache of text files. If dropped before [`CacheWriter::finish`], it removes the file.
///
/// Cost: [`CacheWriter::bytes_max`] of memory; a copy and a checksum of each example.
#[derive(Debug)]
pub struct CacheWriter {
    path: PathBuf,
    files: Files,
    sources: Vec<SourceFile>,
    schema: Schema,
    blocks_max: u64,
    writer: PackedWriter,
    origin: Origin,
    malformed: u64,
    /// Position after the last line added.
    at: Position,
}

impl CacheWriter {
    /// Starts the cache of `files`, whose current state is `sources`, at `path`.
    ///
    /// # Errors
    /// The errors of [`PackedWriter::new`]; a packed file that isn't a cache at the temporary path.
    pub fn new(
        path: &Path,
        files: &Files,
        sources: &[SourceFile],
        schema: Schema,
        blocks_max: u64,
    ) -> Result<Self, DataError> {
        // A stopped run leaves an unfinished file or a complete cache; this one belongs to a user.
        let unfinished = PackedWriter::unfinished(path);
        let whole = open_packed(&unfinished).ok().flatten();
        if whole.is_some_and(|packed| !packed.has_origin()) {
            let why = "is where the cache is written, but was packed by `stepwell convert`: rename \
                       it or choose another path for data.cache";
            return Err(DataError::Path { path: unfinished, why: why.to_owned() });
        }
        let options = PackedOptions::laid_out(schema, files.layout.as_deref());
        Ok(Self {
            path: path.to_owned(),
            files: files.clone(),
            sources: sources.to_vec(),
            schema,
            blocks_max,
            writer: PackedWriter::new(path, &options)?,
            origin: Origin::unread(sources.to_vec()),
            malformed: 0,
            at: Position::default(),
        })
    }

    /// Path of the finished cache.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Most blocks of a cache of `files`; `lines` is their number of lines, if counted. Lists may
    /// need more if their text is compressed or in Parquet, as its length isn't known.
    pub fn blocks_max(files: &Files, lines: Option<u64>, schema: Schema) -> u64 {
        let text = |path: &PathBuf| length_of(path).ok().filter(|_| is_plain(path));
        let text: Option<u64> = files.paths.iter().map(text).sum();
        let of_text = || Some(text? / schema.line_bytes_min() as u64);
        let Some(lines) = lines.or_else(of_text) else { return BLOCKS_MAX };
        let layout = files.layout.as_deref();
        let (lists, values) =
            layout.map_or((0, false), |layout| (layout.lists(), layout.may_have_values()));
        let example = PackedWriter::example_bytes_max(&schema, lists > 0, values);
        let block = PackedOptions::new(schema).block_bytes as u64;
        let files = files.paths.len() as u64;
        if lists == 0 {
            return lines / (block / example).max(1) + files;
        }
        let Some(text) = text else { return BLOCKS_MAX };
        // An id takes two bytes of text at least. Two blocks in a row have more than a block holds.
        let ids = lists as u64 * (text / 2);
        let key = if values { 12 } else { 8 };
        2 * (lines * example + ids * key) / block + 2 * files
    }

    /// Most bytes for writing a cache of `blocks` blocks with `malformed` malformed lines, and then
    /// reading it.
    pub fn bytes_max(sources: &[SourceFile], schema: Schema, blocks: u64, malformed: u64) -> u64 {
        let writer = PackedWriter::bytes_max(&PackedOptions::new(schema), blocks);
        let origin = Origin::bytes_max(sources, malformed);
        let table = blocks.saturating_mul(ENTRY_BYTES as u64);
        // The origin in memory, as written, and as read.
        [writer, table, 4 * origin].into_iter().fold(0, u64::saturating_add)
    }

    /// Appends the first `examples` examples of `chunk`, and the malformed lines before the next
    /// one.
    ///
    /// # Errors
    /// A disk error, or more lines or blocks than planned.
    ///
    /// # Panics
    /// If the chunk doesn't follow the previous one.
    pub fn add(&mut self, chunk: &Chunk, examples: usize) -> Result<(), DataError> {
        // Empty files have no chunk.
        if chunk.file > self.at.file {
            self.writer.close_block()?;
            self.at = Position { file: chunk.file, line: 0 };
        }
        let first = Position { file: chunk.file, line: chunk.first_line };
        assert_eq!(first, self.at, "a cache has no holes");
        self.writer.add_first(chunk, examples)?;
        if self.writer.blocks() > self.blocks_max {
            let (path, blocks) = (self.path.clone(), self.blocks_max);
            return Err(DataError::CacheTooLarge { path, blocks });
        }
        let fail = |why: String| DataError::Path { path: self.path.clone(), why };
        self.malformed += chunk.malformed.len() as u64;
        if self.malformed > CACHE_MALFORMED_MAX {
            let most = CACHE_MALFORMED_MAX;
            return Err(fail(format!("more than {most} malformed lines: lower data.skip_max")));
        }
        let file = &mut self.origin.files[chunk.file as usize];
        let line = |offset: &u32| chunk.first_line + u64::from(*offset);
        file.malformed.extend(chunk.malformed.iter().map(line));
        self.at.line += (examples + chunk.malformed.len()) as u64;
        file.lines = self.at.line;
        Ok(())
    }

    /// Completes the cache after all lines of the files, and opens it.
    ///
    /// # Errors
    /// A disk error, or a text file that changed while it was read.
    pub fn finish(self) -> Result<DataCache, DataError> {
        for (path, was) in self.files.paths.iter().zip(&self.sources) {
            if SourceFile::of(path, self.files.layout.as_deref())? != *was {
                let cache = self.path.display();
                let why = format!("changed while it was read: {cache} is not created; run again");
                return Err(DataError::Path { path: path.clone(), why });
            }
        }
        let reading = self.files.layout.as_deref().map(Layout::reading_name);
        self.writer.finish_with(&self.origin.encode(reading.as_deref()))?;
        match DataCache::find(&self.path, &self.files, &self.sources, self.schema)? {
            CacheAt::Whole(cache) => Ok(*cache),
            CacheAt::Absent | CacheAt::Other(_) => {
                let why = "was replaced right after it was created: choose another path for \
                           data.cache";
                Err(DataError::Path { path: self.path, why: why.to_owned() })
            }
        }
    }
}
