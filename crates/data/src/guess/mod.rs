//! Guesses the columns of a file from its first records.
//!
//! The guess uses names, the form of values and their number; users may need to correct it.
//! Statistics of numbers cover only the records examined.

mod column_kind;
mod guessed;
mod labels;
mod lists;
mod path;
mod sample;
mod value_statistics;

use std::path::Path;

use crate::error::DataError;
use crate::path_columns::{RENAME, path_columns};

pub use self::guessed::{Guess, Guessed, GuessedColumn, Misfits};
use self::sample::Sample;

/// Guesses the columns of the file at `path`, including those in the path itself.
///
/// # Errors
/// A file that can't be read, or has no records.
pub fn guess(path: &Path) -> Result<Guess, DataError> {
    let sample = Sample::of(path)?;
    if sample.records == 0 {
        let why = "has no records".to_owned();
        return Err(DataError::Path { path: path.to_owned(), why });
    }
    let mut guess = column_kind::look(&sample);
    for column in path_columns(path) {
        let of_path = path::guessed(&column);
        match guess.columns.iter_mut().find(|of_file| of_file.name == of_path.name) {
            Some(of_file) => {
                of_file.kind = Guessed::Ignored;
                of_file.note = format!("in the file and in its path: to use it, {RENAME}");
            }
            None => guess.columns.push(of_path),
        }
    }
    Ok(guess)
}
