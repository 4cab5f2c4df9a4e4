//! A packed file that replaces the text it was made from, line by line.
//!
//! Why: reading a text again need not parse it, and the result must be the same: a chunk from a
//! cache has the examples, positions and malformed lines of a chunk of the text.
//!
//! How: the file lists its text files, the number of lines of each, and the malformed lines
//! (`PACKED.md`, origin). All other lines are examples, in order.
//!
//! Invariants:
//! - DATA-I7: a block of a cache contains examples of one text file;
//! - DATA-I8: a cache is read only if the text hasn't changed since the cache was made.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::made_from::{Origin, SourceFile};
use crate::block::Block;
use crate::chunk::Chunk;
use crate::compression::open_packed;
use crate::data_file::DataFile;
use crate::error::{DataError, MEND_CACHE};
use crate::files::Files;
use crate::layout::Layout;
use crate::open_file::explain;
use crate::packed::{HEAD_BYTES, Head, PackedFile, PackedReader, decode, is_packed};
use crate::pass_share::Follower;
use crate::read_options::{Position, ReadOptions};
use crate::schema::Schema;

/// Result of looking for a cache.
#[derive(Debug)]
pub enum CacheAt {
    /// No file.
    Absent,
    /// A cache of other text, and the difference.
    Other(String),
    /// A cache of this text.
    Whole(Box<DataCache>),
}

/// An open cache of text.
#[derive(Debug)]
pub struct DataCache {
    file: PackedFile,
    /// The text files.
    files: Vec<PathBuf>,
    origin: Origin,
    /// Number of examples before each text file.
    starts: Vec<u64>,
    /// Columns of the text; `None` for plain lines.
    layout: Option<Arc<Layout>>,
}

impl DataCache {
    /// A cache that is in a list of data files together with text, if there is one.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn among_text(files: &[PathBuf]) -> Result<Option<&Path>, DataError> {
        let (mut cache, mut text) = (None, false);
        for path in files {
            match open_packed(path)? {
                Some(file) if file.has_origin() => cache = Some(path.as_path()),
                Some(_) => {}
                None => text = true,
            }
        }
        Ok(cache.filter(|_| text))
    }

    /// Looks at `path` for a cache of `files`, whose current state is `sources`.
    ///
    /// # Errors
    /// Another kind of file, which must not be replaced; a damaged cache; a packed file among
    /// `files`.
    pub fn find(
        path: &Path,
        files: &Files,
        sources: &[SourceFile],
        schema: Schema,
    ) -> Result<CacheAt, DataError> {
        for file in &files.paths {
            if open_packed(file)?.is_some() {
                let why = "is already packed, but data.cache is for text: leave data.cache out";
                return Err(DataError::Path { path: file.clone(), why: why.to_owned() });
            }
        }
        let Some(mut file) = open_cache(path)? else { return Ok(CacheAt::Absent) };
        let damaged = |why| file_damaged(path, "its origin", why);
        let layout = files.layout.as_deref();
        let (rules, reading) = (layout.map(Layout::rules_name), layout.map(Layout::reading_name));
        let origin = Origin::decode(file.table()?.origin(), reading.as_deref()).map_err(damaged)?;
        if origin.examples() != file.examples() {
            return Err(damaged(format!(
                "{} examples, but the file has {}",
                origin.examples(),
                file.examples()
            )));
        }
        if !origin.same_rules || *file.head() != (Head { schema, rules }) {
            return Ok(CacheAt::Other("lines were parsed differently".to_owned()));
        }
        if let Some(why) = differs(&origin, sources) {
            return Ok(CacheAt::Other(why));
        }
        let mut starts = Vec::with_capacity(origin.files.len());
        let mut before = 0;
        for file in &origin.files {
            starts.push(before);
            before += file.examples();
        }
        let Files { paths: files, layout } = files.clone();
        let whole = Self { file, files, origin, starts, layout };
        Ok(CacheAt::Whole(Box::new(whole)))
    }

    /// Path of the cache.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Columns of the text; `None` for plain lines.
    pub(crate) fn layout(&self) -> Option<&Arc<Layout>> {
        self.layout.as_ref()
    }

    /// The text files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Number of examples.
    pub fn examples(&self) -> u64 {
        self.file.examples()
    }

    /// Malformed lines of the text before `place`, and after it.
    pub fn malformed_around(&self, place: Position) -> (u64, u64) {
        let (mut before, mut behind) = (0, 0);
        for (number, file) in self.origin.files.iter().enumerate() {
            let first = match (number as u32).cmp(&place.file) {
                std::cmp::Ordering::Less => file.malformed.len() as u64,
                std::cmp::Ordering::Equal => file.malformed_before(place.line),
                std::cmp::Ordering::Greater => 0,
            };
            before += first;
            behind += file.malformed.len() as u64 - first;
        }
        (before, behind)
    }

    /// Lines of each text file.
    pub fn lines_of_each(&self) -> Vec<u64> {
        self.origin.files.iter().map(|file| file.lines).collect()
    }

    pub(crate) fn has_truth(&self) -> bool {
        self.file.has_truth()
    }

    pub(crate) fn has_values(&self) -> bool {
        self.file.has_values()
    }

    /// Most bytes that reading takes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.file.bytes_max().saturating_add(self.origin.bytes())
    }

    /// Fills `chunk` with the lines of `block`.
    pub(crate) fn decode(&self, block: &Block, chunk: &mut Chunk) -> Result<(), DataError> {
        let number = block.file as usize;
        let (file, first) = (&self.origin.files[number], block.first_line);
        chunk.clear();
        if let Some(seal) = &block.packed {
            let example = self.starts[number] + file.examples_before(first);
            decode(block, seal, example, chunk)
                .map_err(|why| self.file.damaged(seal.place(), why))?;
        }
        chunk.begin(block);
        // Ranks split the lines only if none is malformed; then each example has its position
        // already.
        if block.wanted.is_none() {
            file.place(first, block.lines, chunk);
        }
        Ok(())
    }
}

