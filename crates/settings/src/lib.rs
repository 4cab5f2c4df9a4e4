//! Settings: what a run is told, and the one table that says of each setting all there is to say.
//!
//! Why       Flags, files of settings, `stepwell config`, `docs/settings.md`, reports, checkpoints
//!           and the check of a resumed run all speak of the same settings; each learns of a new
//!           one from its entry in [`SETTINGS`] (of named tables, features and columns in
//!           [`TABLE_SETTINGS`], [`FEATURE_SETTINGS`] and [`COLUMN_SETTINGS`]), so that none is
//!           forgotten anywhere.
//! How       [`Config`] is what a run reads. An entry says where its setting lies there, its key,
//!           default, help and check, whether a resumed run must keep it ([`Kept`]), and when it
//!           changes nothing ([`idle_notes`]); how it is read and shown follows from its type.
//! Failure   One line that names the key and the mend.

#![forbid(unsafe_code)]

mod check;
mod columns;
mod config;
mod devices;
mod files;
mod find;
mod given;
mod idle;
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
    DensePlace, EMBEDDING, ExchangeKind, FeatureConfig, LifeConfig, MissingKind, ModelConfig,
    ModelKind, OptimizerConfig, OptimizerKind, PipelineConfig, PlaceKind, PresetKind, RanksConfig,
    RowsKind, SyncConfig, SynthConfig, TableConfig, TableRules, TierConfig, TransformKind,
    expanded,
};
pub use find::{Found, find, look_up};
pub use given::Given;
pub use idle::idle_notes;
pub use json::{from_json, to_json};
pub use kept::{model_settings, resumed_settings, unnamed_text};
pub use named::{FEATURE_SETTINGS, TABLE_SETTINGS};
pub use page::{default_text, page};
pub use setting::{Kept, Setting};
pub use table::SETTINGS;
pub use toml::{column_to_toml, to_toml};
pub use typed::{as_given, read_model, removed_value};
