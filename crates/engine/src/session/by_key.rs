//! Rows read and written by key, between two steps.

use std::time::Duration;

use stepwell_base::{Key, random};

use super::Session;
use crate::group::group_of;
use crate::hierarchy::Next;
use crate::mini_batch::Purpose;
use crate::{Error, Result};

/// Maximum number of keys whose rows are loaded at once.
const KEYS_AT_ONCE: usize = 1 << 16;

impl Session {
    /// The weights of the rows of `keys` in table `table` (keys, weights), as an evaluation reads
    /// them: a row that doesn't exist yet has its initial values. Ends the current mini-batch;
    /// mini-batches fed ahead stay fed.
    ///
    /// # Errors
    /// A table that doesn't exist; the error of a stage.
    pub fn read(&mut self, table: usize, keys: &[Key]) -> Result<Vec<f32>> {
        self.check_table(table)?;
        let width = self.embeddings.tables()[table].weight_count();
        let mut weights = Vec::with_capacity(keys.len() * width);
        self.by_key(table, keys, Purpose::Evaluate, |session, _| {
            let Some(turn) = session.turn()? else { unreachable!("a mini-batch is current") };
            let mut rows = vec![0.0; turn.keys(table).len() * width];
            turn.copy_rows(table, &mut rows);
            for row in turn.occurrence_rows(table) {
                let start = *row as usize * width;
                weights.extend_from_slice(&rows[start..start + width]);
            }
            Ok(())
        })?;
        Ok(weights)
    }

    /// Overwrites the rows of `keys` in table `table` with `weights` (keys, weights), rounded to
    /// the table's storage, and resets their optimizer state. If a key occurs several times, its
    /// last row counts. Rows are created even if the table wouldn't admit their keys yet; their
    /// last use is the next step. Ends the current mini-batch; mini-batches fed ahead stay fed.
    ///
    /// # Errors
    /// A table that doesn't exist, another number of weights, or one that isn't finite in the
    /// table's storage: these change nothing. The error of a stage.
    pub fn write(&mut self, table: usize, keys: &[Key], weights: &[f32]) -> Result<()> {
        self.check_table(table)?;
        let width = self.embeddings.tables()[table].weight_count();
        let (given, wanted) = (weights.len(), keys.len() * width);
        if given != wanted {
            return Err(Error::Refused(format!(
                "{given} weights for {} rows of {width}: give {wanted}",
                keys.len()
            )));
        }
        let storage = self.embeddings.tables()[table].storage;
        // Also false for NaN.
        let fits = |weight: &f32| weight.abs() <= storage.largest();
        if let Some(at) = weights.iter().position(|weight| !fits(weight)) {
            let (row, weight) = (at / width, weights[at]);
            let (name, most) = (storage.name(), storage.largest());
            return Err(Error::Refused(format!(
                "the weight {weight} of row {row} (counted from 0) is not a finite number of \
                 {name}: give -{most:e} to {most:e}"
            )));
        }
        if keys.is_empty() {
            return Ok(());
        }
        self.note_written();
        self.by_key(table, keys, Purpose::Train, |session, first| {
            let Some(unit) = &mut session.out else { unreachable!("a mini-batch is current") };
            let [mini] = &mut unit.minis[..] else { unreachable!("one is fed at a time") };
            let groups = session.hierarchy.groups();
            let mut rows = session.embeddings.hold(mini.number, &mut mini.parts, groups, false)?;
            let mut distinct = vec![0.0; rows.keys(table).len() * width];
            let given = weights[first * width..].chunks_exact(width);
            for (row, weights) in rows.occurrence_rows(table).iter().zip(given) {
                let start = *row as usize * width;
                distinct[start..start + width].copy_from_slice(weights);
            }
            session.embeddings.put(&mut rows, table, &distinct);
            unit.trained = true;
            Ok(())
        })
    }

    /// Records that rows were written by key, on any rank, so that the next checkpoint isn't taken
    /// for an earlier one of the same step.
    pub fn note_written(&mut self) {
        [self.written] = random::drawn::<1>();
    }

    /// Calls `work` with the rows of some of `keys` at a time as the current mini-batch, and the
    /// position of the first of them.
    fn by_key(
        &mut self,
        table: usize,
        keys: &[Key],
        purpose: Purpose,
        mut work: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        let waiting = self.drain()?;
        let (_, group) = group_of(self.hierarchy.groups(), table);
        let at_once = group.slab.slots().clamp(1, KEYS_AT_ONCE);
        for (number, keys) in keys.chunks(at_once).enumerate() {
            let mini = self.preparer.of_keys(table, keys, purpose)?;
            self.feed_prepared(mini)?;
            let Next::Ready(()) = self.ready_within(Duration::MAX)? else {
                unreachable!("a mini-batch was fed")
            };
            work(self, number * at_once)?;
        }
        self.feed_again(waiting)
    }
}
