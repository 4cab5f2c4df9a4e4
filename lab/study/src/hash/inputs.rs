//! Examples as sets of ids, and these sets hashed into fewer ids.

use std::collections::HashMap;
use std::path::Path;

use stepwell_base::random::Stream;
use stepwell_base::{Key, key_of};
use stepwell_data::OneSignHash;

use crate::Result;
use crate::ctr::examples::{Clicks, DENSE, SLOTS};

/// Ids of an example.
pub(super) const IDS: usize = SLOTS + DENSE;

/// Ids and labels of examples.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Examples {
    /// Keys. // (examples, IDS)
    keys: Vec<Key>,
    /// 0 or 1. // (examples)
    pub(super) labels: Vec<f32>,
    /// Examples to train on; the others are for testing.
    pub(super) train: usize,
}

impl Examples {
    /// Reads a file in Criteo's format, reduced to the first of `part` parts of the training
    /// examples, but at least `least` of them.
    ///
    /// # Errors
    /// A file that can't be read, has too few examples, or has tests with only one label.
    pub(super) fn read(path: &Path, part: usize, least: usize) -> Result<Self> {
        let [train, test] = Clicks::both(path, part, least)?;
        Ok(Self::of(&train, &test))
    }

    pub(super) fn of(train: &Clicks, test: &Clicks) -> Self {
        let names: Vec<_> = (1..=DENSE).map(|number| format!("I{number}")).collect();
        let mut keys = Vec::with_capacity((train.count() + test.count()) * IDS);
        for clicks in [train, test] {
            for (ids, dense) in
                clicks.keys.chunks_exact(SLOTS).zip(clicks.dense.chunks_exact(DENSE))
            {
                keys.extend_from_slice(ids);
                keys.extend(dense.iter().zip(&names).map(|(value, name)| interval(name, *value)));
            }
        }
        let labels = [&train.labels[..], &test.labels].concat();
        Self { keys, labels, train: train.count() }
    }

    pub(super) fn count(&self) -> usize {
        self.labels.len()
    }

    /// Number of test examples that are clicks.
    pub(super) fn test_clicks(&self) -> usize {
        self.labels[self.train..].iter().filter(|label| **label > 0.5).count()
    }

    /// All examples as rows of a model over ids that are hashed by `method`.
    pub(super) fn rows(&self, method: &Method) -> Rows {
        let mut rows = Rows::default();
        let (mut numbers, mut hashed) = (HashMap::new(), Vec::new());
        for (example, ids) in self.keys.chunks_exact(IDS).enumerate() {
            if example == self.train {
                rows.trained = rows.keys.len();
            }
            hashed.clear();
            method.append(ids, &mut hashed);
            for key in &hashed {
                let number = *numbers.entry(*key).or_insert_with(|| {
                    rows.keys.push(*key);
                    rows.keys.len() as u32 - 1
                });
                rows.of_examples.push(number);
            }
            rows.ends.push(rows.of_examples.len());
        }
        rows
    }
}

/// The id of a dense feature that is x: intervals of ln(1 + x)², the wider the larger x.
fn interval(name: &str, log1p: f32) -> Key {
    let number = (log1p * log1p) as u32;
    key_of(name, &number.to_le_bytes())
}

/// What becomes of an example's ids.
#[derive(Clone, Debug)]
pub(super) enum Method {
    /// They stay.
    All,
    /// OP+OSRP.
    Sign(OneSignHash),
    /// Another hash of each, drawn by the seed, modulo the number of outputs.
    Modulo {
        /// Number of possible outputs.
        outputs: u64,
        /// Seed of the hash.
        seed: u64,
    },
}

