//! Look-up of a setting by its key.

use serde_json::Value;

use crate::all_settings::SETTINGS;
use crate::as_given::Given;
use crate::columns::COLUMN_SETTINGS;
use crate::config::{ColumnConfig, Config, FeatureConfig, LayerConfig, TableConfig, check_name};
use crate::layer_settings::LAYER_SETTINGS;
use crate::setting::{Kept, Setting};
use crate::table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};

/// Least similarity, in millionths, of a key that is suggested instead of an unknown one.
const LIKENESS_MIN: u64 = 750_000;

/// The setting that a key names.
#[derive(Debug)]
pub enum Found {
    /// A setting of the run, with the name by which it was given.
    Run(&'static str, &'static Setting),
    /// A setting of the table with this name, which need not exist yet.
    Table(String, &'static Setting<TableConfig>),
    /// A setting of the feature with this number, counted from 1; it may be the next one.
    Feature(usize, &'static Setting<FeatureConfig>),
    /// A setting of the columns with this number, counted from 1; they may be the next ones.
    Column(usize, &'static Setting<ColumnConfig>),
    /// A setting of the layer with this number, counted from 1; it may be the next one.
    Layer(usize, &'static Setting<LayerConfig>),
}

impl Found {
    /// The whole key as given.
    pub fn key(&self) -> String {
        match self {
            Self::Run(name, _) => (*name).to_owned(),
            Self::Table(name, setting) => TableConfig::named(name).key(setting.key),
            Self::Feature(number, setting) => FeatureConfig::key(*number, setting.key),
            Self::Column(number, setting) => ColumnConfig::key(*number, setting.key),
            Self::Layer(number, setting) => LayerConfig::key(*number, setting.key),
        }
    }

    /// Parses `text` into `config`.
    ///
    /// # Errors
    /// One line with key, text and the fix.
    pub fn set(&self, config: &mut Config, text: &str) -> Result<(), String> {
        self.give(config, Given::Text(text))
    }

    /// Parses a given value into `config`; adds a missing table, or the next feature, columns or
    /// layer.
    ///
    /// # Errors
    /// As [`Found::set`].
    pub fn give(&self, config: &mut Config, given: Given<'_>) -> Result<(), String> {
        let key = self.key();
        match self {
            Self::Run(_, setting) => setting.give_as(&key, config, given),
            Self::Table(name, setting) => setting.give_as(&key, config.table_mut(name)?, given),
            Self::Feature(number, setting) => {
                setting.give_as(&key, config.feature_mut(*number)?, given)
            }
            Self::Column(number, setting) => {
                setting.give_as(&key, config.column_mut(*number)?, given)
            }
            Self::Layer(number, setting) => {
                setting.give_as(&key, config.layer_mut(*number)?, given)
            }
        }
    }

    /// Whether the setting affects the bits of the model.
    pub fn kept(&self) -> Kept {
        match self {
            Self::Run(_, setting) => setting.kept,
            Self::Table(_, setting) => setting.kept,
            Self::Feature(_, setting) => setting.kept,
            Self::Column(_, setting) => setting.kept,
            Self::Layer(_, setting) => setting.kept,
        }
    }

    /// The value in `config`; null if it has no such table, feature, columns or layer.
    pub fn get(&self, config: &Config) -> Value {
        match self {
            Self::Run(_, setting) => setting.get(config),
            Self::Table(name, setting) => {
                table(config, name).map_or(Value::Null, |table| setting.get(table))
            }
            Self::Feature(number, setting) => {
                feature(config, *number).map_or(Value::Null, |feature| setting.get(feature))
            }
            Self::Column(number, setting) => {
                column(config, *number).map_or(Value::Null, |column| setting.get(column))
            }
            Self::Layer(number, setting) => {
                layer(config, *number).map_or(Value::Null, |layer| setting.get(layer))
            }
        }
    }

    /// Refuses a value in `config` that is wrong regardless of other settings.
    ///
    /// # Errors
    /// One line with key, value and the fix.
    pub fn check_alone(&self, config: &Config) -> Result<(), String> {
        let key = self.key();
        match self {
            Self::Run(_, setting) => setting.check_as(&key, config),
            Self::Table(name, setting) => {
                table(config, name).map_or(Ok(()), |table| setting.check_as(&key, table))
            }
            Self::Feature(number, setting) => {
                feature(config, *number).map_or(Ok(()), |feature| setting.check_as(&key, feature))
            }
            Self::Column(number, setting) => {
                column(config, *number).map_or(Ok(()), |column| setting.check_as(&key, column))
            }
            Self::Layer(number, setting) => {
                layer(config, *number).map_or(Ok(()), |layer| setting.check_as(&key, layer))
            }
        }
    }
}

fn column(config: &Config, number: usize) -> Option<&ColumnConfig> {
    config.columns.get(number.checked_sub(1)?)
}

fn layer(config: &Config, number: usize) -> Option<&LayerConfig> {
    config.model.layers.get(number.checked_sub(1)?)
}

fn table<'a>(config: &'a Config, name: &str) -> Option<&'a TableConfig> {
    config.tables.iter().find(|table| table.name == name)
}

fn feature(config: &Config, number: usize) -> Option<&FeatureConfig> {
    config.features.get(number.checked_sub(1)?)
}

/// The setting of the run with this key or short name.
///
/// # Errors
/// If there is none; the message suggests a similar key.
pub fn find(key: &str) -> Result<&'static Setting, String> {
    named(key).map(|(_, setting)| setting)
}

/// The name and the setting of the run that has it.
fn named(key: &str) -> Result<(&'static str, &'static Setting), String> {
    let mut names =
        SETTINGS.iter().flat_map(|setting| setting.names().map(move |name| (name, setting)));
    names.find(|(name, _)| *name == key).ok_or_else(|| unknown(key))
}

/// The setting that this key names: of the run, a table, a feature, columns or a layer.
///
/// # Errors
/// As [`find`].
pub fn look_up(key: &str) -> Result<Found, String> {
    match of_part(key)? {
        Some(found) => Ok(found),
        None => named(key).map(|(name, setting)| Found::Run(name, setting)),
    }
}

/// A setting of a layer; `None` if the key does not have such a form.
fn of_layer(key: &str) -> Result<Option<Found>, String> {
    let Some(rest) = key.strip_prefix("model.layers") else { return Ok(None) };
    let parts: Vec<&str> = rest.splitn(3, '.').collect();
    match parts[..] {
        ["", number, last] => {
            let number = numbered(number).ok_or_else(|| {
                format!("{key}: layers are numbered from 1, such as model.layers.1.{last}")
            })?;
            let setting = LAYER_SETTINGS.iter().find(|setting| setting.key == last);
            Ok(setting.map(|setting| Found::Layer(number, setting)))
        }
        ["", number] => {
            let number = numbered(number).unwrap_or(1);
            Err(format!("{key}: give a setting of the layer, such as model.layers.{number}.kind"))
        }
        [""] => Err("model.layers: give a setting of a layer, such as model.layers.1.kind, or \
                     write layers = [{ name = \"logit\", kind = \"linear\", ... }] in a file"
            .to_owned()),
        _ => Ok(None),
    }
}

/// A setting of a table, a feature, columns or a layer; `None` if the key does not have such a
/// form.
fn of_part(key: &str) -> Result<Option<Found>, String> {
    if let Some(found) = of_layer(key)? {
        return Ok(Some(found));
    }
    let parts: Vec<&str> = key.splitn(3, '.').collect();
    match parts[..] {
        ["tables", name, last] => {
            check_name(name)?;
            let setting = TABLE_SETTINGS.iter().find(|setting| setting.key == last);
            Ok(setting.map(|setting| Found::Table(name.to_owned(), setting)))
        }
        ["features", number, last] => {
            let number = numbered(number).ok_or_else(|| {
                format!("{key}: features are numbered from 1, such as features.1.{last}")
            })?;
            let setting = FEATURE_SETTINGS.iter().find(|setting| setting.key == last);
            Ok(setting.map(|setting| Found::Feature(number, setting)))
        }
        ["columns", number, last] => {
            let number = numbered(number).ok_or_else(|| {
                format!("{key}: columns are numbered from 1, such as columns.1.{last}")
            })?;
            let setting = COLUMN_SETTINGS.iter().find(|setting| setting.key == last);
            Ok(setting.map(|setting| Found::Column(number, setting)))
        }
        ["columns"] => {
            Err("columns: give a setting of columns, such as columns.1.names".to_owned())
        }
        ["columns", number] => {
            let number = numbered(number).unwrap_or(1);
            Err(format!("{key}: give a setting of the columns, such as columns.{number}.names"))
        }
        ["tables"] => Err("tables: give a setting of a table, such as tables.NAME.dim".to_owned()),
        ["tables", _] => Err(format!("{key}: give a setting of the table, such as {key}.dim")),
        ["features"] => {
            Err("features: give a setting of a feature, such as features.1.columns".to_owned())
        }
        ["features", number] => {
            let number = numbered(number).unwrap_or(1);
            Err(format!("{key}: give a setting of the feature, such as features.{number}.columns"))
        }
        _ => Ok(None),
    }
}

/// Parses a number of a key, at least 1 and without leading zeros.
pub(crate) fn numbered(text: &str) -> Option<usize> {
    text.parse().ok().filter(|number: &usize| *number > 0 && number.to_string() == text)
}

fn unknown(key: &str) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |known: &String| {
        let whole = strsim::jaro_winkler(known, key);
        let tail = strsim::jaro_winkler(&last(known), &last(key)) * 0.95;
        (whole.max(tail) * 1e6) as u64
    };
    let nearest = known(key).into_iter().max_by_key(likeness);
    let nearest = nearest.filter(|known| likeness(known) >= LIKENESS_MIN);
    let hint = nearest.map_or_else(String::new, |known| format!("; did you mean '{known}'?"));
    format!("unknown key '{key}'{hint} (`stepwell config` lists all keys)")
}

