//! Memory bounds of data about the past, for the capacity plan.

use stepwell_base::budget::Budget;

use super::admission::Sketch;
use super::stale::StaleRows;
use super::working::TableRows;
use crate::life::{Admission, Life};
use crate::table_spec::TableSpec;
use crate::tiers::{Load, TierPlan};

impl TierPlan {
    /// Adds the bounds of data about the past: versions of rows for stale reads, counts of keys.
    pub fn add_history(&self, tables: &[TableSpec], load: &Load, budget: &mut Budget) {
        // A checkpoint is written from a copy.
        let copies = 1 + u64::from(load.saves);
        let (mut versions, mut elsewhere, mut sketches) = (0, 0, 0u64);
        for ((table, of), sketch) in tables.iter().zip(&self.loads).zip(&load.sketch_bytes) {
            let (rows, width) = (load.mini_batch * of.ids_max, table.weight_count() as u64);
            versions += copies * StaleRows::bytes_max(load.staleness, rows, width);
            if load.staleness > 0 || table.life.is_some() {
                elsewhere += TableRows::elsewhere_bytes_max(rows, width);
            }
            if let Some(Life { admission: Admission::After(_), .. }) = table.life {
                let bytes = Sketch::bytes(*sketch).saturating_mul(copies);
                sketches = sketches.saturating_add(bytes);
            }
        }
        if elsewhere > 0 {
            budget.add("rows read elsewhere", elsewhere, "rows of a mini-batch");
        }
        if versions > 0 {
            budget.add("stale rows", versions, format!("{} steps", load.staleness));
        }
        if sketches > 0 {
            let copied = if load.saves { ", copied for a checkpoint" } else { "" };
            budget.add("admission", sketches, format!("rows.sketch{copied}"));
        }
    }
}
