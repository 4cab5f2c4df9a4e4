//! Tables: layout, initialization and optimizer of their rows.

use stepwell_base::initial::Initial;
use stepwell_base::random::Stream;
use stepwell_base::{Key, TableId, hash};
use stepwell_optim::{Lanes, RowOptimizer, Storage, Weights};

use crate::life::{History, Life};

/// Name of the table in models that name none; its salt is 0.
pub const DEFAULT_TABLE: &str = "embedding";

/// Description of [`TableSpec::salt`] in checkpoints.
pub const SALT_NAME: &str = "xxh3-64 of the table's name, 0 for 'embedding'; key xor salt";

/// A table: a set of rows with one layout under u64 keys.
///
/// A row's lanes, the same in every tier:
///
/// ```text
/// [ embedding: dim ][ wide weight: 0 or 1 ][ optimizer state ][ history: 0 or 3 ][ tag: 0 or 1 ]
/// ```
///
/// Lanes are f32, except for u32 numbers in the history and the tag. The tag is present if several
/// tables share a store, and identifies the row's table. Salts keep the keys of such tables apart
/// in every tier ([`TableSpec::salt`]).
///
/// With 16-bit weights, each lane holds two of them, as [`Storage`] shows; the rest is as above:
///
/// ```text
/// [ embedding and wide weight: (dim + wide) / 2, rounded up ][ state ][ history ]
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// Number of the table; affects every row's initial value and the digest.
    pub id: TableId,
    /// Name in messages and checkpoints.
    pub name: String,
    /// Number of weights of the embedding.
    pub dim: usize,
    /// Number of first-order weights, which start at zero.
    pub wide: usize,
    /// Format of the weights.
    pub storage: Storage,
    /// Optimizer of the rows.
    pub optimizer: RowOptimizer,
    /// Distribution of initial embedding weights.
    pub initial: Initial,
    /// Seed of initial values.
    pub seed: u64,
    /// When rows start and cease to exist; `None`: from their first use on, forever.
    pub life: Option<Life>,
    /// Whether the table shares a store with others, so that its rows have a tag.
    pub shared: bool,
}

/// Adjacent lanes of a row with one meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPart {
    /// `weights`, or the name of a vector of optimizer state or of a number of the history.
    pub name: &'static str,
    /// Number of lanes.
    pub lanes: usize,
    /// Type of the values: `f32`, `f16` or `bf16` (two per lane), or `u32`.
    pub holds: &'static str,
}

impl TableSpec {
    /// Table `id` named `name`: embeddings of `dim` f32 lanes, updated by `optimizer` and
    /// initialized in [-0.01, 0.01), without first-order weights or history.
    pub fn new(id: u32, name: &str, dim: usize, optimizer: RowOptimizer) -> Self {
        Self {
            id: TableId(id),
            name: name.to_owned(),
            dim,
            wide: 0,
            storage: Storage::F32,
            optimizer,
            initial: Initial::Uniform { range: 0.01 },
            seed: 0,
            life: None,
            shared: false,
        }
    }

    /// The parts of a row, in order; they cover all lanes.
    pub fn parts(&self) -> Vec<RowPart> {
        let part = |name, lanes, holds| RowPart { name, lanes, holds };
        let mut parts = vec![part("weights", self.weight_lanes(), self.storage.name())];
        let rule = self.optimizer.rule();
        let state = rule.state();
        parts.extend(state.map(|of| part(of.name, of.lanes(self.lanes()).count(), "f32")));
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

    /// The hash xored with the table's keys in every tier, so that equal keys of different tables
    /// are different rows: the XXH3-64 of the table's name, or 0 for [`DEFAULT_TABLE`].
    pub fn salt(&self) -> u64 {
        if self.name == DEFAULT_TABLE { 0 } else { hash::checksum(self.name.as_bytes()) }
    }

    /// Identifies the table's rows in a store with other tables: the low half of the salt.
    pub fn tag(&self) -> u32 {
        self.salt() as u32
    }

    /// Whether `row`, from a store with tables of this layout, belongs to this table.
    pub fn owns(&self, row: &[f32]) -> bool {
        !self.shared || row[self.row_lanes() - 1].to_bits() == self.tag()
    }

    /// Whether rows of this table and of `other` may be in one slab and one store: they have the
    /// same parts and expire alike.
    pub fn may_share(&self, other: &Self) -> bool {
        let kind = |of: &Self| {
            let expiry = of.life.map(|life| life.expire_after);
            (of.dim, of.wide, of.storage, of.optimizer.rule().name(), expiry)
        };
        kind(self) == kind(other)
    }

    /// Numbers of weights of a row.
    pub fn lanes(&self) -> Lanes {
        Lanes { dim: self.dim, wide: self.wide }
    }

    /// Number of weights of a row.
    pub fn weight_count(&self) -> usize {
        self.dim + self.wide
    }

    /// Number of lanes of the weights.
    pub fn weight_lanes(&self) -> usize {
        self.storage.lanes(self.weight_count())
    }

    /// Number of lanes that are the model: weights and optimizer state.
    pub fn model_lanes(&self) -> usize {
        self.weight_lanes() + self.optimizer.state_lanes(self.lanes())
    }

    /// Number of lanes of the whole row.
    pub fn row_lanes(&self) -> usize {
        let history = if self.life.is_some() { History::LANES } else { 0 };
        self.model_lanes() + history + usize::from(self.shared)
    }

    /// The weights of `row`.
    #[inline]
    pub fn weights<'a>(&self, row: &'a [f32]) -> Weights<'a> {
        self.storage.view(row, self.weight_count())
    }

    /// Random stream for rounding the weights that step `step` (from 1) gives to the row of `key`;
    /// step 0 rounds the initial ones. A function of (seed, table, key, step) alone, invariant I2.
    #[inline]
    pub fn rounding(&self, key: Key, step: u64) -> Stream {
        Stream::of_rounding(self.seed, self.id, key, step)
    }

    /// The history of `row`; the default if the table keeps none.
    pub fn history(&self, row: &[f32]) -> History {
        match self.life {
            Some(_) => History::read(&row[self.model_lanes()..]),
            None => History::default(),
        }
    }

    /// The last step that may train the rows; histories can't count further.
    pub fn steps_max(&self) -> u64 {
        self.life.map_or(u64::MAX, |_| History::STEPS_MAX)
    }

    /// Whether `row`, found in some tier, exists after `steps` steps.
    pub fn exists(&self, row: &[f32], steps: u64) -> bool {
        self.life.is_none_or(|life| life.exists(self.history(row), steps))
    }

    /// Number of bytes of the whole row.
    pub fn row_bytes(&self) -> usize {
        self.row_lanes() * size_of::<f32>()
    }

    /// Writes the initial row of `key`: f(seed, table, key), invariant I3.
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

    /// Writes the weights of [`TableSpec::initial_row`], as a reader sees them.
    pub fn initial_weights(&self, key: Key, weights: &mut [f32]) {
        self.unrounded_weights(key, weights);
        self.storage.round(weights, self.rounding(key, 0));
    }

    fn unrounded_weights(&self, key: Key, weights: &mut [f32]) {
        self.initial.write(self.seed, self.id, key, self.dim, weights);
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
