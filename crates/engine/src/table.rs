//! What a table's rows look like and how they begin and change.

use stepwell_base::random::{self, Stream};
use stepwell_base::{Key, TableId, hash};
use stepwell_optim::{RowOptimizer, Storage, Weights};

use crate::{History, Life};

/// Name of the table that there is where none is named: its salt is 0.
pub const DEFAULT_TABLE: &str = "embedding";

/// Name of [`TableSpec::salt`].
pub const SALT_NAME: &str = "xxh3-64 of the table's name, 0 for 'embedding'; key xor salt";

/// A table: a set of rows of one shape under u64 keys.
///
/// A row's lanes, the same in every tier:
///
/// ```text
/// [ embedding: dim ][ wide weight: 0 or 1 ][ optimizer state ][ history: 0 or 3 ][ tag: 0 or 1 ]
/// ```
///
/// Each is an f32, but for numbers of the history and the tag, which are u32. The tag is there
/// where several tables share a store: it says whose row this is. Their keys are told apart by
/// the tables' salts, under which rows lie in every tier ([`TableSpec::salt`]).
///
/// With weights of 16 bits, two of them lie in each lane, as [`Storage`] draws it; all else is as
/// above:
///
/// ```text
/// [ embedding and wide weight: (dim + wide) / 2, rounded up ][ state ][ history ]
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// Number of the table; part of every row's initial value and of the digest.
    pub id: TableId,
    /// Name in messages and checkpoints.
    pub name: String,
    /// Weights of the embedding.
    pub dim: usize,
    /// First-order weights, which begin at zero.
    pub wide: usize,
    /// How rows keep their weights.
    pub storage: Storage,
    /// How rows change.
    pub optimizer: RowOptimizer,
    /// Embeddings begin uniform in [-range, range).
    pub init_range: f32,
    /// Seed of initial values.
    pub seed: u64,
    /// When rows come to exist and cease to; none for: from their first use, for ever.
    pub life: Option<Life>,
    /// Whether it shares a store with other tables, so that rows have a tag.
    pub shared: bool,
}

/// Neighbouring lanes of a row that are one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPart {
    /// `weights`, the name of a vector of the optimizer's state, or of a number of the history.
    pub name: &'static str,
    /// Lanes.
    pub lanes: usize,
    /// What lies in them: `f32`, `f16` or `bf16`, two in a lane, or `u32`.
    pub holds: &'static str,
}

impl TableSpec {
    /// Table `id` named `name`: embeddings of `dim` lanes in f32, which `optimizer` updates
    /// and which begin in [-0.01, 0.01), without first-order weights or history.
    pub fn new(id: u32, name: &str, dim: usize, optimizer: RowOptimizer) -> Self {
        Self {
            id: TableId(id),
            name: name.to_owned(),
            dim,
            wide: 0,
            storage: Storage::F32,
            optimizer,
            init_range: 0.01,
            seed: 0,
            life: None,
            shared: false,
        }
    }

    /// The parts of a row, in order: all of its lanes.
    pub fn parts(&self) -> Vec<RowPart> {
        let part = |name, lanes, holds| RowPart { name, lanes, holds };
        let mut parts = vec![part("weights", self.weight_lanes(), self.storage.name())];
        let rule = self.optimizer.rule();
        parts.extend(rule.state_names().iter().map(|name| part(name, self.weight_count(), "f32")));
        if rule.counts_steps() {
            parts.push(part("step", 1, "u32"));
        }
        if self.life.is_some() {
            let history = [("used", "u32"), ("examples", "u32"), ("importance", "f32")];
            parts.extend(history.map(|(name, holds)| part(name, 1, holds)));
        }
        if self.shared {
            parts.push(part("tag", 1, "u32"));
        }
        parts
    }

    /// What the keys of its rows are xored with in every tier, so that equal keys of several tables
    /// are different rows: the XXH3-64 of the table's name; 0 for [`DEFAULT_TABLE`].
    pub fn salt(&self) -> u64 {
        if self.name == DEFAULT_TABLE { 0 } else { hash::checksum(self.name.as_bytes()) }
    }

    /// What tells its rows from those of other tables in one store: the low half of its salt.
    pub fn tag(&self) -> u32 {
        self.salt() as u32
    }

    /// Whether `row`, which lies in a store of tables like this one, is of this table.
    pub fn owns(&self, row: &[f32]) -> bool {
        !self.shared || row[self.row_lanes() - 1].to_bits() == self.tag()
    }

    /// Whether rows of this table and of `other` may lie in one slab and one store: they are of the
    /// same parts and expire alike.
    pub fn may_share(&self, other: &Self) -> bool {
        let kind = |of: &Self| {
            let expiry = of.life.map(|life| life.expire_after);
            (of.dim, of.wide, of.storage, of.optimizer.rule().name(), expiry)
        };
        kind(self) == kind(other)
    }

    /// Weights of a row.
    pub fn weight_count(&self) -> usize {
        self.dim + self.wide
    }

