//! Settings of a run, and the one table that defines each of them.
//!
//! - **Why.** Flags, settings files, `stepwell config`, `docs/settings.md`, reports, checkpoints
//!   and the check of a resumed run all use the same settings. All of them take a new setting from
//!   its entry in [`SETTINGS`] (for named tables, features, columns and layers in
//!   [`TABLE_SETTINGS`], [`FEATURE_SETTINGS`], [`COLUMN_SETTINGS`] and [`LAYER_SETTINGS`]), so none
//!   of them can forget it.
//! - **How.** A run reads a [`Config`]. An entry has its setting's field there, key, default, help
//!   and check, whether a resumed run must keep it ([`Kept`]), and when it has no effect
//!   ([`idle_notes`]). The field's type defines how it is parsed and shown.
//! - **Failure.** One line that names the key and the fix.

#![forbid(unsafe_code)]

mod all_settings;
mod as_given;
mod check;
mod check_all;
mod columns;
mod config;
mod defaults;
mod devices;
mod docs_page;
mod files;
mod idle_notes;
mod json;
mod layer_settings;
mod look_up;
mod model_settings;
mod models;
mod no_effect;
mod objective;
mod optimizer;
mod rates;
mod schedule;
mod setting;
mod setting_types;
mod sync;
mod table_settings;
mod tiers;
mod toml;

#[cfg(test)]
mod tests;

pub use all_settings::SETTINGS;
pub use as_given::Given;
pub use columns::COLUMN_SETTINGS;
pub use config::{
    BestKind, CheckpointConfig, ColumnConfig, ColumnType, Config, DataConfig, DenseKind,
    DensePlace, EMBEDDING, ExchangeKind, FeatureConfig, LayerConfig, LayerKind, MissingKind,
    ModelConfig, ModelKind, OptimConfig, OptimizerConfig, OptimizerKind, PipelineConfig, PlaceKind,
    PresetKind, RanksConfig, RowOptimizerConfig, RowOptimizerKind, RowsConfig, RowsKind,
    ScheduleKind, SyncConfig, SynthConfig, TableConfig, TableRules, TierConfig, TrainConfig,
    TransformKind, expanded,
};
pub use docs_page::{default_text, page};
pub use idle_notes::{idle_notes, idle_settings};
pub use json::{from_json, to_json};
pub use layer_settings::LAYER_SETTINGS;
pub use look_up::{Found, find, look_up};
pub use model_settings::{model_settings, resumed_settings, unnamed_text};
pub use setting::{Kept, Setting};
pub use setting_types::{as_given, read_model, removed_value};
pub use table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};
pub use toml::{column_to_toml, layers_to_toml, to_toml};
