//! Admission and expiry: each step decides which rows exist.
//!
//! The stage that trains decides this, in step order, from the row, the step, and a sketch that
//! only this stage touches. So tiers, lookahead and the number of threads have no effect.
//!
//! - **How.** Before a step reads its rows, it checks each. An expired row gets its initial value
//!   again. A row that doesn't exist needs admission; if refused, it is read with its initial value
//!   and not updated, so it leaves no trace. A mini-batch that only evaluates admits no row and
//!   changes nothing.

mod sketch;

use std::ops::Range;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_mem::Occurrence;

pub(super) use self::sketch::Sketch;
use super::working::TableRows;
use crate::dense::Dense;
use crate::life::{Admission, History, Life};
use crate::table_spec::TableSpec;

/// Name of the section, which is by key shard; earlier builds had one sketch for all keys.
const SKETCH: &str = "admission counts by key shard";

/// Steps without use after which importance has halved.
const IMPORTANCE_HALF_LIFE: f64 = 1000.0;
/// Impressions that a click counts for, as in the policy `sven`.
const CLICK_WEIGHT: f32 = 4.0;

/// Decides which rows of one table exist.
#[derive(Debug)]
pub(super) struct Admissions {
    life: Life,
    sketch: Option<Sketch>,
    /// Name of the sketch's section in checkpoints.
    section: String,
    /// Rows of the current mini-batch that were refused; empty if none was.
    refused: Vec<bool>,
    /// Rows that did not exist when the step began; empty if all did.
    absent: Vec<bool>,
}

impl Admissions {
    /// Admissions of `table`; `None` if rows exist forever from their first use.
    pub(super) fn new(table: &TableSpec, sketch_bytes: u64) -> Option<Self> {
        let life = table.life?;
        let counts = matches!(life.admission, Admission::After(_));
        let sketch = counts.then(|| Sketch::new(sketch_bytes, table.seed, table.id));
        let section = section(table);
        Some(Self { life, sketch, section, refused: Vec::new(), absent: Vec::new() })
    }

    /// Checks the rows that a mini-batch reads after `steps` steps.
    pub(super) fn look(
        &mut self,
        table: &TableSpec,
        rows: &mut TableRows<'_>,
        steps: u64,
        trains: bool,
    ) {
        self.refused.clear();
        self.absent.clear();
        self.sketch.iter_mut().for_each(Sketch::begin);
        let history = table.model_lanes()..table.row_lanes();
        for (row, key) in rows.request.distinct.iter().enumerate() {
            let was = History::read(&rows.held(row)[history.clone()]);
            if self.life.exists(was, steps) {
                continue;
            }
            if !trains {
                if was.used > 0 && !rows.is_elsewhere(row) {
                    rows.replace(row, |weights| table.initial_weights(*key, weights));
                }
                continue;
            }
            self.absent.resize(rows.len(), false);
            self.absent[row] = true;
            if was.used > 0 {
                table.initial_row(*key, rows.rows_mut().row(row));
            }
            if !self.admits(table, *key, rows.occurrences_of(row), steps) {
                self.refused.resize(rows.len(), false);
                self.refused[row] = true;
            }
        }
    }

    fn admits(&mut self, table: &TableSpec, key: Key, seen: usize, steps: u64) -> bool {
        match (self.life.admission, &mut self.sketch) {
            (Admission::After(times), Some(sketch)) => sketch.add(key, seen) >= times,
            (Admission::Chance(chance), _) => {
                Stream::of_admission(table.seed, table.id, key, steps).next_f64() < chance
            }
            _ => true,
        }
    }

    /// Undoes the current mini-batch, which is not trained after all.
    pub(super) fn undo(&mut self) {
        self.sketch.iter_mut().for_each(Sketch::undo);
    }

    /// Whether row `row` of the current mini-batch was refused.
    #[inline]
    pub(super) fn refused(&self, row: usize) -> bool {
        self.refused.get(row).is_some_and(|refused| *refused)
    }

    /// Whether row `row` of the current mini-batch did not exist when its step began.
    #[inline]
    pub(super) fn absent(&self, row: usize) -> bool {
        self.absent.get(row).is_some_and(|absent| *absent)
    }

    /// Adds the state of `shards` that a resumed run needs to `dense`.
    pub(super) fn save(&self, dense: &mut Dense, shards: Range<usize>) {
        if let Some(sketch) = &self.sketch {
            let lanes = sketch.of(shards).chunks_exact(4);
            let lanes = lanes.map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
            dense.sections.push((self.section.clone(), lanes.collect()));
        }
    }

    /// Restores the state from a checkpoint.
    pub(super) fn load(&mut self, dense: &Dense) -> Result<(), String> {
        let Some(sketch) = &mut self.sketch else { return Ok(()) };
        let found = dense.sections.iter().find(|(name, _)| *name == self.section);
        let (_, lanes) = found.ok_or_else(|| {
            format!(
                "has no section '{}' (earlier builds counted differently): continue with the build \
                 that wrote it, or train from the start",
                self.section
            )
        })?;
        let counts: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        if counts.len() != sketch.counts.len() {
            let (has, wants) = (counts.len(), sketch.counts.len());
            return Err(format!("has an {SKETCH} of {has} bytes, but this run has one of {wants}"));
        }
        sketch.counts = counts;
        Ok(())
    }
}

/// Name of the section of a table's sketch.
pub(super) fn section(table: &TableSpec) -> String {
    format!("{SKETCH} {}", table.name)
}

/// The history of a row after step `step` trained it; `occurrence` says how it occurred, and
/// receives its previous importance.
pub(super) fn trained(was: History, step: u64, occurrence: &mut Occurrence) -> History {
    let Occurrence { examples, positives, .. } = *occurrence;
    let idle = step.saturating_sub(u64::from(was.used)) as f64;
    // Only policies compare importance, so no bit of the model depends on this exponential.
    let fade = (-idle / IMPORTANCE_HALF_LIFE).exp2() as f32;
    occurrence.importance = was.importance * fade;
    let clicks = CLICK_WEIGHT * positives as f32;
    History {
        used: step as u32,
        examples: was.examples.saturating_add(examples),
        importance: occurrence.importance + clicks + (examples - positives) as f32,
    }
}
