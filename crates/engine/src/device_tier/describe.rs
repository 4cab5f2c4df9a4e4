//! Describes tables to kernels.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_device::RowsAt;
use stepwell_kernels::{
    NONE, RULE_ADAGRAD, RULE_ADAM, RULE_FTRL, RULE_MOMENTUM, RULE_SGD, STORAGE_BF16, STORAGE_F16,
    STORAGE_F32, UpdateTable,
};
use stepwell_optim::{Adagrad, Adam, Ftrl, Momentum, Regularization, RowRule, Rule, Sgd, Storage};

use crate::table_spec::TableSpec;

/// Where the slots of a table group are on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabAt {
    /// First lane of the first row.
    pub(crate) first_lane: usize,
    pub(crate) row_lanes: usize,
}

impl SlabAt {
    /// The rows in `slots`, for the check of order.
    pub(crate) fn rows(&self, slots: Arc<[u32]>) -> RowsAt {
        let lane = size_of::<f32>();
        RowsAt { start: self.first_lane * lane, row_bytes: self.row_lanes * lane, slots }
    }
}

/// Sizes of a list of tables to update that was sent to a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentTables {
    /// Number of words of the tables' lists.
    pub(crate) words: usize,
    /// Number of tables, and of work items over all of them.
    pub(crate) tables: usize,
    pub(crate) items: u32,
    /// Number of rows, over all tables, that blocks of threads update.
    pub(crate) frequent: u32,
    /// Whether any tables' rows count their steps.
    pub(crate) counts: bool,
}

/// Whether rows of any of `tables` count their steps.
pub(crate) fn counts(tables: &[UpdateTable]) -> bool {
    tables.iter().any(|table| table.rule == RULE_ADAM)
}

/// Whether a kernel has the table's optimizer. If not, the host updates its rows.
pub(crate) fn has_kernel(table: &TableSpec) -> bool {
    let Regularization { clip_norm, max_norm, .. } = table.optimizer.regularization();
    clip_norm == 0.0 && max_norm == 0.0 && of_rule(table.optimizer.rule()).is_some()
}

/// The fields of a rule; `None` if no kernel has it.
fn of_rule(rule: &RowRule) -> Option<UpdateTable> {
    let none = UpdateTable::default();
    Some(match *rule {
        RowRule::PerLane(Rule::Sgd(Sgd { lr })) => {
            UpdateTable { rule: RULE_SGD, rate: lr as f32, ..none }
        }
        RowRule::PerLane(Rule::Momentum(Momentum { lr, momentum: beta2 })) => {
            UpdateTable { rule: RULE_MOMENTUM, rate: lr as f32, beta2, ..none }
        }
        RowRule::PerLane(Rule::Adagrad(Adagrad { lr, eps, .. })) => {
            UpdateTable { rule: RULE_ADAGRAD, rate: -lr as f32, eps: eps as f32, ..none }
        }
        RowRule::PerLane(Rule::Adam(Adam { lr, beta1, beta2, eps })) => {
            UpdateTable { rule: RULE_ADAM, lr, beta1, beta2, eps: eps as f32, ..none }
        }
        RowRule::Ftrl(Ftrl { lr, beta, l1, .. }) => {
            let (rate, eps, l1) = (lr as f32, beta as f32, l1 as f32);
            UpdateTable { rule: RULE_FTRL, rate, eps, l1, ..none }
        }
        RowRule::CfSgd(_)
        | RowRule::RowWiseAdagrad(_)
        | RowRule::RowWiseAdam(_)
        | RowRule::Frozen => return None,
    })
}

/// Describes `rows` rows of `table` at `at`, without the places of lists.
pub(crate) fn describe(table: &TableSpec, at: SlabAt, rows: usize) -> UpdateTable {
    let optimizer = &table.optimizer;
    let Some(of_rule) = of_rule(optimizer.rule()) else {
        unreachable!("the host updates rows of other rules");
    };
    let regularization = optimizer.regularization();
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
        l2: regularization.l2 as f32,
        keep: regularization.keep(optimizer.lr()),
        regularized: u32::from(regularization != Regularization::default()),
        ..of_rule
    }
}

/// State of the random streams that round the rows of `keys` in step `step`, two words each; a
/// function of key and step.
pub(crate) fn rounding(table: &TableSpec, keys: &[Key], step: u64) -> impl Iterator<Item = u32> {
    let states = keys.iter().map(move |key| table.rounding(*key, step).state());
    states.flat_map(|state| [state as u32, (state >> 32) as u32])
}

/// Code of the storage of weights for kernels.
pub(crate) fn storage(storage: Storage) -> u32 {
    match storage {
        Storage::F32 => STORAGE_F32,
        Storage::F16 => STORAGE_F16,
        Storage::Bf16 => STORAGE_BF16,
    }
}
