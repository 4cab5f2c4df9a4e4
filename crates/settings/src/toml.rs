//! Settings as TOML.

use serde_json::Value;

use crate::all_settings::SETTINGS;
use crate::columns::COLUMN_SETTINGS;
use crate::config::{ColumnConfig, Config, LayerConfig};
use crate::layer_settings::LAYER_SETTINGS;
use crate::setting::Setting;
use crate::table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};

/// A settings file with all settings of `config`, each below its help as a comment. A setting
/// without a value is commented out, or left out for tables, features and columns.
pub fn to_toml(config: &Config) -> String {
    let mut text = String::new();
    let mut section = "";
    for setting in SETTINGS {
        let (of, name) = setting.key.rsplit_once('.').unwrap_or(("", setting.key));
        if of != section {
            text += &format!("\n[{of}]\n");
            section = of;
        }
        for line in wrapped(setting.help) {
            text += &format!("# {line}\n");
        }
        text += &match literal(&setting.get(config)) {
            Some(value) => format!("{name} = {value}\n"),
            None => format!("# {name} =\n"),
        };
        if setting.key == "model.kind" && !config.model.layers.is_empty() {
            text += &layers_to_toml(&config.model.layers);
        }
    }
    for table in &config.tables {
        text += &format!("\n[tables.{}]\n", table.name);
        put_given(&mut text, TABLE_SETTINGS, table);
    }
    for column in &config.columns {
        text += "\n";
        text += &column_to_toml(column);
    }
    for feature in &config.features {
        text += "\n[[features]]\n";
        put_given(&mut text, FEATURE_SETTINGS, feature);
    }
    text
}

/// The settings of a table or a feature that have a value.
fn put_given<T>(text: &mut String, settings: &[Setting<T>], part: &T) {
    for setting in settings {
        if let Some(value) = literal(&setting.get(part)) {
            *text += &format!("{} = {value}\n", setting.key);
        }
    }
}

/// Columns as TOML: their type, and the settings that differ from their defaults.
pub fn column_to_toml(column: &ColumnConfig) -> String {
    let (begun, mut text) = (ColumnConfig::default(), "[[columns]]\n".to_owned());
    for setting in COLUMN_SETTINGS {
        let value = setting.get(column);
        if (setting.key == "type" || value != setting.get(&begun))
            && let Some(value) = literal(&value)
        {
            text += &format!("{} = {value}\n", setting.key);
        }
    }
    text
}

/// Layers as TOML, a line each: name, kind, and the settings that differ from their defaults.
pub fn layers_to_toml(layers: &[LayerConfig]) -> String {
    let begun = LayerConfig::default();
    let mut text = "layers = [\n".to_owned();
    for layer in layers {
        let mut parts = Vec::new();
        for setting in LAYER_SETTINGS {
            let value = setting.get(layer);
            if (setting.key == "kind" || value != setting.get(&begun))
                && let Some(value) = literal(&value)
            {
                parts.push(format!("{} = {value}", setting.key));
            }
        }
        text += &format!("    {{ {} }},\n", parts.join(", "));
    }
    text + "]\n"
}

/// A value as TOML; `None` for null.
fn literal(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => ::toml::Value::from(text.as_str()).to_string(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().filter_map(literal).collect();
            format!("[{}]", values.join(", "))
        }
        other => other.to_string(),
    })
}

/// Most characters of a line of help.
const COLUMNS: usize = 96;

/// Wraps a text at spaces.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            word.clone_into(line);
        } else if line.len() + 1 + word.len() <= COLUMNS {
            *line += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
