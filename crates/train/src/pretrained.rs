//! Embeddings from a file, with which rows of a new table begin.
//!
//! - **Format.** Any format of data, with a column of ids and a list of numbers, `embedding`. The
//!   column of ids has the name of one of the table's columns; or `id`, if the table's columns have
//!   one namespace.
//! - **How.** Each id becomes the key that it has in the data. Rows go into the table's store
//!   before the first step. Then they are rows like any other, in every tier and in checkpoints.
//! - **Bounds.** The ids and embeddings of one block of the file.

use std::path::{Path, PathBuf};

use stepwell_base::stop::StopRequest;
use stepwell_base::{Key, counted};
use stepwell_data::{DataError, Layout, Texts, has_no_record};
use stepwell_engine::GivenRows;
use stepwell_settings::{Config, EMBEDDING};
use stepwell_ssd::Store;

use crate::models::named;
use crate::{Error, Result};

/// Column of embeddings.
const EMBEDDINGS: &str = "embedding";
/// Column of ids, if it isn't named like a column of the data.
const IDS: &str = "id";
/// Separates the numbers of a list in text.
const SEPARATOR: u8 = b'|';

/// A file of embeddings for the rows of a table.
#[derive(Debug)]
pub(crate) struct Pretrained {
    path: PathBuf,
    /// The setting, for messages.
    key: String,
    layout: Layout,
    /// Number of the id column whose namespace the ids are in, and its name in the file.
    column: usize,
    name: String,
}

impl Pretrained {
    /// The file for table `table`, if `config` names one.
    ///
    /// # Errors
    /// If it cannot be read, or its ids are of no or several columns of the table.
    pub(crate) fn of(config: &Config, table: &str) -> Result<Option<Self>> {
        let Some(path) = named(&config.tables, table).pretrained else { return Ok(None) };
        let key = format!("tables.{table}.pretrained = {}", path.display());
        let layout = config.named_layout().map_err(Error::Config)?;
        let columns = columns_of(config, &layout, table).map_err(Error::Config)?;
        let (column, name) = column_in(&path, &layout, &columns)
            .map_err(|why| Error::Config(format!("{key}: {why}")))?;
        Ok(Some(Self { path, key, layout, column, name }))
    }

    /// Puts all rows into `store`; returns the number of ids in the file.
    ///
    /// # Errors
    /// If the file or the store fails, or a record is wrong.
    pub(crate) fn put_into(
        &self,
        rows: GivenRows<'_>,
        store: &Store,
        stop: &StopRequest,
    ) -> Result<u64> {
        let (mut texts, mut block) = (open(&self.path, &self.name)?, Vec::new());
        let (mut keys, mut embeddings, mut count) = (Vec::new(), Vec::new(), 0);
        while texts.next(&mut block)? {
            if stop.is_made() {
                return Err(Error::Interrupted);
            }
            for record in block.chunks_exact(2) {
                let [id, embedding] = record else { unreachable!("two columns are read") };
                let number = count + keys.len() as u64 + 1;
                let before = embeddings.len();
                let wrong = |why: String| self.wrong(number, id, &why);
                push_numbers(embedding, &mut embeddings).map_err(wrong)?;
                let (has, dim) = (embeddings.len() - before, rows.table.dim);
                if has != dim {
                    let why = format!("it has {has} numbers, and the table's dim is {dim}");
                    return Err(self.wrong(number, id, &why));
                }
                rows.check(&embeddings[before..]).map_err(wrong)?;
                keys.push(self.key_of(id)?);
            }
            if let Some(at) = rows.put_into(store, &keys, &embeddings)? {
                let number = count + at as u64 + 1;
                return Err(self.wrong(number, &block[2 * at], "the id occurs twice"));
            }
            count += keys.len() as u64;
            keys.clear();
            embeddings.clear();
            block.clear();
        }
        Ok(count)
    }

    /// Notes that the rows of `count` ids are in `table`.
    pub(crate) fn note(&self, table: &str, count: u64) -> String {
        let (ids, path) = (counted(count, "id"), self.path.display());
        format!("table {table} begins with the embeddings of {ids} in {path}")
    }

