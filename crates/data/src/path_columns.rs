//! Columns in the path of a file: each folder `name=value` is one, as Hive and Spark lay tables
//! out, such as `clicks/dt=2026-11-26/hour=03/part-0.parquet`.
//!
//! - **Why.** A value that all records of a file share isn't repeated in its records.
//! - **How.** Where the settings name a column that a path has, all records of that file have its
//!   value, whatever the format. Bytes may be written as `%3A`, and the folder of records without a
//!   value is called `__HIVE_DEFAULT_PARTITION__`.
//! - **Failure.** Files that are read together must all have a column in their paths, or none. A
//!   column that is in a path and in its file is refused, since either value could be meant.

use std::path::{Path, PathBuf};

use crate::DataError;
use crate::compression::open_packed;
use crate::layout::{Layout, Named, find_names};

/// The value of records that have none.
const MISSING: &[u8] = b"__HIVE_DEFAULT_PARTITION__";

/// A folder `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathColumn {
    pub(crate) name: String,
    /// Empty if missing.
    pub(crate) value: Vec<u8>,
}

/// The columns in the path of a file, in their order.
pub(crate) fn path_columns(path: &Path) -> Vec<PathColumn> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let of_scheme = std::str::from_utf8(bytes).ok().and_then(|text| text.find("://"));
    // Neither the host nor the query of a URL is a folder.
    let bytes = match of_scheme {
        Some(end) => bytes[end + 3..].split(|byte| *byte == b'?').next().unwrap_or_default(),
        None => bytes,
    };
    let skipped = usize::from(of_scheme.is_some());
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'/').collect();
    let (_, folders) = parts.split_last().unwrap_or((&&[][..], &[]));
    let column = |folder: &&[u8]| {
        let equals = memchr::memchr(b'=', folder).filter(|at| *at > 0)?;
        let (name, value) = (decoded(&folder[..equals]), decoded(&folder[equals + 1..]));
        let value = if value == MISSING { Vec::new() } else { value };
        Some(PathColumn { name: String::from_utf8(name).ok()?, value })
    };
    folders.iter().skip(skipped).filter_map(column).collect()
}

/// A text with escapes such as `%3A` decoded.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        match (text[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}

/// The sources of a layout whose values the path of a file gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FromPath {
    /// Each source with its value, empty if missing. // ascending
    pub(crate) values: Vec<(usize, Vec<u8>)>,
}

impl FromPath {
    /// Columns of `layout` in the path of the file at `path`.
    ///
    /// # Errors
    /// A column that the path has twice.
    pub(crate) fn of(layout: &Layout, path: &Path) -> Result<Self, DataError> {
        let columns = path_columns(path);
        let mut values = Vec::new();
        for (source, name) in layout.sources.iter().enumerate() {
            let mut own = columns.iter().filter(|column| column.name == *name);
            let Some(column) = own.next() else { continue };
            if own.next().is_some() {
                let why = format!("has the column {name} twice in its path: name each folder once");
                return Err(DataError::Path { path: path.to_owned(), why });
            }
            values.push((source, column.value.clone()));
        }
        Ok(Self { values })
    }

    /// Whether `source` is one of them.
    pub(crate) fn has(&self, source: usize) -> bool {
        self.values.iter().any(|(own, _)| *own == source)
    }

    /// Place of every source among the `names` of the file at `path`.
    ///
    /// # Errors
    /// A column that is in both the file and its path.
    pub(crate) fn find_others(
        &self,
        layout: &Layout,
        names: &[String],
        path: &Path,
    ) -> Result<Vec<Named>, DataError> {
        let mut found = find_names(&layout.sources, names);
        for (source, _) in &self.values {
            let named = std::mem::replace(&mut found[*source], Named::InPath);
            if let Some(place) = named.place() {
                let (own, name) = (&layout.sources[*source], &names[place]);
                let why = format!("has the column {name}, and its path the column {own}: {RENAME}");
                return Err(DataError::Path { path: path.to_owned(), why });
            }
        }
        Ok(found)
    }
}

/// How to fix a column that is in both a file and its path.
pub(crate) const RENAME: &str = "rename one of them";

/// Name of a file without its directory, but with the folders that are columns of `layout`, so that
/// files of equal content in different folders are told apart.
pub fn name_of_file(path: &Path, layout: Option<&Layout>) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let is_source = |name: &String| layout.is_some_and(|layout| layout.sources.contains(name));
    let folders = path_columns(path).into_iter().filter(|column| is_source(&column.name));
    let of = |PathColumn { name, value }| format!("{name}={}/", String::from_utf8_lossy(&value));
    folders.map(of).collect::<String>() + &name
}

/// Refuses files that are read together if only some have a column of `layout` in their path.
///
/// # Errors
/// The first file that lacks one.
pub(crate) fn check_paths<'a>(
    layout: &Layout,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), DataError> {
    let mut first: Option<(&PathBuf, FromPath)> = None;
    for path in paths {
        // The examples of a packed file already hold what its path gave.
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
                "has no folder {name}=... in its path, and {} has: read files together whose \
                 paths have the same columns",
                having.display()
            );
            return Err(DataError::Path { path: lacking.to_path_buf(), why });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(path: &str) -> Vec<(String, String)> {
        let of =
            |column: PathColumn| (column.name, String::from_utf8_lossy(&column.value).into_owned());
        path_columns(Path::new(path)).into_iter().map(of).collect()
    }

    #[test]
    fn folders_with_an_equals_sign_are_columns() {
        for (path, expected) in [
            ("clicks/dt=2026-11-26/hour=03/a.parquet", &[("dt", "2026-11-26"), ("hour", "03")][..]),
            ("/data/dt=1/x/lang=en=US/a.csv", &[("dt", "1"), ("lang", "en=US")]),
            ("./at=05%3A00%3a00/a%20b=%C3%A4/a", &[("at", "05:00:00"), ("a b", "ä")]),
            ("rate=50%/half=%4/a", &[("rate", "50%"), ("half", "%4")]),
            ("dt=__HIVE_DEFAULT_PARTITION__/city=/a", &[("dt", ""), ("city", "")]),
            ("dt=1/dt=2/a", &[("dt", "1"), ("dt", "2")]),
            ("=1/dt/a/dt=5.csv", &[]),
            ("dt=5.csv", &[]),
            ("-", &[]),
            ("s3://bucket/dt=1/a.csv", &[("dt", "1")]),
            ("s3://dt=1/a.csv", &[]),
            ("https://host/dt=1/a.csv?hour=3/b", &[("dt", "1")]),
            ("hdfs://node:9870/hour=05%3A00/a", &[("hour", "05:00")]),
        ] {
            let expected: Vec<(String, String)> = expected
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(columns(path), expected, "{path}");
        }
    }
}
