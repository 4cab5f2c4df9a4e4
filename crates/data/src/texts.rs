//! The texts of one column, record by record: what names the records in a file of scores.

use crate::file_reader::FileReader;
use crate::layout::{Column, ColumnKind, IdRule, Layout};
use crate::record::{Fields, Found, Kind, fields_of};
use crate::share::Follower;
use crate::{Block, DataError, Files, ReadOptions};

/// What to say of a file without the column.
const NO_COLUMN: &str = "has no such column: name one that the file names, or that the settings do";

/// What is between the items of a list that is written as one text.
pub(crate) const LIST_SEPARATOR: &str = "|";

/// Reads one column of files, in order.
#[derive(Debug)]
pub struct Texts {
    reader: FileReader,
    layout: Layout,
    block: Block,
    /// Whether the layout names the column, so that files without names have it, too.
    known: bool,
    files: Files,
}

impl Texts {
    /// Opens `files` for their column `column`.
    ///
    /// # Errors
    /// A file that cannot be read or has no such column; packed examples, which have no texts.
    pub fn open(files: &Files, layout: &Layout, column: &str) -> Result<Self, DataError> {
        for path in &files.paths {
            if crate::compression::open_packed(path)?.is_some() {
                let why = format!(
                    "is packed, and has keys in the place of the texts of {column}: score the data \
                     that it was made of"
                );
                return Err(DataError::Path { path: path.clone(), why });
            }
        }
        let known = layout.columns().iter().any(|known| known.name == column);
        let layout = only(layout, column).map_err(DataError::Options)?;
        let options = ReadOptions::new(layout.schema());
        let files = Files { paths: files.paths.clone(), layout: Some(layout.clone().into()) };
        let reader = FileReader::open(&files, &options)?;
        Ok(Self { reader, layout, block: Block::default(), known, files })
    }

    /// Appends the texts of the next records to `texts`, empty where they are missing; false at the
    /// end.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn next(&mut self, texts: &mut Vec<String>) -> Result<bool, DataError> {
        let (block, layout) = (&mut self.block, &self.layout);
        if !self.reader.next_block(block, &mut Follower::new(None, 0))? {
            return Ok(false);
        }
        if let Some(rows) = &block.rows {
            texts.extend(rows.row_texts());
            return Ok(true);
        }
        let Some(head) = &block.head else { return Ok(false) };
        let path = || self.files.paths.get(block.file as usize).cloned().unwrap_or_default();
        let is_named = head.header_lines > 0 || !matches!(head.kind, Kind::Delimited { .. });
        if !is_named && !self.known {
            return Err(DataError::Path { path: path(), why: NO_COLUMN.to_owned() });
        }
        let mut fields = Fields::new(layout.sources.len());
        let mut at = 0;
        for line in 0..block.lines {
            let (next, right) = fields_of(layout, head, &block.bytes, at, &mut fields);
            if !right {
                let line = block.first_line + u64::from(line) + u64::from(head.header_lines) + 1;
                let why = format!("line {line} is no record with such a column");
                return Err(DataError::Path { path: path(), why });
            }
            // Whoever is not named by the settings has to be in the data.
            if !self.known && (block.first_line, line) == (0, 0) && !fields.has(0) {
                return Err(DataError::Path { path: path(), why: NO_COLUMN.to_owned() });
            }
            let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            texts.push(match fields.found(0, &block.bytes) {
                Found::Missing => String::new(),
                Found::One(value) => shown(value.bytes()),
                Found::List => {
                    let items = fields.list(0, &block.bytes).map(|item| shown(item.bytes()));
                    items.collect::<Vec<_>>().join(LIST_SEPARATOR)
                }
            });
            at = next;
        }
        Ok(true)
    }
}

/// The layout of which nothing but one column is read.
fn only(layout: &Layout, name: &str) -> Result<Layout, String> {
    let is_own = |column: &&Column| column.of.is_empty();
    let id = || ColumnKind::Id(IdRule::default());
    let mut columns: Vec<Column> = layout.columns().iter().filter(is_own).cloned().collect();
    for column in &mut columns {
        column.kind = if column.name == name { id() } else { ColumnKind::Ignored };
    }
    if !columns.iter().any(|column| column.name == name) {
        columns.push(Column { name: name.to_owned(), of: Vec::new(), kind: id() });
    }
    Ok(Layout::new_unlabelled(layout.options().clone(), columns)?.with_records_of(layout))
}
