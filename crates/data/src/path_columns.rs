//! Columns in the path of a file: each directory `name=value` is a column, as in tables of Hive and
//! Spark, such as `clicks/dt=2026-11-26/hour=03/part-0.parquet`.
//!
//! - **Why.** Records don't repeat a value that all records of a file have in common.
//! - **How.** If the settings name a column that is in the path, all records of that file have its
//!   value, in any format. Bytes may be escaped as `%3A`. The directory of records without a value
//!   is called `__HIVE_DEFAULT_PARTITION__`.
//! - **Failure.** Of files read together, all or none must have a column in their paths. A column
//!   that is in both a path and its file is an error, as it is ambiguous.

use std::path::{Path, PathBuf};

use crate::DataError;
use crate::compression::open_packed;
use crate::layout::{Layout, Named, find_names};

/// Value of records that have none.
const MISSING: &[u8] = b"__HIVE_DEFAULT_PARTITION__";

/// A directory `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathColumn {
    pub(crate) name: String,
    /// Empty if missing.
    pub(crate) value: Vec<u8>,
}

/// Columns in the path of a file, in order.
pub(crate) fn path_columns(path: &Path) -> Vec<PathColumn> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let of_scheme = std::str::from_utf8(bytes).ok().and_then(|text| text.find("://"));
    // Neither the host nor the query of a URL is a directory.
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

/// Decodes escapes such as `%3A`.
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

/// Sources of a layout with a value in the path of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FromPath {
    /// Each source with its value, which is empty if missing. // ascending
    pub(crate) values: Vec<(usize, Vec<u8>)>,
}

impl FromPath {
    /// Columns of `layout` in the path of the file at `path`.
    ///
    /// # Errors
    /// A column that is twice in the path.
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

    /// Whether the path gives `source`.
    pub(crate) fn has(&self, source: usize) -> bool {
        self.values.iter().any(|(own, _)| *own == source)
    }

    /// Where each source is: in the path, or among the `names` of the file at `path`.
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
                let why =
                    format!("has the column {name}, and its path has the column {own}: {RENAME}");
                return Err(DataError::Path { path: path.to_owned(), why });
            }
        }
        Ok(found)
    }
}

/// How to fix a column that is in both a file and its path.
pub(crate) const RENAME: &str = "rename one of them";

/// Name of a file without its directory, but with path columns of `layout`, so that files of the
/// same name in different directories differ.
pub fn name_of_file(path: &Path, layout: Option<&Layout>) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let is_source = |name: &String| layout.is_some_and(|layout| layout.sources.contains(name));
    let folders = path_columns(path).into_iter().filter(|column| is_source(&column.name));
    let of = |PathColumn { name, value }| format!("{name}={}/", String::from_utf8_lossy(&value));
    folders.map(of).collect::<String>() + &name
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
