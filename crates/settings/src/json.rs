//! All settings as one JSON object, for reports and checkpoints.

use serde_json::{Map, Value, json};

use crate::all_settings::SETTINGS;
use crate::as_given::Given;
use crate::columns::COLUMN_SETTINGS;
use crate::config::{ColumnConfig, Config, FeatureConfig, LayerConfig};
use crate::layer_settings::LAYER_SETTINGS;
use crate::look_up::{look_up, numbered};
use crate::table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};

/// Key of the names of all named tables, in their order; missing if there are none.
const TABLES: &str = "tables";

/// All settings of `config` as one flat JSON object.
pub fn to_json(config: &Config) -> Value {
    let run = SETTINGS.iter().map(|setting| (setting.key.to_owned(), setting.get(config)));
    let mut all: Map<String, Value> = run.collect();
    if !config.tables.is_empty() {
        let names: Vec<&String> = config.tables.iter().map(|table| &table.name).collect();
        all.insert(TABLES.to_owned(), json!(names));
    }
    for table in &config.tables {
        all.extend(TABLE_SETTINGS.iter().map(|of| (table.key(of.key), of.get(table))));
    }
    for (feature, number) in config.features.iter().zip(1..) {
        let key = |of: &str| FeatureConfig::key(number, of);
        all.extend(FEATURE_SETTINGS.iter().map(|of| (key(of.key), of.get(feature))));
    }
    for (column, number) in config.columns.iter().zip(1..) {
        let key = |of: &str| ColumnConfig::key(number, of);
        all.extend(COLUMN_SETTINGS.iter().map(|of| (key(of.key), of.get(column))));
    }
    for (layer, number) in config.model.layers.iter().zip(1..) {
        let key = |of: &str| LayerConfig::key(number, of);
        all.extend(LAYER_SETTINGS.iter().map(|of| (key(of.key), of.get(layer))));
    }
    Value::Object(all)
}

/// Reads settings that [`to_json`] wrote.
///
/// # Errors
/// If this build does not know or accept one.
pub fn from_json(value: &Value) -> Result<Config, String> {
    let mut config = Config::default();
    for name in value[TABLES].as_array().into_iter().flatten() {
        config.table_mut(&text_of(name))?;
    }
    let all = value.as_object().into_iter().flatten();
    let mut pairs: Vec<_> = all.filter(|(key, _)| *key != TABLES).collect();
    // An object may have features.10 before features.2.
    pairs.sort_by_key(|(key, _)| number_of(key));
    for (key, value) in pairs {
        let setting = look_up(key)?;
        match value {
            Value::Array(values) => {
                let parts: Vec<String> = values.iter().map(text_of).collect();
                setting.give(&mut config, Given::List(&parts))?;
            }
            value => setting.set(&mut config, &text_of(value))?,
        }
    }
    Ok(config)
}

/// The number of the feature, the columns or the layer in a setting's key.
fn number_of(key: &str) -> Option<usize> {
    let parts = ["features.", "columns.", "model.layers."];
    let rest = parts.iter().find_map(|part| key.strip_prefix(part))?;
    numbered(rest.split('.').next()?)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