/// Opens the packed file at `path`, if there is one; an error unless it records its origin.
fn open_cache(path: &Path) -> Result<Option<PackedFile>, DataError> {
    let unfit = |why: String| DataError::Path { path: path.to_owned(), why };
    if path.exists() && !path.is_file() {
        return Err(unfit("is not a file: choose another path for data.cache".to_owned()));
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unfit(explain(&error))),
    };
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let read = Read::by_ref(&mut file).take(HEAD_BYTES as u64).read_to_end(&mut head);
    read.map_err(|error| unfit(explain(&error)))?;
    let elsewhere = "choose another path for data.cache";
    if !is_packed(&head) {
        return Err(unfit(format!("exists and is not a cache: {elsewhere}")));
    }
    let file = PackedFile::new(path, DataFile::Disk(file)).map_err(|error| match error {
        DataError::Damaged { place, why, .. } => file_damaged(path, &place, why),
        DataError::Path { .. } => {
            unfit(format!("was packed by another build of stepwell: remove it, or {elsewhere}"))
        }
        other => other,
    })?;
    if !file.has_origin() {
        let why = format!("was packed by `stepwell convert` and is not a cache: {elsewhere}");
        return Err(unfit(why));
    }
    Ok(Some(file))
}

fn file_damaged(path: &Path, place: &str, why: String) -> DataError {
    let (path, place) = (path.to_owned(), place.to_owned());
    DataError::Damaged { path, place, why, mend: MEND_CACHE }
}

/// How the files of the origin of a cache differ from `sources`, if they do.
fn differs(origin: &Origin, sources: &[SourceFile]) -> Option<String> {
    let (was, is) = (origin.files.len(), sources.len());
    let mut pairs = sources.iter().zip(&origin.files);
    pairs
        .find_map(|(now, was)| now.differs(&was.source))
        .or_else(|| (was != is).then(|| format!("there were {was} files, there are {is}")))
}

/// Reads a cache as blocks of lines of its text.
#[derive(Debug)]
pub struct CacheReader {
    cache: Arc<DataCache>,
    reader: PackedReader,
    at: Position,
}

impl CacheReader {
    /// Starts at a position in the text.
    pub(crate) fn open(cache: Arc<DataCache>, options: &ReadOptions) -> Result<Self, DataError> {
        let (at, files) = (options.start, &cache.origin.files);
        let Some(file) = files.get(at.file as usize).filter(|file| at.line <= file.lines) else {
            let path = cache.files.get(at.file as usize).cloned().unwrap_or_default();
            let why = "the file has fewer lines; it may have changed".to_owned();
            return Err(DataError::Position { path, wanted: at.line, why });
        };
        let behind = cache.starts[at.file as usize] + file.examples_before(at.line);
        let reader = PackedReader::open(cache.file.again()?, at.file, behind, options)?;
        Ok(Self { cache, reader, at })
    }

    /// Fills `block` with the next lines; `follower` selects the lines to use. Returns false at the
    /// end of the last file.
    pub(crate) fn next_block(
        &mut self,
        block: &mut Block,
        follower: &mut Follower,
    ) -> Result<bool, DataError> {
        let cache = Arc::clone(&self.cache);
        let file = loop {
            match cache.origin.files.get(self.at.file as usize) {
                None => return Ok(false),
                Some(file) if self.at.line < file.lines => break file,
                Some(_) => self.at = Position { file: self.at.file + 1, line: 0 },
            }
        };
        let (examples, before) = (file.examples(), file.examples_before(self.at.line));
        let mut end = file.lines;
        if before == examples {
            // The rest of the file is malformed lines.
            block.bytes.clear();
            (block.packed, block.wanted) = (None, None);
        } else {
            let start = cache.starts[self.at.file as usize];
            let read = self.reader.next_block(block, follower)?;
            let after = before + u64::from(block.lines);
            if !read || block.first_line != start + before || after > examples {
                let place = block.packed.map_or_else(String::new, |seal| seal.place());
                let why = "its examples are not those of one file of text".to_owned();
                return Err(cache.file.damaged(place, why));
            }
            if after < examples {
                end = file.line_of(after);
            }
        }
        (block.file, block.first_line) = (self.at.file, self.at.line);
        // A block has fewer than 2^32 bytes, so fewer examples; malformed lines are few.
        block.lines = (end - self.at.line) as u32;
        self.at.line = end;
        Ok(true)
    }
}
