//! Reads a list of files in order as blocks, regardless of their formats.
//!
//! Invariant: a block never spans two files.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::block::Block;
use crate::columnar::ColumnFileReader;
use crate::compression::{Content, open, open_packed};
use crate::files::Files;
use crate::first_line::{Begun, begin};
use crate::from_path::FromPath;
use crate::head::Kind;
use crate::layout::{Format, Layout};
use crate::lines::LineReader;
use crate::packed::PackedReader;

use crate::error::DataError;
use crate::pass_share::Follower;
use crate::read_options::ReadOptions;

/// Reads files in order.
#[derive(Debug)]
pub struct FileReader {
    files: Files,
    options: ReadOptions,
    /// Index of the current or next file.
    file: u32,
    /// `None` between two files, so that only one of them uses memory.
    at: Option<At>,
}

#[derive(Debug)]
enum At {
    Text(LineReader),
    Packed(PackedReader),
    Columns(ColumnFileReader),
}

impl FileReader {
    /// Starts at `options.start`; lines before it are counted, not parsed.
    ///
    /// # Errors
    /// A file that can't be read, or has fewer lines than `options.start`; any packed file of the
    /// list that doesn't match `options`.
    pub(crate) fn open(files: &Files, options: &ReadOptions) -> Result<Self, DataError> {
        let start = options.start;
        if start.file as usize >= files.paths.len() {
            let why = format!("there are {} files", files.paths.len());
            let path = format!("file number {}", start.file).into();
            return Err(DataError::Position { path, wanted: start.line, why });
        }
        // Check all files now rather than when reading reaches the last one.
        for path in &files.paths {
            if let Some(packed) = open_packed(path)? {
                // Checked first: a mismatch in columns rarely shows in their number.
                packed.check_rules(files.layout.as_deref())?;
                if files.layout.as_deref().is_some_and(Layout::splits) {
                    let why = "is packed, but data.eval_column needs text: evaluate on separate \
                               files (data.eval_paths), or read the text";
                    return Err(DataError::Path { path: path.clone(), why: why.to_owned() });
                }
                packed.check(options)?;
            }
        }
        check_records(files)?;
        let mut reader =
            Self { files: files.clone(), options: *options, file: start.file, at: None };
        reader.at = Some(reader.enter(start.line)?);
        Ok(reader)
    }

    /// Fills `block` with the next lines or examples; `follower` selects the ones to use. Returns
    /// false at the end of the last file.
    ///
    /// # Errors
    /// A file that can't be opened, read or decompressed, a damaged file, or a line longer than a
    /// block.
    pub(crate) fn next_block(
        &mut self,
        block: &mut Block,
        follower: &mut Follower,
    ) -> Result<bool, DataError> {
        loop {
            if let Some(at) = &mut self.at {
                if at.next_block(block, follower)? {
                    return Ok(true);
                }
                self.at = None;
                self.file += 1;
            }
            if self.file as usize == self.files.paths.len() {
                return Ok(false);
            }
            self.at = Some(self.enter(0)?);
        }
    }

    /// Opens the current file at line `line`.
    fn enter(&self, line: u64) -> Result<At, DataError> {
        let path = &self.files.paths[self.file as usize];
        At::open(path, self.file, line, self.files.layout.as_deref(), &self.options)
    }
}

impl At {
    fn next_block(
        &mut self,
        block: &mut Block,
        follower: &mut Follower,
    ) -> Result<bool, DataError> {
        block.rows = None;
        match self {
            Self::Text(reader) => {
                let more = reader.next_block(block)?;
                block.wanted = follower.take(block.lines);
                Ok(more)
            }
            Self::Packed(reader) => reader.next_block(block, follower),
            Self::Columns(reader) => reader.next_block(block, follower),
        }
    }

    fn open(
        path: &Path,
        file: u32,
        line: u64,
        layout: Option<&Layout>,
        options: &ReadOptions,
    ) -> Result<Self, DataError> {
        match open_as(path, layout)? {
            Content::Text(text) => {
                let block_bytes = options.block_bytes;
                LineReader::open(path, file, text, line, block_bytes, layout).map(Self::Text)
            }
            Content::Packed(packed) => {
                PackedReader::open(packed, file, line, options).map(Self::Packed)
            }
            Content::Columns(columns) => {
                let Some(layout) = layout else { return Err(no_layout(path)) };
                ColumnFileReader::open(columns, file, line, layout, options).map(Self::Columns)
            }
        }
    }
}