    fn key_of(&self, id: &[u8]) -> Result<Key> {
        self.layout.key_of(self.column, id).ok_or_else(|| {
            let name = self.layout.id_names()[self.column].0;
            let why = "are hashed, or made from a number or several columns, not from one text";
            Error::Config(format!("{}: the ids of column {name} {why}", self.key))
        })
    }

    fn wrong(&self, number: u64, id: &[u8], why: &str) -> Error {
        let (key, id) = (&self.key, String::from_utf8_lossy(id));
        Error::Config(format!("{key}: record {number} (id {id}): {why}"))
    }
}

/// Opens the ids and embeddings of a file.
fn open(path: &Path, ids: &str) -> std::result::Result<Texts, DataError> {
    let columns = [ids, EMBEDDINGS].map(str::to_owned);
    Texts::open_named(path, &columns, Some(true))
}

/// What is wrong with the file, and the fix.
fn without_path(error: DataError) -> String {
    match error {
        DataError::NoColumn { column, why, .. } if column == EMBEDDINGS => {
            format!("{why}; call the column with the lists of numbers '{EMBEDDINGS}'")
        }
        DataError::NoColumn { why, .. } => {
            format!("{why}; call the column of ids '{IDS}', or like the table's column")
        }
        DataError::Path { why, .. } | DataError::Missing { why, .. } => why,
        other => other.to_string(),
    }
}

/// Appends the numbers of a list.
fn push_numbers(list: &[u8], to: &mut Vec<f32>) -> std::result::Result<(), String> {
    for number in list.split(|byte| *byte == SEPARATOR).filter(|_| !list.is_empty()) {
        let text = String::from_utf8_lossy(number);
        let number = text.trim().parse().map_err(|_| format!("'{text}' is not a number"))?;
        to.push(number);
    }
    Ok(())
}

/// Numbers of the id columns that go into table `table`.
fn columns_of(
    config: &Config,
    layout: &Layout,
    table: &str,
) -> std::result::Result<Vec<usize>, String> {
    if config.features.is_empty() && table == EMBEDDING {
        return Ok((0..layout.id_names().len()).collect());
    }
    let mut columns = Vec::new();
    for feature in config.features.iter().filter(|feature| feature.table == table) {
        columns.extend(feature.columns_in(Some(layout))?);
    }
    Ok(columns)
}

/// The id column of the ids in a file, one of `columns`, and its name in the file.
fn column_in(
    path: &Path,
    layout: &Layout,
    columns: &[usize],
) -> std::result::Result<(usize, String), String> {
    if has_no_record(path, None) {
        return Err("it has no record: give ids and their embeddings, or leave it out".to_owned());
    }
    let has = |name: &str| match open(path, name).and_then(|mut of| of.next(&mut Vec::new())) {
        Ok(_) => Ok(true),
        Err(DataError::NoColumn { column, .. }) if column == name => Ok(false),
        Err(error) => Err(without_path(error)),
    };
    let names = layout.id_names();
    let mut named = Vec::new();
    for column in columns {
        if has(names[*column].0)? {
            named.push(*column);
        }
    }
    named.dedup();
    let all: Vec<&str> = columns.iter().map(|column| names[*column].0).collect();
    let all = all.join(", ");
    match named[..] {
        [column] => return Ok((column, names[column].0.to_owned())),
        [] => {}
        _ => return Err(format!("it has ids of several columns of the table ({all}): keep one")),
    }
    let begun = open(path, IDS).and_then(|mut texts| texts.next(&mut Vec::new()));
    begun.map_err(without_path)?;
    let key = |column: &usize| layout.key_of(*column, b"a");
    match columns {
        [first, others @ ..] if others.iter().all(|other| key(other) == key(first)) => {
            Ok((*first, IDS.to_owned()))
        }
        _ => Err(format!(
            "ids of the columns {all} are different even where they are spelled alike: name the \
             column '{IDS}' of the file like one of them"
        )),
    }
}
