//! Reads examples from any kind of source.
//!
//! ```text
//!   Source::next_block ──► Block ──► Decoder::decode ──► Chunk ──► Skips::add ──► examples
//!   one thread, in order             any thread                    in order
//! ```
//!
//! A pipeline puts threads and queues between the three; [`Reader`] runs them in one loop.
//!
//! ```
//! use stepwell_data::{Input, ReadOptions, Reader, Schema, SynthOptions};
//!
//! let input = Input::synth(&SynthOptions { examples: 5000, ..SynthOptions::default() })?;
//! let mut reader = Reader::open(input, &ReadOptions::new(Schema::CRITEO))?;
//! let mut chunk = reader.chunk();
//! let mut clicks = 0.0;
//! while reader.next_chunk(&mut chunk)? {
//!     clicks += chunk.labels.iter().sum::<f32>();
//! }
//! assert!((0.2..0.3).contains(&(clicks / 5000.0)));
//! # Ok::<(), stepwell_data::DataError>(())
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use crate::block::Block;
use crate::chunk::Chunk;
use crate::data_cache::{CacheReader, DataCache};
use crate::error::{DataError, MEND_PACKED};
use crate::file_reader::FileReader;
use crate::input::Input;
use crate::layout::Layout;
use crate::parse_lines::parse_block;
use crate::pass_share::Follower;
use crate::read_options::ReadOptions;
use crate::record::parse_records;
use crate::schema::Schema;
use crate::synth::{BLOCK_EXAMPLES, Synth};
use crate::{columnar, packed};

/// Name of the built-in stream in messages.
const STREAM_NAME: &str = "built-in stream";

/// The sequential part: cuts a source into blocks.
#[derive(Debug)]
pub enum Source {
    /// Blocks of the files.
    Files(Box<FileReader>),
    /// Blocks of a cache.
    Cache(Box<CacheReader>),
    /// Ranges of the built-in stream.
    Range {
        /// Next example.
        next: u64,
        /// End of the stream.
        end: u64,
    },
}

impl Source {
    /// Opens `input` at the starting position.
    ///
    /// # Errors
    /// A file that can't be read, a position that doesn't exist, a packed file that exceeds the
    /// options' limits, or a schema that is invalid or differs from that of the packed file or the
    /// stream.
    pub fn open(input: &Input, options: &ReadOptions) -> Result<Self, DataError> {
        options.schema.check()?;
        match input {
            Input::Files(files) => {
                let reader = FileReader::open(files, options)?;
                Ok(Self::Files(Box::new(reader)))
            }
            Input::Stream(stream) => open_stream(stream, options),
            Input::Cache(cache) => {
                Ok(Self::Cache(Box::new(CacheReader::open(Arc::clone(cache), options)?)))
            }
        }
    }

    /// Fills `block` with the next part. Returns false at the end.
    ///
    /// # Errors
    /// A file that can't be opened, read or decompressed, a damaged file, or a line longer than a
    /// block.
    pub fn next_block(&mut self, block: &mut Block) -> Result<bool, DataError> {
        self.next_block_of(block, &mut Follower::new(None, 0))
    }

    /// Like [`Self::next_block`], and asks `follower` which of its lines to use.
    pub(crate) fn next_block_of(
        &mut self,
        block: &mut Block,
        follower: &mut Follower,
    ) -> Result<bool, DataError> {
        match self {
            Self::Files(reader) => reader.next_block(block, follower),
            Self::Cache(reader) => reader.next_block(block, follower),
            Self::Range { next, end } => {
                let lines = (*end - *next).min(u64::from(BLOCK_EXAMPLES));
                block.bytes.clear();
                // At most the examples of a block, which fit.
                (block.file, block.first_line, block.lines) = (0, *next, lines as u32);
                (block.packed, block.rows, block.head) = (None, None, None);
                block.wanted = follower.take(block.lines);
                *next += lines;
                Ok(lines > 0)
            }
        }
    }
}

fn open_stream(stream: &Synth, options: &ReadOptions) -> Result<Source, DataError> {
    let (schema, start) = (stream.schema(), options.start);
    if options.schema != schema {
        let (asked, has) = (options.schema, schema);
        return Err(DataError::Options(format!(
            "{} dense features and {} id columns are asked for, but the {STREAM_NAME} has {} \
             and {}",
            asked.dense, asked.id_columns, has.dense, has.id_columns
        )));
    }
    let end = stream.options().examples;
    if start.file > 0 || start.line > end {
        let why = format!("it has {end} examples");
        return Err(DataError::Position { path: STREAM_NAME.into(), wanted: start.line, why });
    }
    Ok(Source::Range { next: start.line, end })
}

