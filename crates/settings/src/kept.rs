//! Which settings make a model what it is, in the order in which digests of jobs take them.

use crate::columns::COLUMN_SETTINGS;
use crate::config::{ColumnConfig, Config, FeatureConfig, TableConfig};
use crate::named::{FEATURE_SETTINGS, TABLE_SETTINGS};
use crate::setting::{Kept, Setting};
use crate::table::SETTINGS;

/// Keys whose place in the list is its end, not that of the table. Jobs are told apart by digests
/// of the list: it must stay as it was when their checkpoints were written.
const LAST: [&str; 7] = [
    "model.cross_layers",
    "model.bottom",
    "rows.sketch",
    "synth.examples",
    "synth.vocab_scale",
    "data.streams",
    "data.shuffle",
];

/// Settings on which the bits of the model depend, by key; those of tables, features and columns
/// come after all others, and where there are none the list is that of a model without them.
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
    all
}

/// Keys of settings by which places in the data count: a resumed run keeps them, too.
pub fn resumed_settings() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter(|setting| setting.kept == Kept::Resumed).map(|setting| setting.key)
}

/// What a setting of the whole run was, as checkpoints name it, where they name it beyond its
/// default alone and did not.
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

/// Tables as all settings together have them: what says no other than the default is no other
/// model.
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
