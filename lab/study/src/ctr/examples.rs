//! Labeled clicks in memory, in file order: the first four fifths for training, the rest for
//! testing.

use std::path::Path;

use stepwell_base::Key;
use stepwell_data::{Input, ReadOptions, Reader, Schema};

use crate::{Error, Result};

/// Examples of one set, with one key per slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clicks {
    /// 0 or 1. // (examples)
    pub(crate) labels: Vec<f32>,
    /// Dense features, transformed. // (examples, DENSE)
    pub(crate) dense: Vec<f32>,
    /// Keys. // (examples, SLOTS)
    pub(crate) keys: Vec<Key>,
}

/// Dense features of an example.
pub(crate) const DENSE: usize = Schema::CRITEO.dense;
/// Id columns of an example.
pub(crate) const SLOTS: usize = Schema::CRITEO.id_columns;

impl Clicks {
    /// Reads a file in Criteo's format, compressed or not. Returns the training examples, reduced
    /// to the first of `part` parts but at least `least`, and the test examples.
    ///
    /// # Errors
    /// A file that can't be read, has too few examples, or has tests with only one label.
    pub(crate) fn both(path: &Path, part: usize, least: usize) -> Result<[Self; 2]> {
        let wrong = |why| Err(Error::Clicks { path: path.to_owned(), why });
        let files = stepwell_data::resolve(&[path])?;
        let mut reader =
            Reader::open(Input::Files(files.into()), &ReadOptions::new(Schema::CRITEO))?;
        let (mut train, mut chunk) = (Self::default(), reader.chunk());
        while reader.next_chunk(&mut chunk)? {
            if chunk.keys.len() != chunk.len() * SLOTS {
                return wrong(format!(
                    "an example does not have {SLOTS} ids: give lines in Criteo's format"
                ));
            }
            train.labels.extend_from_slice(&chunk.labels);
            train.dense.extend_from_slice(&chunk.dense);
            train.keys.extend_from_slice(&chunk.keys);
        }
        let count = train.count();
        let test = train.split_off(count / 5 * 4);
        let _others = train.split_off(train.count() / part.max(1));
        if train.count() < least {
            let (found, lines) = (train.count(), least.div_ceil(4) * 5 * part.max(1));
            let or_fewer = if part > 1 { ", or lower --part" } else { "" };
            return wrong(format!(
                "has {found} examples to train on, but {least} are needed: give at least {lines} \
                 lines{or_fewer}"
            ));
        }
        let clicks = test.labels.iter().filter(|label| **label > 0.5).count();
        if clicks == 0 || clicks == test.count() {
            let why = "its last fifth, the test set, has only clicks or none: give lines with both";
            return wrong(why.to_owned());
        }
        Ok([train, test])
    }

    pub(crate) fn count(&self) -> usize {
        self.labels.len()
    }

    /// Splits off the examples from `first`.
    fn split_off(&mut self, first: usize) -> Self {
        Self {
            labels: self.labels.split_off(first),
            dense: self.dense.split_off(first * DENSE),
            keys: self.keys.split_off(first * SLOTS),
        }
    }
}
