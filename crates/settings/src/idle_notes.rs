//! Notes on settings that have no effect in a run.

use std::collections::BTreeSet;

use crate::all_settings::SETTINGS;
use crate::columns::COLUMN_SETTINGS;
use crate::config::{ColumnConfig, Config, FeatureConfig, PlaceKind};
use crate::no_effect;
use crate::setting::Setting;
use crate::table_settings::{FEATURE_SETTINGS, TABLE_SETTINGS};

/// Keys of the settings that have no effect in a run of `config`.
pub fn idle_settings(config: &Config) -> BTreeSet<String> {
    idle(config).map(|(key, _)| key).collect()
}

/// Notes on the settings `chosen` by key that have no effect in a run of `config`.
pub fn idle_notes(chosen: &[String], config: &Config) -> Vec<String> {
    let is_chosen = |(key, _): &(String, &str)| chosen.contains(key);
    // Layers have no effect as a whole.
    let has_layers = chosen.iter().any(|key| key.starts_with("model.layers."));
    let layers = no_effect::outside_graph(config).filter(|_| has_layers);
    let layers = layers.map(|why| ("model.layers".to_owned(), why));
    let note = |(key, why)| format!("{key} has no effect, because {why}");
    idle(config).filter(is_chosen).chain(layers).map(note).collect()
}

/// The settings without effect by key, with the reason.
fn idle(config: &Config) -> impl Iterator<Item = (String, &'static str)> {
    // Named tables may inherit settings for all rows, which then have an effect there.
    let of_tables =
        |setting: &Setting| !config.tables.is_empty() && setting.key.starts_with("rows.");
    let of_run = SETTINGS.iter().filter(move |setting| !of_tables(setting));
    let alone = of_run.map(|setting| (setting.key.to_owned(), setting.idle_in(config)));
    alone.chain(of_parts(config)).filter_map(|(key, why)| Some((key, why?)))
}

/// The settings of named tables, features and columns by key, with the reason if they have no
/// effect.
fn of_parts(config: &Config) -> Vec<(String, Option<&'static str>)> {
    fn why<T>(config: &Config, setting: &Setting<T>, part: &T) -> Option<&'static str> {
        setting.idle_in(part).or_else(|| (setting.idle_run)(config))
    }
    let tables = config.tables.iter().flat_map(|table| {
        let resolved = table.resolved(config);
        TABLE_SETTINGS
            .iter()
            .map(move |setting| (table.key(setting.key), why(config, setting, &resolved)))
    });
    let features = config.features.iter().zip(1..).flat_map(|(feature, number)| {
        FEATURE_SETTINGS.iter().map(move |setting| {
            (FeatureConfig::key(number, setting.key), why(config, setting, feature))
        })
    });
    let columns = config.columns.iter().zip(1..).flat_map(|(column, number)| {
        COLUMN_SETTINGS.iter().map(move |setting| {
            (ColumnConfig::key(number, setting.key), why(config, setting, column))
        })
    });
    // Only this place needs devices.
    let on_devices = config.tables.iter().filter(|table| table.place == PlaceKind::Device);
    let places = on_devices.map(|table| (table.key("place"), no_effect::on_the_host(config)));
    tables.chain(features).chain(columns).chain(places).collect()
}
