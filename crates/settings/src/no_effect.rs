//! Reasons why a setting has no effect in a run.

use stepwell_device::Choice;

use crate::config::{Config, ModelKind, PlaceKind, RowOptimizerKind, TableConfig};

/// Returns why a setting of a `T` has no effect; `None` if it has one.
pub(crate) type Idle<T> = fn(&T) -> Option<&'static str>;

pub(crate) fn never<T>(_: &T) -> Option<&'static str> {
    None
}

/// Why rows are never lent.
pub(crate) fn in_one_mini_batch(config: &Config) -> Option<&'static str> {
    if config.ranks.count == 1 {
        return Some("there is only one rank");
    }
    (config.mini_batches_per_batch() <= 1)
        .then_some("a batch is one mini-batch, and rows are lent for one batch: raise data.batch")
}

/// Why no device has rows.
pub(crate) fn on_the_host(config: &Config) -> Option<&'static str> {
    (config.device == Choice::Host).then_some("no device is used")
}

pub(crate) fn without_tables_on_devices(config: &Config) -> Option<&'static str> {
    let by_use = config.tables.iter().any(|table| table.place == PlaceKind::Device);
    on_the_host(config).or((!by_use).then_some("no table has place = device"))
}

pub(crate) fn with_eval_paths(config: &Config) -> Option<&'static str> {
    (!config.data.eval_paths.is_empty()).then_some("data.eval_paths names the data to evaluate on")
}

pub(crate) fn without_eval_column(config: &Config) -> Option<&'static str> {
    config.data.eval_column.is_none().then_some("no data.eval_column is given")
}

pub(crate) fn with_columns(config: &Config) -> Option<&'static str> {
    (!config.columns.is_empty()).then_some("columns are given")
}

pub(crate) fn in_plain_columns(config: &Config) -> Option<&'static str> {
    matches!(config.layout(), Ok(None)).then_some("the data has Criteo's plain columns")
}

pub(crate) fn on_the_stream(config: &Config) -> Option<&'static str> {
    config.data.paths.is_empty().then_some("the built-in stream has no malformed lines")
}

pub(crate) fn on_data(config: &Config) -> Option<&'static str> {
    (!config.data.paths.is_empty()).then_some("data is given instead of the built-in stream")
}

pub(crate) fn in_lr(config: &Config) -> Option<&'static str> {
    (config.model.kind == ModelKind::Lr).then_some("lr has neither embeddings nor hidden layers")
}

pub(crate) fn for_initial_range(config: &Config) -> Option<&'static str> {
    let others = config.model.init_std.is_some() || config.model.init_value.is_some();
    in_lr(config).or(others.then_some("initial weights aren't uniform"))
}

pub(crate) fn without_hidden_layers(config: &Config) -> Option<&'static str> {
    match config.model.kind {
        ModelKind::Fm => Some("fm has no hidden layers"),
        ModelKind::Graph => Some("graph has the layers of model.layers"),
        _ => in_lr(config),
    }
}

pub(crate) fn outside_final_mlp(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::FinalMlp).then_some("only final_mlp has two streams")
}

pub(crate) fn outside_dcn(config: &Config) -> Option<&'static str> {
    let has_cross_layers = matches!(config.model.kind, ModelKind::Dcn | ModelKind::DcnV1);
    (!has_cross_layers).then_some("only dcn and dcn_v1 have cross layers")
}

pub(crate) fn outside_mask_net(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::MaskNet).then_some("only mask_net has masks")
}

pub(crate) fn without_experts(config: &Config) -> Option<&'static str> {
    let has_experts = matches!(config.model.kind, ModelKind::Mmoe | ModelKind::Ple);
    (!has_experts).then_some("only mmoe and ple have experts")
}

pub(crate) fn outside_din(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::Din).then_some("only din attends to sequences")
}

pub(crate) fn outside_two_tower(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::TwoTower).then_some("only two_tower has towers of items")
}

pub(crate) fn outside_graph(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::Graph).then_some("only graph has layers of its own")
}

pub(crate) fn outside_ple(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::Ple).then_some("only ple has levels and experts of labels")
}

pub(crate) fn outside_dlrm(config: &Config) -> Option<&'static str> {
    (config.model.kind != ModelKind::Dlrm).then_some("only dlrm has a bottom part")
}

pub(crate) fn with_a_life(config: &Config) -> Option<&'static str> {
    let life = &config.rows;
    let asks = life.admit_after > 1 || life.admit_probability < 1.0 || life.expire_after > 0;
    asks.then_some("admission or expiry needs it already")
}

pub(crate) fn without_counting(config: &Config) -> Option<&'static str> {
    (config.rows.admit_after <= 1).then_some("rows.admit_after is 1")
}

/// Expects a table with resolved settings.
pub(crate) fn table_with_a_life(table: &TableConfig) -> Option<&'static str> {
    let asks = table.admit_after > Some(1)
        || table.admit_probability.is_some_and(|chance| chance < 1.0)
        || table.expire_after > Some(0);
    asks.then_some("the table's admission or expiry needs it already")
}

/// Expects a table with resolved settings.
pub(crate) fn table_without_counting(table: &TableConfig) -> Option<&'static str> {
    (table.admit_after <= Some(1)).then_some("the table's admit_after is 1")
}

/// Expects a table with resolved settings.
pub(crate) fn table_of_frozen_rows(table: &TableConfig) -> Option<&'static str> {
    (table.optimizer == Some(RowOptimizerKind::Frozen)).then_some("the table's rows are frozen")
}

/// Expects a table with resolved settings.
pub(crate) fn table_without_embeddings(table: &TableConfig) -> Option<&'static str> {
    (table.dim == Some(0)).then_some("the table's dim is 0")
}

pub(crate) fn without_best(config: &Config) -> Option<&'static str> {
    without_checkpoints(config).or(without_evaluation(config))
}

pub(crate) fn without_evaluation(config: &Config) -> Option<&'static str> {
    (!config.evaluates()).then_some("nothing is evaluated")
}

pub(crate) fn without_checkpoints(config: &Config) -> Option<&'static str> {
    config.checkpoint.dir.is_none().then_some("no --checkpoint is given")
}
