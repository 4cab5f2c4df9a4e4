//! Describes tables to kernels.

use stepwell_base::Key;
use stepwell_kernels::{
    NONE, RULE_ADAGRAD, RULE_ADAM, RULE_SGD, STORAGE_BF16, STORAGE_F16, STORAGE_F32, UpdateTable,
};
use stepwell_optim::{Adagrad, Adam, Rule, Sgd, Storage};

use super::tier::SlabAt;
use crate::TableSpec;

/// Describes `rows` rows of `table` at `at`, without the places of lists.
pub(super) fn describe(table: &TableSpec, at: SlabAt, rows: usize) -> UpdateTable {
    let of_rule = match *table.optimizer.rule() {
        Rule::Sgd(Sgd { lr }) => {
            UpdateTable { rule: RULE_SGD, rate: lr as f32, ..UpdateTable::default() }
        }
        Rule::Adagrad(Adagrad { lr, eps, .. }) => UpdateTable {
            rule: RULE_ADAGRAD,
            rate: -lr as f32,
            eps: eps as f32,
            ..UpdateTable::default()
        },
        Rule::Adam(Adam { lr, beta1, beta2, eps }) => UpdateTable {
            rule: RULE_ADAM,
            lr,
            beta1,
            beta2,
            eps: eps as f32,
            ..UpdateTable::default()
        },
    };
    UpdateTable {
        slab: at.first_lane as u64,
        rows: rows as u32,
        row_lanes: at.row_lanes as u32,
        dim: table.dim as u32,
        wide: table.wide as u32,
        storage: storage(table.storage),
        bag_factors: NONE,
        rounding: NONE,
        skip: NONE,
        ..of_rule
    }
}

/// State of the random streams that round the rows of `keys` in step `step`, two words each; a
/// function of key and step.
pub(super) fn rounding(table: &TableSpec, keys: &[Key], step: u64) -> impl Iterator<Item = u32> {
    let states = keys.iter().map(move |key| table.rounding(*key, step).state());
    states.flat_map(|state| [state as u32, (state >> 32) as u32])
}

/// Code of the storage of weights for kernels.
pub(super) fn storage(storage: Storage) -> u32 {
    match storage {
        Storage::F32 => STORAGE_F32,
        Storage::F16 => STORAGE_F16,
        Storage::Bf16 => STORAGE_BF16,
    }
}
