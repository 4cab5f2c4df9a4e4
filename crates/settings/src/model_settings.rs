//! The settings that a model depends on, in the order in which digests of jobs cover them.

use crate::all_settings::SETTINGS;
use crate::columns::COLUMN_SETTINGS;
use crate::config::{ColumnConfig, Config, FeatureConfig, LayerConfig, ModelKind, TableConfig};
use crate::layer_settings::LAYER_SETTINGS;
use crate::setting::{Kept, Setting};
use crate::table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};

/// Keys that are at the end of the list instead of their place in the table. Digests of the list
/// identify jobs, so it must stay as it was when their checkpoints were written.
const LAST: [&str; 7] = [
    "model.cross_layers",
    "model.bottom",
    "rows.sketch",
    "synth.examples",
    "synth.vocab_scale",
    "data.streams",
    "data.shuffle",
];

/// Keys and values of the settings that the bits of the model depend on. Settings of tables,
/// features, columns and layers come last, if there are any.
pub fn model_settings(config: &Config) -> Vec<(String, String)> {
    let mut kept: Vec<(&str, String)> = SETTINGS
        .iter()
        .filter_map(|setting| Some((setting.key, setting.kept_in(config)?)))
        .collect();
    kept.sort_by_key(|(key, _)| LAST.iter().position(|last| last == key).map(|place| place + 1));
    let mut all: Vec<_> = kept.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    of_tables(config, &mut all);
    of_features(config, &mut all);
    of_columns(config, &mut all);
    of_layers(config, &mut all);
    all
}

/// Keys of the settings that define positions in the data, which a resumed run must keep, too.
pub fn resumed_settings() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter(|setting| setting.kept == Kept::Resumed).map(|setting| setting.key)
}

/// The default of a setting of the run or of columns that checkpoints name only if it differs from
/// its default; `None` for other settings.
pub fn unnamed_text(key: &str) -> Option<String> {
    let is = |setting: &&Setting| setting.key == key && setting.kept == Kept::BeyondDefault;
    if let Some(setting) = SETTINGS.iter().find(is) {
        return Some((setting.text)(&Config::default()));
    }
    let name = key.strip_prefix("columns.")?.split_once('.')?.1;
    let is = |of: &&Setting<ColumnConfig>| of.key == name && of.kept == Kept::BeyondDefault;
    let setting = COLUMN_SETTINGS.iter().find(is)?;
    Some((setting.text)(&ColumnConfig::default()))
}

/// Lists tables with all inherited values. Without features, a table equal to the default is left
/// out, as it does not change the model.
fn of_tables(config: &Config, all: &mut Vec<(String, String)>) {
    let by_default = TableConfig::default().rules(config);
    for table in config.tables_in_use() {
        if config.features.is_empty() && table.rules(config) == by_default {
            continue;
        }
        let resolved = table.resolved(config);
        all.extend(
            TABLE_SETTINGS
                .iter()
                .filter_map(|setting| Some((table.key(setting.key), setting.kept_in(&resolved)?))),
        );
    }
}

fn of_features(config: &Config, all: &mut Vec<(String, String)>) {
    for (feature, number) in config.features.iter().zip(1..) {
        all.extend(FEATURE_SETTINGS.iter().filter_map(|setting| {
            Some((FeatureConfig::key(number, setting.key), setting.kept_in(feature)?))
        }));
    }
}

fn of_columns(config: &Config, all: &mut Vec<(String, String)>) {
    for (column, number) in config.columns.iter().zip(1..) {
        all.extend(COLUMN_SETTINGS.iter().filter_map(|setting| {
            Some((ColumnConfig::key(number, setting.key), setting.kept_in(column)?))
        }));
    }
}

fn of_layers(config: &Config, all: &mut Vec<(String, String)>) {
    if config.model.kind != ModelKind::Graph {
        return;
    }
    for (layer, number) in config.model.layers.iter().zip(1..) {
        all.extend(LAYER_SETTINGS.iter().filter_map(|setting| {
            Some((LayerConfig::key(number, setting.key), setting.kept_in(layer)?))
        }));
    }
}
