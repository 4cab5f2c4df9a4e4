//! Texts of some columns, record by record, which label the records in a file of scores.

use std::path::{Path, PathBuf};

use crate::block::Block;
use crate::error::DataError;
use crate::file_reader::FileReader;
use crate::files::Files;
use crate::head::Kind;
use crate::layout::{Column, ColumnKind, IdRule, Layout, LayoutOptions, nearest};
use crate::pass_share::Follower;
use crate::read_options::ReadOptions;
use crate::record::{Fields, Found, fields_of, keys_of};
use crate::rows::LIST_SEPARATOR;

/// Reads some columns of files, in order.
#[derive(Debug)]
pub struct Texts {
    reader: FileReader,
    layout: Layout,
    block: Block,
    columns: Vec<Wanted>,
    files: Files,
}

/// A requested column.
#[derive(Debug)]
struct Wanted {
    name: String,
    source: usize,
    /// Whether the settings name it, so that files without a header have it, too.
    known: bool,
}

impl Texts {
    /// Opens `files` to read `columns`.
    ///
    /// # Errors
    /// A file that can't be read or lacks a column; a packed file, which has no texts.
    pub fn open(files: &Files, layout: &Layout, columns: &[String]) -> Result<Self, DataError> {
        for path in &files.paths {
            if crate::compression::open_packed(path)?.is_some() {
                let columns = columns.join(", ");
                let why = format!(
                    "is packed, and has keys instead of the texts of {columns}: score the data \
                     that it was made of"
                );
                return Err(DataError::Path { path: path.clone(), why });
            }
        }
        let known = |name: &String| layout.columns().iter().any(|known| known.name == *name);
        let texts = only(layout, columns).map_err(DataError::Options)?;
        let wanted = columns.iter().filter_map(|name| {
            let source = texts.sources.iter().position(|source| source == name)?;
            Some(Wanted { name: name.clone(), source, known: known(name) })
        });
        let columns = wanted.collect();
        let options = ReadOptions::new(texts.schema());
        let files = Files { paths: files.paths.clone(), layout: Some(texts.clone().into()) };
        let reader = FileReader::open(&files, &options)?;
        Ok(Self { reader, layout: texts, block: Block::default(), columns, files })
    }

    /// Opens `path` to read only `column`. If `header` is false, a file without a header consists
    /// of that column.
    ///
    /// # Errors
    /// The errors of [`Texts::open`].
    pub fn open_alone(path: &Path, column: &str, header: Option<bool>) -> Result<Self, DataError> {
        let mut texts = Self::open_named(path, &[column.to_owned()], header)?;
        texts.columns.iter_mut().for_each(|column| column.known = header == Some(false));
        Ok(texts)
    }

    /// Opens `path` to read only `columns`, which its first line names if `header` is true.
    ///
    /// # Errors
    /// The errors of [`Texts::open`].
    pub fn open_named(
        path: &Path,
        columns: &[String],
        header: Option<bool>,
    ) -> Result<Self, DataError> {
        let kind = || ColumnKind::Id(IdRule::default());
        let column = |name: &String| Column { name: name.clone(), of: Vec::new(), kind: kind() };
        let layout = columns.iter().map(column).collect();
        let options = LayoutOptions { header, ..LayoutOptions::default() };
        let layout = Layout::new_unlabelled(options, layout).map_err(DataError::Options)?;
        let files = Files { paths: vec![path.to_owned()], layout: None };
        let mut texts = Self::open(&files, &layout, columns)?;
        texts.columns.iter_mut().for_each(|column| column.known = false);
        Ok(texts)
    }

    /// Appends the texts of the next records to `texts`, record by record, column by column; empty
    /// if missing. Returns false at the end.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn next(&mut self, texts: &mut Vec<Vec<u8>>) -> Result<bool, DataError> {
        if !self.reader.next_block(&mut self.block, &mut Follower::new(None, 0))? {
            return Ok(false);
        }
        if let Some(rows) = &self.block.rows {
            let sources: Vec<usize> = self.columns.iter().map(|column| column.source).collect();
            rows.append_texts(&sources, texts);
            return Ok(true);
        }
        let Some(head) = &self.block.head else { return Ok(false) };
        let is_named = head.header_lines > 0 || !matches!(head.kind, Kind::Delimited { .. });
        self.check_columns(|column| column.known || is_named)?;
        let mut fields = Fields::new(self.layout.sources.len());
        let mut at = 0;
        for line in 0..self.block.lines {
            let (next, right) = fields_of(&self.layout, head, &self.block.bytes, at, &mut fields);
            if !right {
                let line = self.block.first_line + u64::from(line);
                let line = line + u64::from(head.header_lines) + 1;
                let names: Vec<&str> = self.columns.iter().map(|of| of.name.as_str()).collect();
                let names = names.join(" and ");
                return Err(self.wrong(format!("line {line} is not a record with {names}")));
            }
            if (self.block.first_line, line) == (0, 0) {
                self.check_columns(|column| column.known || fields.has(column.source))?;
            }
            let of_record = self.columns.iter().map(|of| self.text(of.source, &fields));
            texts.extend(of_record);
            at = next;
        }
        Ok(true)
    }

    /// Returns an error for the first column that is neither in the settings nor in the data.
    fn check_columns(&self, is_there: impl Fn(&Wanted) -> bool) -> Result<(), DataError> {
        let Some(column) = self.columns.iter().find(|column| !is_there(column)) else {
            return Ok(());
        };
        let name = &column.name;
        let head = self.block.head.as_deref();
        let first = self.block.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut names = head.map_or(Vec::new(), |head| keys_of(head.kind, first));
        let own = self.layout.columns().iter().filter(|own| own.name != *name);
        names.extend(own.map(|own| own.name.clone()));
        let near = nearest(name, names.iter()).cloned();
        let why = format!("has no column {name}");
        let fix = ": name one that the file has, or that the settings name for it".to_owned();
        Err(DataError::NoColumn { path: self.path(), column: name.clone(), near, why, fix })
    }

    /// Text of a source in the current record.
    fn text(&self, source: usize, fields: &Fields) -> Vec<u8> {
        let record = fields.record(&self.block.bytes);
        match record.found(source) {
            Found::Missing => Vec::new(),
            Found::One(value) => value.bytes().to_vec(),
            Found::List => {
                let items = record.list(source).map(|item| item.bytes());
                items.collect::<Vec<_>>().join(LIST_SEPARATOR)
            }
        }
    }

    fn wrong(&self, why: String) -> DataError {
        DataError::Path { path: self.path(), why }
    }

    /// Path of the current file.
    fn path(&self) -> PathBuf {
        self.files.paths.get(self.block.file as usize).cloned().unwrap_or_default()
    }
}

/// A layout that reads only these columns, and treats no text as missing.
fn only(layout: &Layout, names: &[String]) -> Result<Layout, String> {
    let is_own = |column: &&Column| column.of.is_empty();
    let id = || ColumnKind::Id(IdRule::default());
    let mut columns: Vec<Column> = layout.columns().iter().filter(is_own).cloned().collect();
    for column in &mut columns {
        column.kind = if names.contains(&column.name) { id() } else { ColumnKind::Ignored };
    }
    for name in names {
        if !columns.iter().any(|column| column.name == *name) {
            columns.push(Column { name: name.clone(), of: Vec::new(), kind: id() });
        }
    }
    let options = LayoutOptions { missing: Vec::new(), split: None, ..layout.options().clone() };
    Ok(Layout::new_unlabelled(options, columns)?.with_records_of(layout))
}
