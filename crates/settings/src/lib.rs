//! Settings of a run, and the one table that defines each of them.
//!
//! Why       Flags, settings files, `stepwell config`, `docs/settings.md`, reports, checkpoints and
//!           the check of a resumed run all use the same settings. All of them take a new setting
//!           from its entry in [`SETTINGS`] (for named tables, features and columns in
//!           [`TABLE_SETTINGS`], [`FEATURE_SETTINGS`] and [`COLUMN_SETTINGS`]), so none of them
//!           can forget it.
//! How       A run reads a [`Config`]. An entry has its setting's field there, key, default, help
//!           and check, whether a resumed run must keep it ([`Kept`]), and when it has no effect
//!           ([`idle_notes`]). The field's type defines how it is parsed and shown.
//! Failure   One line that names the key and the fix.

#![forbid(unsafe_code)]

mod check;
mod check_all;
mod columns;
mod config;
mod defaults;
mod devices;
mod files;
mod find;
mod given;
mod idle;
mod idle_notes;
mod json;
mod kept;
mod named;
mod optimizer;
mod page;
mod setting;
mod sync;
mod table;
mod tiers;
mod toml;
mod typed;

#[cfg(test)]
mod tests;

pub use columns::COLUMN_SETTINGS;
pub use config::{
    BestKind, CheckpointConfig, ColumnConfig, ColumnType, Config, DataConfig, DenseKind,
    DensePlace, EMBEDDING, ExchangeKind, FeatureConfig, MissingKind, ModelConfig, ModelKind,
    OptimConfig, OptimizerConfig, OptimizerKind, PipelineConfig, PlaceKind, PresetKind,
    RanksConfig, RowsConfig, RowsKind, SyncConfig, SynthConfig, TableConfig, TableRules,
    TierConfig, TrainConfig, TransformKind, expanded,
};
pub use find::{Found, find, look_up};
pub use given::Given;
pub use idle_notes::idle_notes;
pub use json::{from_json, to_json};
pub use kept::{model_settings, resumed_settings, unnamed_text};
pub use named::{FEATURE_SETTINGS, TABLE_SETTINGS};
pub use page::{default_text, page};
pub use setting::{Kept, Setting};
pub use table::SETTINGS;
pub use toml::{column_to_toml, to_toml};
pub use typed::{as_given, read_model, removed_value};