/// All keys of the run, and all keys of the table, feature, columns or layer that `key` may name.
fn known(key: &str) -> Vec<String> {
    let of_run = SETTINGS.iter().flat_map(Setting::names).map(str::to_owned);
    let parts: Vec<&str> = key.splitn(3, '.').collect();
    let of_table = |name: &str| {
        let table = TableConfig::named(name);
        TABLE_SETTINGS.iter().map(|setting| table.key(setting.key)).collect::<Vec<_>>()
    };
    let of_feature = |number| {
        let keys = FEATURE_SETTINGS.iter().map(|setting| FeatureConfig::key(number, setting.key));
        keys.collect::<Vec<_>>()
    };
    let of_column = |number| {
        let keys = COLUMN_SETTINGS.iter().map(|setting| ColumnConfig::key(number, setting.key));
        keys.collect::<Vec<_>>()
    };
    if let Some((number, _)) =
        key.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.'))
    {
        let number = numbered(number).unwrap_or(1);
        let keys = LAYER_SETTINGS.iter().map(|setting| LayerConfig::key(number, setting.key));
        return keys.collect();
    }
    match parts[..] {
        ["columns", number, _] => numbered(number).map(of_column).unwrap_or_default(),
        ["column", number, _] => {
            of_run.chain(numbered(number).map(of_column).unwrap_or_default()).collect()
        }
        ["tables", name, _] => of_table(name),
        ["features", number, _] => numbered(number).map(of_feature).unwrap_or_default(),
        ["table", name, _] => of_run.chain(of_table(name)).collect(),
        ["feature", number, _] => {
            of_run.chain(numbered(number).map(of_feature).unwrap_or_default()).collect()
        }
        _ => of_run.collect(),
    }
}
