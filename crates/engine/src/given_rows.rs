//! Rows that a new table begins with.

use std::collections::HashSet;

use stepwell_base::Key;
use stepwell_ssd::{KeyShardSet, Store};

use crate::Result;
use crate::life::History;
use crate::table_spec::TableSpec;

/// A table whose rows begin with given embeddings.
#[derive(Clone, Copy, Debug)]
pub struct GivenRows<'a> {
    /// The table.
    pub table: &'a TableSpec,
    /// Step of the model that the rows begin in.
    pub step: u64,
    /// Key shards to take; rows of others are skipped.
    pub key_shards: KeyShardSet,
}

impl GivenRows<'_> {
    /// Puts a row for each of `keys`, without the table's salt, into `store`. It has its embedding
    /// from `embeddings` (keys, dim); everything else in it is initial. A row with a history counts
    /// as used by the next step. Returns the place of a key that already has a row; no row is put
    /// then.
    ///
    /// # Errors
    /// If rows cannot be written.
    ///
    /// # Panics
    /// If `embeddings` has another length, or weights that [`GivenRows::check`] refuses.
    pub fn put_into(
        &self,
        store: &Store,
        keys: &[Key],
        embeddings: &[f32],
    ) -> Result<Option<usize>> {
        let Self { table, step, key_shards } = *self;
        assert_eq!(embeddings.len(), keys.len() * table.dim, "an embedding for each key");
        assert_eq!(self.check(embeddings), Ok(()), "weights are finite");
        let (mut own, mut used, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        let mut weights = vec![0.0; table.weight_count()];
        for (at, key) in keys.iter().enumerate() {
            let key = key.salted(table.salt());
            if !key_shards.contains_key(key) {
                continue;
            }
            if !seen.insert(key) || store.contains(key) {
                return Ok(Some(at));
            }
            let start = rows.len();
            rows.resize(start + table.row_lanes(), 0.0);
            let row = &mut rows[start..];
            table.initial_row(key, row);
            table.initial_weights(key, &mut weights);
            weights[..table.dim].copy_from_slice(&embeddings[at * table.dim..][..table.dim]);
            let lanes = &mut row[..table.weight_lanes()];
            table.storage.encode(&weights, lanes, table.rounding(key, step));
            let history = History { used: (step + 1) as u32, ..History::default() };
            if table.life.is_some() {
                history.write(&mut row[table.model_lanes()..]);
            }
            used.push(table.history(row).used);
            own.push(key);
        }
        store.put_many(&own, &used, bytemuck::cast_slice(&rows))?;
        Ok(None)
    }

    /// Refuses weights that are not finite numbers of the table's storage.
    ///
    /// # Errors
    /// Names the first one.
    pub fn check(&self, embeddings: &[f32]) -> std::result::Result<(), String> {
        let storage = self.table.storage;
        // Also false for NaN.
        let fits = |weight: &&f32| weight.abs() <= storage.largest();
        match embeddings.iter().find(|weight| !fits(weight)) {
            None => Ok(()),
            Some(weight) => Err(format!("{weight} is not a finite number of {}", storage.name())),
        }
    }
}
