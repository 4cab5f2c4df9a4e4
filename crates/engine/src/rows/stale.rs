//! Bounded staleness: rows as they were some steps ago.
//!
//! In mode `ssp(s)`, step t reads every row exactly as after step t - 1 - s (after step 0 if that
//! is negative), and updates the current row. Dense parameters are read in their current state.
//! Source: the bounded staleness of GeePS (section 2.2), made exact so that a run has one result:
//! there s is the maximum, here it is exact.
//! The step itself decides whether a row exists: a row that expired or is refused is read with its
//! initial value, whatever it was before.
//!
//! - **How.** Each of the last s steps saved the previous weights of the rows it updated. A row as
//!   after step t - 1 - s is the version that the oldest of these steps saved, or the current row
//!   if none did.
//!
//! - **Cost.** s look-ups per row and step, and a copy of the weights of each updated row.
//! - **Bounds.** s mini-batches of rows, which the capacity plan counts.

use std::collections::VecDeque;

use hashbrown::HashMap;
use stepwell_base::Key;

use super::admission::Admissions;
use super::working::TableRows;
use crate::dense::Dense;

/// Versions of rows before one step.
#[derive(Debug, Default)]
struct Before {
    /// Versions by table.
    tables: Vec<TableVersions>,
}

#[derive(Debug, Default)]
struct TableVersions {
    keys: Vec<Key>,
    places: HashMap<Key, u32>,
    weights: Vec<f32>, // (keys, weights)
}

impl TableVersions {
    fn new(keys: Vec<Key>, weights: Vec<f32>) -> Self {
        let places = keys.iter().copied().zip(0..).collect();
        Self { keys, places, weights }
    }
}

/// The versions that later steps will read, oldest first.
#[derive(Debug)]
pub(super) struct StaleRows {
    steps: VecDeque<Before>,
    /// Versions before the current step, until it ends.
    found: Option<Before>,
    staleness: usize,
    /// Number of weights of a row, by table.
    widths: Vec<usize>,
}

impl StaleRows {
    pub(super) fn new(staleness: usize, widths: Vec<usize>) -> Self {
        Self { steps: VecDeque::new(), found: None, staleness, widths }
    }

    /// Number of latest steps that a read doesn't see.
    pub(super) fn staleness(&self) -> usize {
        self.staleness
    }

    /// Maximum bytes, for mini-batches of `rows` rows of `width` weights.
    pub(super) fn bytes_max(staleness: u64, rows: u64, width: u64) -> u64 {
        let entry = (size_of::<(Key, u32)>() as u64 + 1) * 16 / 7;
        // Including the version that is being made.
        (staleness + u64::from(staleness > 0)) * rows * (8 + entry + width * 4)
    }

