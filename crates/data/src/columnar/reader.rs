//! Reads a Parquet file in blocks of rows.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::FileReader;

use super::file::{ColumnFile, Place};
use super::logical_types::Meaning;
use super::panics::guarded;
use super::texts::TextReader;
use crate::block::Block;
use crate::error::DataError;
use crate::from_path::FromPath;
use crate::layout::Layout;
use crate::open_file::Unreadable;
use crate::pass_share::Follower;
use crate::read_options::ReadOptions;
use crate::rows::{Column, OfRows, Rows, Values};

/// Bytes of a value in memory, without its text.
const VALUE_BYTES: usize = 40;
/// Memory for the values of a block, as a multiple of the bytes of a text block.
const VALUES_TIMES: usize = 4;
/// Memory for their texts, likewise, if rows have the average size of their row group.
const TEXTS_TIMES: usize = 4;

/// Most bytes that the rows of a block take, in addition to a block of text.
pub(crate) fn rows_bytes_max(block_bytes: usize) -> u64 {
    ((VALUES_TIMES + TEXTS_TIMES) * block_bytes) as u64
}

/// How to read a column.
enum Reading {
    /// With the library.
    Library(Box<ColumnReader>),
    /// Page by page.
    Texts(TextReader),
}

/// Reads the rows of one file as blocks.
pub(crate) struct ColumnFileReader {
    file: ColumnFile,
    index: u32,
    /// Columns in the path.
    from_path: FromPath,
    /// Places of the other columns.
    places: Vec<Place>,
    /// Readers of the current row group, and the number of the next one.
    group: Option<Vec<Reading>>,
    next_group: usize,
    /// Unread rows of the current row group.
    left: u64,
    /// Rows read or skipped.
    behind: u64,
    /// Most rows of a block, regardless of size.
    rows_max: usize,
    block_bytes: usize,
    /// Rows per block in the current row group.
    rows: usize,
}

impl std::fmt::Debug for ColumnFileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnFileReader")
            .field("file", &self.file)
            .field("behind", &self.behind)
            .finish_non_exhaustive()
    }
}

impl ColumnFileReader {
    /// Starts after `behind` rows of `file`, number `index` of a list.
    pub(crate) fn open(
        file: ColumnFile,
        index: u32,
        behind: u64,
        layout: &Layout,
        options: &ReadOptions,
    ) -> Result<Self, DataError> {
        let rows = file.rows();
        if behind > rows {
            let why = format!("the file has {rows} rows; it may have changed");
            return Err(DataError::Position { path: file.path, wanted: behind, why });
        }
        let (from_path, places) = file.places(layout)?;
        let block_bytes = options.block_bytes;
        let values = VALUES_TIMES * block_bytes / VALUE_BYTES / places.len().max(1);
        let rows_max = layout.records_max(block_bytes).min(values);
        let rows_max = rows_max.min(rows_of_lists(layout, block_bytes)).max(1);
        let mut reader = Self {
            file,
            index,
            from_path,
            places,
            group: None,
            next_group: 0,
            left: 0,
            behind: 0,
            rows_max,
            block_bytes,
            rows: 0,
        };
        reader.pass_over(behind)?;
        Ok(reader)
    }

    /// Fills `block` with the next rows; `follower` selects the rows to use. Returns false at the
    /// end.
    pub(crate) fn next_block(
        &mut self,
        block: &mut Block,
        follower: &mut Follower,
    ) -> Result<bool, DataError> {
        block.bytes.clear();
        (block.packed, block.head) = (None, None);
        if !self.enter()? {
            (block.lines, block.rows) = (0, None);
            return Ok(false);
        }
        let rows = self.left.min(self.rows as u64) as usize;
        let mut columns = Vec::with_capacity(self.places.len());
        let group = self.group.iter_mut().flatten();
        for (reader, place) in group.zip(&self.places) {
            let column = guarded(|| read(reader, place, rows))
                .map_err(|why| self.file.failed(self.behind, &why));
            columns.push(column?);
        }
        // Sources ascend, so each insertion puts the column at its final index.
        for (source, value) in &self.from_path.values {
            columns.insert(*source, Column::same(value, rows));
        }
        (block.file, block.first_line, block.lines) = (self.index, self.behind, rows as u32);
        block.rows = Some(Rows { columns });
        block.wanted = follower.take(block.lines);
        self.left -= rows as u64;
        self.behind += rows as u64;
        Ok(true)
    }