/// The parallel part: turns blocks into chunks. Clones share their data.
#[derive(Clone, Debug)]
pub struct Decoder {
    schema: Schema,
    /// Sources of packed blocks, for messages.
    files: Arc<[PathBuf]>,
    layout: Option<Arc<Layout>>,
    stream: Option<Arc<Synth>>,
    cache: Option<Arc<DataCache>>,
}

impl Decoder {
    /// A decoder for blocks of `input`.
    pub fn new(input: &Input, schema: Schema) -> Self {
        let (mut stream, mut cache) = (None, None);
        match input {
            Input::Files(_) => {}
            Input::Stream(of) => stream = Some(Arc::clone(of)),
            Input::Cache(of) => cache = Some(Arc::clone(of)),
        }
        let layout = input.layout().cloned();
        Self { schema, files: input.files().into(), layout, stream, cache }
    }

    /// An empty chunk with the right columns.
    pub fn chunk(&self) -> Chunk {
        Chunk::new(self.schema)
    }

    /// Fills `chunk` with the wanted examples of `block`. Depends on nothing else.
    ///
    /// # Errors
    /// [`DataError::Damaged`] if a block of a packed file is damaged; `chunk` is empty then.
    pub fn decode(&self, block: &Block, chunk: &mut Chunk) -> Result<(), DataError> {
        if let Some(cache) = &self.cache {
            return cache.decode(block, chunk);
        }
        match (&self.stream, &block.packed) {
            (Some(stream), _) => stream.fill_wanted(block, chunk),
            (None, None) => match (&self.layout, &block.rows, &block.head) {
                (Some(layout), Some(rows), _) => columnar::emit(layout, block, rows, chunk),
                (Some(layout), None, Some(head)) => parse_records(layout, head, block, chunk),
                _ => parse_block(block, chunk),
            },
            (None, Some(seal)) => {
                let first = block.first_line;
                packed::decode(block, seal, first, chunk).map_err(|why| DataError::Damaged {
                    path: self.files.get(block.file as usize).cloned().unwrap_or_default(),
                    place: seal.place(),
                    why,
                    mend: MEND_PACKED,
                })?;
            }
        }
        Ok(())
    }
}

/// Counts malformed lines of chunks in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skips {
    skip_max: u64,
    skipped: u64,
}

impl Skips {
    /// No malformed line yet, and `skip_max` allowed.
    pub fn new(skip_max: u64) -> Self {
        Self { skip_max, skipped: 0 }
    }

    /// Continues after `skipped` malformed lines of the same run.
    pub fn resume(skip_max: u64, skipped: u64) -> Self {
        Self { skip_max, skipped }
    }

    /// Malformed lines skipped so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Counts the malformed lines of `chunk`, the next chunk of `files`.
    ///
    /// # Errors
    /// [`DataError::Malformed`] for the first line that exceeds the limit.
    pub fn add(&mut self, files: &[PathBuf], chunk: &Chunk) -> Result<(), DataError> {
        let left = self.skip_max.saturating_sub(self.skipped);
        let found = chunk.malformed.len() as u64;
        if found <= left {
            self.skipped += found;
            return Ok(());
        }
        let index = left as usize;
        let (column, why) = match chunk.reasons.get(index) {
            Some(reason) => (reason.column, reason.why.clone()),
            None => (0, "the line is not an example".to_owned()),
        };
        Err(DataError::Malformed {
            path: files.get(chunk.file as usize).cloned().unwrap_or_default(),
            line: chunk.line_number(chunk.malformed[index]),
            column,
            why,
            skip_max: self.skip_max,
        })
    }
}

/// Reads a source from start to end on one thread, for tools and tests.
#[derive(Debug)]
pub struct Reader {
    input: Input,
    source: Source,
    decoder: Decoder,
    skips: Skips,
    block: Block,
}

impl Reader {
    /// Opens `input`.
    ///
    /// # Errors
    /// The errors of [`Source::open`].
    pub fn open(input: Input, options: &ReadOptions) -> Result<Self, DataError> {
        Ok(Self {
            source: Source::open(&input, options)?,
            decoder: Decoder::new(&input, options.schema),
            skips: Skips::new(options.skip_max),
            block: Block::default(),
            input,
        })
    }

    /// An empty chunk with the right columns.
    pub fn chunk(&self) -> Chunk {
        self.decoder.chunk()
    }

    /// Fills `chunk` with the next examples; it may be empty if a block has only skipped lines.
    /// Returns false at the end.
    ///
    /// # Errors
    /// A source that fails or is damaged, or a malformed line over the limit.
    pub fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, DataError> {
        if !self.source.next_block(&mut self.block)? {
            chunk.clear();
            return Ok(false);
        }
        self.decoder.decode(&self.block, chunk)?;
        self.skips.add(self.input.files(), chunk)?;
        Ok(true)
    }

    /// Malformed lines skipped so far.
    pub fn skipped(&self) -> u64 {
        self.skips.skipped()
    }
}
