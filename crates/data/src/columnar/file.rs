//! An open Parquet file and its metadata.

use std::path::{Path, PathBuf};

use parquet::basic::{Compression, Repetition};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};

use super::logical_types::Meaning;
use super::panics::guarded;
use crate::data_file::DataFile;
use crate::error::DataError;
use crate::from_path::FromPath;
use crate::layout::{Layout, Named, listed, nearest};
use crate::open_file::{Unreadable, explain};

/// A Parquet file with readable metadata.
pub(crate) struct ColumnFile {
    pub(super) path: PathBuf,
    pub(super) reader: SerializedFileReader<DataFile>,
    /// The same file, for prefetching.
    bytes: DataFile,
}

/// A column to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the leaf column in the file.
    pub(super) leaf: usize,
    /// How to interpret its values.
    pub(super) meaning: Meaning,
    /// Definition level of a value that isn't null.
    pub(super) defined: i16,
    /// Definition level of a list's item, null or not; `None` if rows have no lists.
    pub(super) listed: Option<i16>,
}

impl Place {
    /// Whether rows are lists.
    pub(super) fn is_list(&self) -> bool {
        self.listed.is_some()
    }
}

impl std::fmt::Debug for ColumnFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ColumnFile {
    /// Opens `file`, which starts like a Parquet file.
    pub(crate) fn new(path: &Path, file: DataFile) -> Result<Self, DataError> {
        let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
        let bytes = file.again().map_err(|error| wrong(explain(&error)))?;
        let reader = guarded(|| SerializedFileReader::new(file)).map_err(|error| {
            let words = Unreadable::of(&error).map(str::to_owned);
            wrong(words.unwrap_or_else(|| format!("is not a complete Parquet file: {error}")))
        })?;
        let metadata = reader.metadata();
        let rows = metadata.file_metadata().num_rows();
        let groups = metadata.row_groups().iter().map(|group| group.num_rows().max(0));
        if groups.fold(0, i64::saturating_add) != rows {
            let why = "is not a complete Parquet file: its row groups have another number of rows";
            return Err(DataError::Path { path: path.to_owned(), why: why.to_owned() });
        }
        Ok(Self { path: path.to_owned(), reader, bytes })
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.reader.metadata().file_metadata().num_rows().max(0).cast_unsigned()
    }

    /// Most bytes that reading takes in addition to blocks: all pages of the largest row group,
    /// compressed and decompressed, and four times the decompressed size for the dictionaries: a
    /// text takes at least 5 bytes in a page, and has a place and a key in memory. Remote files
    /// also buffer the compressed row group.
    pub(crate) fn bytes_max(&self) -> u64 {
        let times = if self.bytes.holds() { 2 } else { 1 };
        let bytes = |group: &parquet::file::metadata::RowGroupMetaData| {
            group.compressed_size().max(0).cast_unsigned().saturating_mul(times)
                + group.total_byte_size().max(0).cast_unsigned().saturating_mul(5)
        };
        self.reader.metadata().row_groups().iter().map(bytes).max().unwrap_or(0)
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Prefetches the columns at `places` of a row group, if that is faster than reading page by
    /// page.
    pub(super) fn will_read(&self, group: usize, places: &[Place]) -> Result<(), ParquetError> {
        let group = self.reader.metadata().row_group(group);
        let range = |place: &Place| {
            let (start, bytes) = group.column(place.leaf).byte_range();
            start..start.saturating_add(bytes)
        };
        let ranges: Vec<_> = places.iter().map(range).collect();
        Ok(self.bytes.will_read(&ranges)?)
    }

    /// Names of all columns.
    pub(crate) fn all_names(&self) -> Vec<String> {
        let columns = self.reader.metadata().file_metadata().schema_descr().columns();
        columns.iter().map(|column| name_of(column)).collect()
    }

    /// Names of the readable columns, without duplicates.
    pub(crate) fn names(&self) -> Vec<String> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let all = self.all_names();
        let can = |(leaf, name): (usize, &String)| {
            let once = all.iter().filter(|other| *other == name).count() == 1;
            (once && place_of(schema, leaf).is_ok()).then(|| name.clone())
        };
        all.iter().enumerate().filter_map(can).collect()
    }

