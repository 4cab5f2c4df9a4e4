//! Sources of a layout that have their values in the path of a file.

use std::path::Path;

use crate::error::DataError;
use crate::layout::{Layout, Named, find_names};
use crate::path_columns::{PathColumn, RENAME, path_columns};

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

/// Name of a file without its directory, but with path columns of `layout`, so that files of the
/// same name in different directories differ.
pub fn name_of_file(path: &Path, layout: Option<&Layout>) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let is_source = |name: &String| layout.is_some_and(|layout| layout.sources.contains(name));
    let folders = path_columns(path).into_iter().filter(|column| is_source(&column.name));
    let of = |PathColumn { name, value }| format!("{name}={}/", String::from_utf8_lossy(&value));
    folders.map(of).collect::<String>() + &name
}