/// Opens a file and checks that it has the format that `layout` names.
pub(crate) fn open_as(path: &Path, layout: Option<&Layout>) -> Result<Content, DataError> {
    let content = open(path)?;
    let format = layout.map_or(Format::Auto, |layout| layout.options().format);
    let (is, mend) = match (&content, format) {
        (Content::Text(_), Format::Parquet) => ("is not a Parquet file", "auto"),
        (Content::Columns(_), format) if !matches!(format, Format::Auto | Format::Parquet) => {
            ("is a Parquet file", "parquet, or auto")
        }
        _ => return Ok(content),
    };
    let why = format!("{is}, but data.format is {}: give {mend}", format.name());
    Err(DataError::Path { path: path.to_owned(), why })
}

/// Returns an error if only some of the files have a column of `layout` in their paths.
///
/// # Errors
/// The first file that lacks a column.
pub(crate) fn check_paths<'a>(
    layout: &Layout,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), DataError> {
    let mut first: Option<(&PathBuf, FromPath)> = None;
    for path in paths {
        // The examples of a packed file already contain the values of its path.
        if open_packed(path)?.is_some() {
            continue;
        }
        let own = FromPath::of(layout, path)?;
        let (other, wanted) = first.get_or_insert_with(|| (path, own.clone()));
        let other = *other;
        let lacks = |(lacking, having): (&FromPath, &FromPath)| {
            let mut sources = having.values.iter().map(|(source, _)| *source);
            sources.find(|source| !lacking.has(*source))
        };
        let found = lacks((&own, wanted)).map(|source| (path, other, source));
        let found = found.or_else(|| lacks((wanted, &own)).map(|source| (other, path, source)));
        if let Some((lacking, having, source)) = found {
            let name = &layout.sources[source];
            let why = format!(
                "has no folder {name}=... in its path, but {} has: read only files together whose \
                 paths have the same columns",
                having.display()
            );
            return Err(DataError::Path { path: lacking.to_path_buf(), why });
        }
    }
    Ok(())
}

/// Rejects files that contain only a header, and files without a header if the headers of other
/// files show a column order that differs from the one assumed.
fn check_records(files: &Files) -> Result<(), DataError> {
    let Some(layout) = files.layout.as_deref() else { return Ok(()) };
    check_paths(layout, files.paths.iter())?;
    let (mut bare, mut has_records) = (None, false);
    let (mut named, mut unnamed): (Option<_>, Option<_>) = (None, None);
    for path in &files.paths {
        let Content::Text(text) = open(path)? else {
            has_records = true;
            continue;
        };
        let Begun { head, mut text } = begin(path, text, Some(layout))?;
        // Later read errors are reported when reading reaches them.
        let more = text.as_mut().take(1).read_to_end(&mut Vec::new()).map_or(1, |read| read) > 0;
        has_records |= more;
        let Some(head) = head.filter(|head| matches!(head.kind, Kind::Delimited { .. })) else {
            continue;
        };
        if head.header_lines > 0 {
            bare = bare.or_else(|| (!more).then_some(path));
            named = named.or(Some((path, head)));
        } else if more {
            unnamed = unnamed.or(Some((path, head)));
        }
    }
    if let (Some((named, head)), Some((path, other))) = (named, unnamed)
        && head.places != other.places
    {
        let why = format!(
            "has no header, but the header of {} has other columns than the settings, or another \
             order: add the right header",
            named.display()
        );
        return Err(DataError::Path { path: path.to_owned(), why });
    }
    let Some(path) = bare.filter(|_| !has_records) else { return Ok(()) };
    let why = "has a header, but no record below it".to_owned();
    Err(DataError::Path { path: path.clone(), why })
}

/// Error for a Parquet file without configured columns.
fn no_layout(path: &Path) -> DataError {
    let why = "is a Parquet file, but the settings name none of its columns: give [[columns]], \
               which `stepwell schema` writes, or data.format = parquet if it has those of \
               data.preset";
    DataError::Path { path: path.to_owned(), why: why.to_owned() }
}