    /// Moves to the next row group with rows if none are left in this one. Returns false at the
    /// end.
    fn enter(&mut self) -> Result<bool, DataError> {
        while self.left == 0 {
            self.group = None;
            let groups = self.file.reader.metadata().row_groups();
            let Some(group) = groups.get(self.next_group) else { return Ok(false) };
            self.left = group.num_rows().max(0).cast_unsigned();
            let bytes = group.total_byte_size().max(0).cast_unsigned();
            // As many average rows as fill a few blocks.
            let row = bytes / self.left.max(1);
            let fit = TEXTS_TIMES as u64 * self.block_bytes as u64 / row.max(1);
            self.rows = (fit as usize).clamp(1, self.rows_max);
            if self.left > 0 {
                let opened = guarded(|| self.open_group(self.next_group));
                self.group = Some(opened.map_err(|why| self.file.failed(self.behind, &why))?);
            }
            self.next_group += 1;
        }
        Ok(true)
    }

    fn open_group(&self, number: usize) -> Result<Vec<Reading>, ParquetError> {
        self.file.will_read(number, &self.places)?;
        let group = self.file.reader.get_row_group(number)?;
        let open = |place: &Place| {
            let chunk = group.metadata().column(place.leaf);
            Ok(match TextReader::suits(place, chunk) {
                true => {
                    let pages = group.get_column_page_reader(place.leaf)?;
                    let rows = group.metadata().num_rows().max(0).cast_unsigned();
                    Reading::Texts(TextReader::new(pages, place, rows))
                }
                false => Reading::Library(Box::new(group.get_column_reader(place.leaf)?)),
            })
        };
        self.places.iter().map(open).collect()
    }

    /// Skips rows; whole row groups are skipped without reading.
    fn pass_over(&mut self, rows: u64) -> Result<(), DataError> {
        while self.behind < rows {
            let groups = self.file.reader.metadata().row_groups();
            let next = groups.get(self.next_group).map_or(0, |group| group.num_rows().max(0));
            let next = next.cast_unsigned();
            if self.next_group < groups.len() && self.behind + next <= rows {
                self.behind += next;
                self.next_group += 1;
                continue;
            }
            if !self.enter()? {
                break;
            }
            let skip = (rows - self.behind).min(self.left);
            for reader in self.group.iter_mut().flatten() {
                let skipped = guarded(|| match self::skip(reader, skip as usize)? {
                    rows if rows as u64 == skip => Ok(()),
                    rows => {
                        Err(ParquetError::EOF(format!("{rows} rows, but {skip} were promised")))
                    }
                });
                skipped.map_err(|why| self.file.failed(self.behind, &why))?;
            }
            self.left -= skip;
            self.behind += skip;
        }
        Ok(())
    }
}

/// Most rows of a block, so that its lists have no more ids than the lists of a text block can
/// have. This bounds the chunk.
fn rows_of_lists(layout: &Layout, block_bytes: usize) -> usize {
    let most: usize =
        layout.id_names().iter().map(|(_, most)| most).filter(|most| **most > 1).sum();
    match (layout.lists(), most) {
        (0, _) | (_, 0) => usize::MAX,
        (lists, most) => lists * (block_bytes / 2 + 1) / most,
    }
}

impl ColumnFile {
    fn failed(&self, rows: u64, why: &ParquetError) -> DataError {
        let words = Unreadable::of(why).map(str::to_owned);
        let why = words.unwrap_or_else(|| format!("the file is damaged or cut short: {why}"));
        DataError::Read { path: self.path.clone(), line: rows, why }
    }
}

