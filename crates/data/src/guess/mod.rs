//! What the columns of a file probably are, from its first records.
//!
//! A guess, to be corrected by who knows the data: it looks at names, at how values look, and at
//! how many there are. The statistics of numbers are those of the records that were looked at.

mod labels;
mod lists;
mod look;
mod path;
mod sample;
mod seen;

use std::path::Path;

use crate::DataError;
use crate::path_columns::{RENAME, path_columns};

pub use self::look::{Guess, Guessed};
use self::sample::Sample;

/// Guesses the columns of the file at `path`, including those in the path itself.
///
/// # Errors
/// A file that cannot be read, or that has no record.
pub fn guess(path: &Path) -> Result<Guess, DataError> {
    let sample = Sample::of(path)?;
    if sample.records == 0 {
        let why = "has no record to look at".to_owned();
        return Err(DataError::Path { path: path.to_owned(), why });
    }
    let mut guess = look::look(&sample);
    for column in path_columns(path) {
        let (name, guessed, note) = path::guessed(&column);
        match guess.columns.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, of_file, said)) => {
                *of_file = Guessed::Ignored;
                *said = format!("in the file and in its path: to use it, {RENAME}");
            }
            None => guess.columns.push((name, guessed, note)),
        }
    }
    Ok(guess)
}