    /// Whether any step has older versions of rows.
    pub(super) fn looks_back(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Replaces the weights that are read by versions of the required age.
    pub(super) fn look_back(
        &self,
        tables: &mut [TableRows<'_>],
        admissions: &[Option<Admissions>],
    ) {
        if !self.looks_back() {
            return;
        }
        for (number, table) in tables.iter_mut().enumerate() {
            let width = self.widths[number];
            let admissions = admissions[number].as_ref();
            for (row, key) in table.request.distinct.iter().enumerate() {
                if admissions.is_some_and(|admissions| admissions.absent(row)) {
                    continue;
                }
                let versions = self.steps.iter().map(|before| &before.tables[number]);
                let mut found = versions.filter_map(|rows| Some((rows, *rows.places.get(key)?)));
                if let Some((rows, place)) = found.next() {
                    let start = place as usize * width;
                    let old = &rows.weights[start..start + width];
                    table.replace(row, |weights| weights.copy_from_slice(old));
                }
            }
        }
    }

    /// Saves the versions of rows that are about to be updated.
    pub(super) fn keep(&mut self, tables: &[TableRows<'_>]) {
        if self.staleness == 0 {
            return;
        }
        let mut before = Before::default();
        for (table, width) in tables.iter().zip(&self.widths) {
            let mut weights = vec![0.0; table.len() * width];
            for (row, weights) in weights.chunks_exact_mut(*width).enumerate() {
                table.held_weights(row).copy_to(weights);
            }
            before.tables.push(TableVersions::new(table.request.distinct.clone(), weights));
        }
        self.found = Some(before);
    }

    /// Ends the current step.
    pub(super) fn passed(&mut self) {
        let Some(before) = self.found.take() else { return };
        if self.steps.len() == self.staleness {
            self.steps.pop_front();
        }
        self.steps.push_back(before);
    }

    /// Discards the versions of the current step, which is not trained.
    pub(super) fn forget(&mut self) {
        self.found = None;
    }

    /// Adds the state that a resumed run needs to `dense`.
    pub(super) fn save(&self, dense: &mut Dense) {
        for (step, before) in self.steps.iter().enumerate() {
            for (table, rows) in before.tables.iter().enumerate() {
                let keys = rows.keys.iter().flat_map(|key| [key.0 as u32, (key.0 >> 32) as u32]);
                dense.sections.push((keys_name(step, table), keys.map(f32::from_bits).collect()));
                dense.sections.push((weights_name(step, table), rows.weights.clone()));
            }
        }
    }

    /// Restores versions of keys for which `own` holds from a checkpoint after `steps` steps.
    pub(super) fn load(
        &mut self,
        dense: &Dense,
        steps: u64,
        own: &dyn Fn(Key) -> bool,
    ) -> Result<(), String> {
        let section = |name: &str| {
            let found = dense.sections.iter().find(|(known, _)| known == name);
            found.map(|(_, values)| values)
        };
        self.steps.clear();
        for step in 0..(self.staleness as u64).min(steps) as usize {
            let mut before = Before::default();
            for (table, width) in self.widths.iter().enumerate() {
                let name = keys_name(step, table);
                let keys = section(&name).ok_or(format!("has no section '{name}'"))?;
                let keys: Vec<Key> = keys
                    .chunks_exact(2)
                    .map(|half| u64::from(half[0].to_bits()) | u64::from(half[1].to_bits()) << 32)
                    .map(Key)
                    .collect();
                let weights = section(&weights_name(step, table)).cloned().unwrap_or_default();
                if weights.len() != keys.len() * width {
                    return Err(format!("has {} stale weights", weights.len()));
                }
                let all = keys.into_iter().zip(weights.chunks_exact(*width));
                let (keys, weights): (Vec<Key>, Vec<&[f32]>) =
                    all.filter(|(key, _)| own(*key)).unzip();
                before.tables.push(TableVersions::new(keys, weights.concat()));
            }
            self.steps.push_back(before);
        }
        Ok(())
    }
}

pub(super) fn keys_name(step: usize, table: usize) -> String {
    format!("ssp keys {step} {table}")
}

pub(super) fn weights_name(step: usize, table: usize) -> String {
    format!("ssp weights {step} {table}")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use stepwell_base::SlotIndex;
    use stepwell_base::initial::Initial;
    use stepwell_base::random::Stream;
    use stepwell_base::slab::Slab;
    use stepwell_optim::{RowOptimizer, Rule};

    use super::*;
    use crate::table_spec::TableSpec;
    use crate::working_set::Part;

    fn table() -> TableSpec {
        let optimizer = RowOptimizer::new(Rule::sgd(1.0)).unwrap();
        let initial = Initial::Constant { value: 0.0 };
        TableSpec { initial, ..TableSpec::new(0, "counts", 1, optimizer) }
    }

    fn part(keys: &BTreeSet<u64>) -> Part {
        let mut part = Part::default();
        part.request.distinct = keys.iter().copied().map(Key).collect();
        part.rows.slots = keys.iter().map(|key| SlotIndex(*key as u32)).collect();
        part
    }

    /// Rows count the steps that updated them; reads must match a plain history.
    fn check(staleness: usize, resume_at: Option<usize>) {
        let (table, slab) = (table(), Slab::new(20, 2).unwrap());
        let mut stale = StaleRows::new(staleness, vec![1]);
        let mut history = vec![BTreeMap::<u64, f32>::new()];
        let mut dice = Stream::from_state(staleness as u64);
        for step in 1..60 {
            if resume_at == Some(step) {
                let mut dense = Dense::default();
                stale.save(&mut dense);
                stale = StaleRows::new(staleness, vec![1]);
                stale.load(&dense, step as u64 - 1, &|_| true).unwrap();
            }
            let keys: BTreeSet<u64> = (0..8).map(|_| dice.next_u64() % 20).collect();
            let mut part = part(&keys);
            let mut rows = [TableRows::new(&mut part, &slab, &table)];
            stale.look_back(&mut rows, &[None]);
            let as_of = &history[(step - 1usize).saturating_sub(staleness)];
            for (row, key) in keys.iter().enumerate() {
                let wanted = as_of.get(key).copied().unwrap_or(0.0);
                assert_eq!(rows[0].weights(row).get(0), wanted, "step {step}, key {key}");
            }
            // A step that is begun and abandoned leaves no trace.
            stale.keep(&rows);
            stale.forget();
            stale.keep(&rows);
            stale.passed();
            let mut now = history[step - 1].clone();
            for (row, key) in keys.iter().enumerate() {
                rows[0].rows_mut().row(row)[0] = step as f32;
                now.insert(*key, step as f32);
            }
            history.push(now);
        }
    }

    #[test]
    fn a_step_reads_rows_exactly_as_old_as_it_should() {
        for staleness in [0, 1, 2, 5, 70] {
            check(staleness, None);
        }
    }

    #[test]
    fn a_resumed_run_remembers_the_old_versions() {
        for (staleness, at) in [(1, 2), (3, 2), (3, 30), (5, 59)] {
            check(staleness, Some(at));
        }
    }
}
