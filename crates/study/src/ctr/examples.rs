//! Labelled clicks in memory, in file order: the first four fifths to train on, the rest to test.

use std::path::Path;

use stepwell_base::Key;
use stepwell_data::{Input, ReadOptions, Reader, Schema};

use crate::{Error, Result};

/// Examples of one set, a key for each slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Clicks {
    /// 0 or 1. // (examples)
    pub(super) labels: Vec<f32>,
    /// Dense features, transformed. // (examples, DENSE)
    pub(super) dense: Vec<f32>,
    /// Keys. // (examples, SLOTS)
    pub(super) keys: Vec<Key>,
}

/// Dense features of an example.
pub(super) const DENSE: usize = Schema::CRITEO.dense;
/// Id columns of an example.
pub(super) const SLOTS: usize = Schema::CRITEO.id_columns;

impl Clicks {
    /// Reads a file in Criteo's format, packed or not: those to train on, of which one in `part` is
    /// taken, and those to test with; at least `least` of the first.
    ///
    /// # Errors
    /// A file that cannot be read, or has too few examples.
    pub(super) fn both(path: &Path, part: usize, least: usize) -> Result<[Self; 2]> {
        let files = stepwell_data::resolve(&[path])?;
        let mut reader =
            Reader::open(Input::Files(files.into()), &ReadOptions::new(Schema::CRITEO))?;
        let (mut all, mut chunk) = (Self::default(), reader.chunk());
        while reader.next_chunk(&mut chunk)? {
            if chunk.keys.len() != chunk.len() * SLOTS {
                let why = format!("an example has other than {SLOTS} ids: give Criteo's lines");
                return Err(Error::Clicks { path: path.to_owned(), why });
            }
            all.labels.extend_from_slice(&chunk.labels);
            all.dense.extend_from_slice(&chunk.dense);
            all.keys.extend_from_slice(&chunk.keys);
        }
        let (count, to_train) = (all.count(), all.count() / 5 * 4);
        let test = all.some(to_train..count);
        let train = all.some(0..to_train / part.max(1));
        if train.count() < least || test.count() == 0 {
            let found = train.count();
            let why = format!("has {found} examples to train on: at least {least} are needed");
            return Err(Error::Clicks { path: path.to_owned(), why });
        }
        Ok([train, test])
    }

    pub(super) fn count(&self) -> usize {
        self.labels.len()
    }

    fn some(&self, of: std::ops::Range<usize>) -> Self {
        Self {
            labels: self.labels[of.clone()].to_vec(),
            dense: self.dense[of.start * DENSE..of.end * DENSE].to_vec(),
            keys: self.keys[of.start * SLOTS..of.end * SLOTS].to_vec(),
        }
    }
}