    /// Error for the missing column `source` of a file whose columns are `names`.
    fn lacks(&self, source: &str, layout: &Layout, names: &[String]) -> DataError {
        let others = names.iter().filter(|name| !layout.sources.contains(name));
        let near = nearest(source, others).cloned();
        let fix = near.as_ref().map_or(String::new(), |near| {
            format!(
                "; if it is {near}, rename that to {source} in the file, or use the file's name in \
                 the settings for training"
            )
        });
        let why = format!("has no column {source}: it has {}", listed(names));
        DataError::NoColumn { path: self.path.clone(), column: source.to_owned(), near, why, fix }
    }

    /// The columns of `layout` in the path, and the places of the other columns in the file, in the
    /// order of the layout.
    pub(super) fn places(&self, layout: &Layout) -> Result<(FromPath, Vec<Place>), DataError> {
        let wrong = |why: String| DataError::Path { path: self.path.clone(), why };
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let names = self.all_names();
        let place = |(source, named): (&String, Named)| {
            let Some(leaf) = named.place() else {
                return Err(self.lacks(source, layout, &names));
            };
            let several = names.iter().filter(|name| **name == names[leaf]).count() > 1;
            if several {
                return Err(wrong(format!("has several values in column {source}, such as a map")));
            }
            let place = place_of(schema, leaf);
            let groups = self.reader.metadata().row_groups().iter();
            let unread = groups.map(|group| group.column(leaf)).find_map(why_unread);
            let place = unread.map_or(place, Err);
            place.map_err(|why| wrong(format!("column {source} {why}")))
        };
        let from_path = FromPath::of(layout, &self.path)?;
        let found = from_path.find_others(layout, &names, &self.path)?;
        let in_file = layout.sources.iter().zip(found);
        let in_file = in_file.filter(|(_, named)| *named != Named::InPath);
        let places = in_file.map(place).collect::<Result<_, _>>()?;
        Ok((from_path, places))
    }
}

/// Name of a column; for a list, the name of the list, not of its items.
fn name_of(column: &ColumnDescriptor) -> String {
    let parts = column.path().parts();
    if column.max_rep_level() > 0 { parts[0].clone() } else { parts.join(".") }
}

fn place_of(schema: &SchemaDescriptor, leaf: usize) -> Result<Place, String> {
    let column = schema.column(leaf);
    if column.max_rep_level() > 1 {
        return Err("has lists of lists: write it as one list".to_owned());
    }
    let meaning = Meaning::of(&column)?;
    let listed = item_level(schema.get_column_root(leaf), column.path().parts());
    Ok(Place { leaf, meaning, defined: column.max_def_level(), listed })
}

/// Definition level of the items of the list at `path` below `root`.
fn item_level(root: &Type, path: &[String]) -> Option<i16> {
    let (mut level, mut node) = (0, root);
    for next in path.iter().skip(1).map(Some).chain([None]) {
        let about = node.get_basic_info();
        match about.has_repetition().then(|| about.repetition()) {
            Some(Repetition::REPEATED) => return Some(level + 1),
            Some(Repetition::OPTIONAL) => level += 1,
            Some(Repetition::REQUIRED) | None => {}
        }
        let mut below = if node.is_group() { node.get_fields() } else { &[] }.iter();
        node = below.find(|field| Some(field.name()) == next.map(String::as_str))?;
    }
    None
}

/// Why the pages of a column chunk can't be read, if so.
fn why_unread(chunk: &ColumnChunkMetaData) -> Option<String> {
    let codec = match chunk.compression() {
        Compression::BROTLI(_) => "Brotli",
        Compression::LZO => "LZO",
        _ => return None,
    };
    Some(format!("has pages in {codec}, which is not supported: write them with zstd"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::Type as PhysicalType;
    use parquet::schema::types::ColumnPath;

    use super::*;

    #[test]
    fn pages_in_codecs_that_are_not_read_are_refused_by_name() {
        let kind = Type::primitive_type_builder("a", PhysicalType::INT32).build().unwrap();
        let path = ColumnPath::new(vec!["a".to_owned()]);
        let column = Arc::new(ColumnDescriptor::new(Arc::new(kind), 0, 0, path));
        let why = |codec| {
            let chunk = ColumnChunkMetaData::builder(Arc::clone(&column)).set_compression(codec);
            why_unread(&chunk.build().unwrap())
        };
        let told = |codec: &str| format!("has pages in {codec}, which is not supported: ");
        assert!(why(Compression::BROTLI(Default::default())).unwrap().starts_with(&told("Brotli")));
        assert!(why(Compression::LZO).unwrap().starts_with(&told("LZO")));
        assert_eq!(why(Compression::LZ4), None);
    }
}