fn skip(reading: &mut Reading, rows: usize) -> Result<usize, ParquetError> {
    let reader = match reading {
        Reading::Library(reader) => &mut **reader,
        Reading::Texts(texts) => return texts.skip(rows),
    };
    match reader {
        ColumnReader::BoolColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int32ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int64ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int96ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::FloatColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::DoubleColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::ByteArrayColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => reader.skip_records(rows),
    }
}

/// Reads the next `rows` rows of a column.
fn read(reading: &mut Reading, place: &Place, rows: usize) -> Result<Column, ParquetError> {
    let reader = match reading {
        Reading::Library(reader) => &mut **reader,
        Reading::Texts(texts) => {
            let (segments, there) = texts.read(rows)?;
            let of_rows = there.map_or(OfRows::Each, OfRows::Some);
            let values = Values::Segments(segments);
            return Ok(Column { values, of_rows, lacking: Vec::new() });
        }
    };
    let mut levels = Levels::default();
    let values = match reader {
        ColumnReader::BoolColumnReader(reader) => Values::Bool(levels.values(reader, place, rows)?),
        ColumnReader::Int32ColumnReader(reader) => {
            place.meaning.of_small(levels.values(reader, place, rows)?)
        }
        ColumnReader::Int64ColumnReader(reader) => {
            place.meaning.of_whole(levels.values(reader, place, rows)?)
        }
        ColumnReader::Int96ColumnReader(reader) => {
            Meaning::of_days_and_nanos(levels.values(reader, place, rows)?)
        }
        ColumnReader::FloatColumnReader(reader) => {
            Values::Float(levels.values(reader, place, rows)?)
        }
        ColumnReader::DoubleColumnReader(reader) => {
            Values::Double(levels.values(reader, place, rows)?)
        }
        ColumnReader::ByteArrayColumnReader(reader) => {
            place.meaning.of_bytes(levels.values(reader, place, rows)?)?
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            place.meaning.of_fixed(levels.values(reader, place, rows)?)?
        }
    };
    let of_rows = levels.of_rows(place, rows);
    let column = Column { values, of_rows, lacking: levels.lacking(place) };
    match column.is_whole(rows) {
        true => Ok(column),
        false => Err(ParquetError::General("values that belong to no row".to_owned())),
    }
}

/// Definition and repetition levels of values.
#[derive(Default)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Levels {
    fn values<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        place: &Place,
        rows: usize,
    ) -> Result<Vec<T::T>, ParquetError> {
        let mut values = Vec::with_capacity(rows);
        let mut read = 0;
        while read < rows {
            let definition = (place.defined > 0).then_some(&mut self.definition);
            let repetition = place.is_list().then_some(&mut self.repetition);
            let (now, ..) =
                reader.read_records(rows - read, definition, repetition, &mut values)?;
            if now == 0 {
                let why = format!("{read} rows, but {rows} were promised");
                return Err(ParquetError::EOF(why));
            }
            read += now;
        }
        Ok(values)
    }

    /// Rows with a null item.
    fn lacking(&self, place: &Place) -> Vec<u32> {
        let Some(listed) = place.listed else { return Vec::new() };
        let (mut rows, mut lacking) = (0, Vec::new());
        for (repetition, definition) in self.repetition.iter().zip(&self.definition) {
            rows += u32::from(*repetition == 0);
            let row = u32::saturating_sub(rows, 1);
            if (listed..place.defined).contains(definition) && lacking.last() != Some(&row) {
                lacking.push(row);
            }
        }
        lacking
    }

    fn of_rows(&self, place: &Place, rows: usize) -> OfRows {
        if !place.is_list() {
            let is_there = |level: &i16| *level == place.defined;
            return match place.defined == 0 || self.definition.iter().all(is_there) {
                true => OfRows::Each,
                false => OfRows::Some(self.definition.iter().map(is_there).collect()),
            };
        }
        let mut ends: Vec<u32> = Vec::with_capacity(rows);
        let mut values = 0;
        for (repetition, definition) in self.repetition.iter().zip(&self.definition) {
            if *repetition == 0 {
                ends.push(values);
            }
            values += u32::from(*definition == place.defined);
            if let Some(end) = ends.last_mut() {
                *end = values;
            }
        }
        OfRows::Lists(ends)
    }
}