    /// Lanes of the weights.
    pub fn weight_lanes(&self) -> usize {
        self.storage.lanes(self.weight_count())
    }

    /// Lanes that are the model: weights and optimizer state.
    pub fn model_lanes(&self) -> usize {
        self.weight_lanes() + self.optimizer.state_lanes(self.weight_count())
    }

    /// Lanes of the whole row.
    pub fn row_lanes(&self) -> usize {
        let history = if self.life.is_some() { History::LANES } else { 0 };
        self.model_lanes() + history + usize::from(self.shared)
    }

    /// The weights that a row has.
    #[inline]
    pub fn weights<'a>(&self, row: &'a [f32]) -> Weights<'a> {
        self.storage.view(row, self.weight_count())
    }

    /// What rounds the weights that step `step`, from 1, gives to the row of `key`; at step 0 its
    /// initial ones. A function of (seed, table, key, step) alone, invariant I2.
    #[inline]
    pub fn rounding(&self, key: Key, step: u64) -> Stream {
        Stream::of_rounding(self.seed, self.id, key, step)
    }

    /// The history that a row carries; that of a row without one is of a row that exists.
    pub fn history(&self, row: &[f32]) -> History {
        match self.life {
            Some(_) => History::read(&row[self.model_lanes()..]),
            None => History::default(),
        }
    }

    /// The last step that may train the rows: histories count no further.
    pub fn steps_max(&self) -> u64 {
        self.life.map_or(u64::MAX, |_| History::STEPS_MAX)
    }

    /// Whether `row`, which some tier has, exists after `steps` steps.
    pub fn exists(&self, row: &[f32], steps: u64) -> bool {
        self.life.is_none_or(|life| life.exists(self.history(row), steps))
    }

    /// Bytes of the whole row.
    pub fn row_bytes(&self) -> usize {
        self.row_lanes() * size_of::<f32>()
    }

    /// Writes the row that `key` has before its first update: f(seed, table, key), invariant I3.
    pub fn initial_row(&self, key: Key, row: &mut [f32]) {
        let (model, rest) = row.split_at_mut(self.model_lanes());
        let (lanes, state) = model.split_at_mut(self.weight_lanes());
        if self.storage == Storage::F32 {
            self.unrounded_weights(key, lanes);
        } else {
            let mut weights = vec![0.0; self.weight_count()];
            self.unrounded_weights(key, &mut weights);
            self.storage.encode(&weights, lanes, self.rounding(key, 0));
        }
        self.optimizer.init_state(state);
        rest.fill(0.0);
        if self.shared {
            rest[rest.len() - 1] = f32::from_bits(self.tag());
        }
    }

    /// The weights of [`TableSpec::initial_row`], as they are read.
    pub fn initial_weights(&self, key: Key, weights: &mut [f32]) {
        self.unrounded_weights(key, weights);
        self.storage.round(weights, self.rounding(key, 0));
    }

    fn unrounded_weights(&self, key: Key, weights: &mut [f32]) {
        random::initial_weights(self.seed, self.id, key, self.init_range, self.dim, weights);
    }
}

#[cfg(test)]
mod tests {
    use stepwell_optim::Rule;

    use super::*;

    fn table(storage: Storage, dim: usize, wide: usize) -> TableSpec {
        let optimizer = RowOptimizer::new(Rule::adagrad(0.1)).unwrap();
        TableSpec { wide, storage, seed: 5, ..TableSpec::new(3, "embedding", dim, optimizer) }
    }

    #[test]
    fn a_row_begins_as_its_initial_weights_are_read() {
        for storage in Storage::ALL {
            for (dim, wide) in [(0, 1), (1, 0), (4, 0), (4, 1), (5, 1), (16, 1)] {
                let table = table(storage, dim, wide);
                let mut row = vec![f32::NAN; table.row_lanes()];
                table.initial_row(Key(7), &mut row);
                let mut weights = vec![f32::NAN; dim + wide];
                table.initial_weights(Key(7), &mut weights);
                let mut read = vec![f32::NAN; dim + wide];
                table.weights(&row).copy_to(&mut read);
                assert_eq!(read, weights, "{storage:?} {dim} {wide}");
                assert!(weights[dim..].iter().all(|wide| *wide == 0.0));
                assert!(row[table.weight_lanes()..].iter().all(|state| *state == 0.0));
            }
        }
    }

    #[test]
    fn weights_of_16_bits_take_half_the_lanes_and_the_state_as_many() {
        let bytes = |storage, dim, wide| table(storage, dim, wide).row_bytes();
        assert_eq!(bytes(Storage::F32, 16, 1), 4 * (17 + 17));
        assert_eq!(bytes(Storage::F16, 16, 1), 4 * (9 + 17));
        assert_eq!(bytes(Storage::Bf16, 16, 0), 4 * (8 + 16));
        assert_eq!(bytes(Storage::F16, 0, 1), 4 * (1 + 1));
    }
}
