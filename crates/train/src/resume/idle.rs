//! Settings that may differ in a resumed run, because they leave the model as it is.
//!
//! - **Why.** Writing out a default, or a setting that the model does not use, makes no other
//!   model.
//! - **How.** A setting counts if the table of settings says that it has an effect in one of both
//!   runs. Optimizers are compared as they are built, with their usual values filled in.

use std::collections::BTreeSet;

use serde_json::Value;
use stepwell_settings::{Config, from_json, idle_settings};

use crate::models::{dense_rule, regularization, row_optimizer, schedule};

/// Settings of optimizers and schedules with usual values, by the last part of their keys.
const TUNINGS: [&str; 11] = [
    "lr",
    "eps",
    "initial",
    "beta1",
    "beta2",
    "momentum",
    "beta",
    "l1",
    "l2",
    "weight_decay",
    "decay_factor",
];

/// Settings without effect on the model in either of two runs.
#[derive(Debug, Default)]
pub(super) struct Idle {
    keys: BTreeSet<String>,
    /// Whether the optimizers of both runs are equal.
    same_optimizers: bool,
}

impl Idle {
    /// Compares the settings of two runs by key. Without both, no setting is idle.
    pub(super) fn of(was: &Value, now: &Value) -> Self {
        let read = |settings: &Value| from_json(settings).ok().filter(|_| settings.is_object());
        let (Some(was), Some(now)) = (read(was), read(now)) else { return Self::default() };
        let keys = &idle_settings(&was) & &idle_settings(&now);
        Self { keys, same_optimizers: optimizers(&was) == optimizers(&now) }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        let is_tuning = || {
            let of_optimizer = key.starts_with("optim.") || key.starts_with("tables.");
            of_optimizer && key.rsplit('.').next().is_some_and(|last| TUNINGS.contains(&last))
        };
        self.keys.contains(key) || self.same_optimizers && is_tuning()
    }
}

/// The optimizers and schedules of a run, in a form that can be compared.
fn optimizers(config: &Config) -> impl PartialEq + use<> {
    let tables = config.tables_in_use();
    let rows = tables.iter().map(|table| row_optimizer(&table.rules(config)).ok());
    let (rows, of) = (rows.collect::<Vec<_>>(), &config.optim);
    let dense = (dense_rule(config), regularization(&of.dense));
    (rows, schedule(&of.rows), dense, schedule(&of.dense))
}