impl Method {
    /// Appends an example's hashed ids, each once.
    fn append(&self, ids: &[Key], hashed: &mut Vec<Key>) {
        match self {
            Self::All => hashed.extend_from_slice(ids),
            Self::Sign(hash) => hash.append(ids, &[], hashed),
            Self::Modulo { outputs, seed } => {
                let hash = |id: &Key| Stream::named(*seed, &id.0.to_le_bytes()).at(0);
                hashed.extend(ids.iter().map(|id| Key(hash(id) % outputs)));
                hashed.sort_unstable();
                hashed.dedup();
            }
        }
    }
}

/// Examples as numbers of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rows {
    /// Rows of all examples, example after example.
    of_examples: Vec<u32>,
    /// End of each example's rows in `of_examples`. // (examples)
    ends: Vec<usize>,
    /// Key of each row, in order of first occurrence.
    pub(super) keys: Vec<Key>,
    /// Rows that occur in training examples; they come first.
    pub(super) trained: usize,
}

impl Rows {
    /// Rows of an example.
    pub(super) fn of(&self, example: usize) -> &[u32] {
        let start = if example == 0 { 0 } else { self.ends[example - 1] };
        &self.of_examples[start..self.ends[example]]
    }

    /// Mean number of rows of an example.
    pub(super) fn mean(&self) -> f64 {
        self.of_examples.len() as f64 / self.ends.len() as f64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Drawn examples with `ids` ids in each column.
    pub(crate) fn examples(count: usize, train: usize, ids: u64) -> Examples {
        let mut stream = Stream::named(5, b"examples");
        let mut clicks = |count: usize| Clicks {
            labels: (0..count).map(|_| (stream.next_u64() % 2) as f32).collect(),
            dense: (0..count * DENSE).map(|_| stream.next_f32() * 4.0).collect(),
            keys: (0..count * SLOTS)
                .map(|at| Key((at % SLOTS) as u64 * 100 + stream.next_u64() % ids))
                .collect(),
        };
        Examples::of(&clicks(train), &clicks(count - train))
    }

    #[test]
    fn rows_are_the_hashed_ids_of_each_example() {
        let examples = examples(60, 40, 40);
        let bins = 32;
        let hash = OneSignHash::new(bins, 3).unwrap();
        let modulo = Method::Modulo { outputs: 2 * bins, seed: 3 };
        for method in [Method::All, Method::Sign(hash.clone()), modulo] {
            let rows = examples.rows(&method);
            let mut trained = 0;
            for (example, ids) in examples.keys.chunks_exact(IDS).enumerate() {
                let found: Vec<Key> =
                    rows.of(example).iter().map(|row| rows.keys[*row as usize]).collect();
                match &method {
                    Method::All => assert_eq!(found, ids),
                    Method::Sign(hash) => {
                        let mut expected = Vec::new();
                        hash.append(ids, &[], &mut expected);
                        assert_eq!(found, expected);
                    }
                    Method::Modulo { outputs, .. } => {
                        assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
                        assert!(found.iter().all(|key| key.0 < *outputs));
                        // The same ids give the same outputs.
                        let hashed = ids.iter().map(|id| {
                            let mut one = Vec::new();
                            method.append(&[*id], &mut one);
                            one[0]
                        });
                        let hashed: std::collections::BTreeSet<Key> = hashed.collect();
                        assert_eq!(found, Vec::from_iter(hashed));
                    }
                }
                if example < examples.train {
                    let most = rows.of(example).iter().max().map_or(0, |row| *row as usize + 1);
                    trained = most.max(trained);
                }
            }
            assert_eq!(rows.trained, trained, "{method:?}");
            assert!(rows.mean() <= IDS as f64 && rows.mean() > 10.0, "{method:?}");
        }
    }

    #[test]
    fn dense_features_become_intervals() {
        let of = |x: f32| interval("I3", x.ln_1p());
        assert_eq!(of(0.0), of(0.5));
        assert_eq!(of(1000.0), of(1010.0));
        assert_ne!(of(0.0), of(2.0));
        assert_ne!(of(10.0), of(1000.0));
        assert_ne!(of(0.0), interval("I4", 0.0));
    }
}
