//! No setting is forgotten: every field of a configuration has an entry in the table, and the
//! entry's claims are true.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use serde_json::{Map, Value, json};
use stepwell_settings::{
    COLUMN_SETTINGS, ColumnConfig, Config, FEATURE_SETTINGS, FeatureConfig, Kept, LAYER_SETTINGS,
    LayerConfig, ModelKind, SETTINGS, Setting, TABLE_SETTINGS, TableConfig, find, from_json,
    idle_notes, look_up, model_settings, to_json,
};

use crate::fields::{fields, of_column, of_feature, of_layer, of_table};

fn all(config: &Config) -> Value {
    let pairs = fields(config).into_iter().map(|(key, value)| (key.to_owned(), value));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// `part` with another valid value of a setting, and the value's text.
fn changed<T: Clone + PartialEq>(setting: &Setting<T>, part: &T) -> (T, &'static str) {
    let short =
        ["7", "0.7", "0.0625", "true", "sgd", "lr", "bf16", "sven", "9,8", "memory", "mean", "C3"];
    let names = [
        "I3",
        "logloss",
        "hour",
        "working_set",
        "rna",
        "async",
        "elsewhere",
        "adult",
        "csv",
        "label",
        "log1p",
        "none",
        "false",
        "squared_error",
        "host",
        "cosine",
        "device",
        "table",
        "concat",
        "relu",
    ];
    let texts = short.into_iter().chain(names);
    let change = |text: &'static str| {
        let mut other = part.clone();
        setting.set(&mut other, text).ok()?;
        setting.check_alone(&other).ok()?;
        (other != *part).then_some((other, text))
    };
    texts.into_iter().find_map(change).unwrap_or_else(|| panic!("{}: no other value", setting.key))
}

/// Configurations in which different settings have an effect.
fn grounds() -> Vec<Config> {
    let with = |pairs: &[(&str, &str)]| {
        let mut config = Config::default();
        for (key, text) in pairs {
            find(key).unwrap().set(&mut config, text).unwrap();
        }
        config
    };
    vec![
        Config::default(),
        with(&[("model.kind", "dcn"), ("data.eval_paths", "b.tsv")]),
        with(&[("model.kind", "dlrm"), ("rows.admit_after", "2"), ("checkpoint.dir", "saved")]),
        with(&[("data.paths", "a.tsv"), ("data.cache", "a.packed"), ("model.kind", "final_mlp")]),
        with(&[("model.kind", "mask_net")]),
        with(&[("model.kind", "ple")]),
        with(&[("model.kind", "din")]),
        with(&[("model.kind", "two_tower")]),
    ]
}

#[test]
fn every_field_has_its_entry() {
    for ground in grounds() {
        assert_eq!(to_json(&ground), all(&ground));
    }
    assert_eq!(fields(&Config::default()).len(), SETTINGS.len());
}

#[test]
fn an_entry_changes_its_field_and_no_other() {
    for setting in SETTINGS {
        for ground in grounds() {
            let (other, text) = changed(setting, &ground);
            let (mut was, mut is) = (all(&ground), all(&other));
            assert_ne!(was[setting.key], is[setting.key], "{} = {text}", setting.key);
            assert_eq!(setting.get(&other), is[setting.key], "{} = {text}", setting.key);
            (was[setting.key], is[setting.key]) = (Value::Null, Value::Null);
            assert_eq!(was, is, "{} = {text}", setting.key);
        }
    }
}

#[test]
fn what_is_shown_is_read_again() {
    for setting in SETTINGS {
        let (other, text) = changed(setting, &Config::default());
        let shown = json!({ setting.key: setting.get(&other) });
        assert_eq!(from_json(&shown), Ok(other), "{} = {text}", setting.key);
    }
}

/// The value of a setting in a model's list.
fn listed(config: &Config, key: &str) -> Option<String> {
    model_settings(config).into_iter().find(|(known, _)| known == key).map(|(_, value)| value)
}

#[test]
fn a_setting_is_kept_as_its_entry_says() {
    for setting in SETTINGS {
        let key = setting.key;
        let mut counts = Vec::new();
        for ground in grounds() {
            let (other, text) = changed(setting, &ground);
            let (was, is) = (listed(&ground, key), listed(&other, key));
            counts.push(is.is_some());
            let listed_before = was.is_some() || setting.kept == Kept::BeyondDefault;
            assert_eq!(listed_before && was != is, is.is_some(), "{key} = {text}: {was:?} {is:?}");
            if setting.kept == Kept::WhereItCounts {
                assert_eq!(is.is_none(), setting.idle_in(&other).is_some(), "{key} = {text}");
            }
        }
        let (some, every) = (counts.contains(&true), !counts.contains(&false));
        let kept = match setting.kept {
            Kept::Always | Kept::BeyondDefault => (true, true),
            Kept::WhereItCounts => (true, false),
            Kept::Resumed | Kept::Never => (false, false),
        };
        assert_eq!((some, every), kept, "{key}");
    }
}

#[test]
fn every_default_is_right() {
    let config = Config::default();
    config.check().unwrap();
    for setting in SETTINGS {
        setting.check_alone(&config).unwrap();
        assert!(!setting.what().is_empty() && !setting.help.is_empty(), "{}", setting.key);
        assert!(!setting.help.ends_with('.') && !setting.help.contains('|'), "{}", setting.key);
    }
}

#[test]
fn none_leaves_out_what_may_be_missing() {
    let set = |key: &str, text: &str| {
        let mut config = Config::default();
        let setting = SETTINGS.iter().find(|setting| setting.key == key).unwrap();
        setting.set(&mut config, text).map(|()| config)
    };
    assert_eq!(set("optim.dense.ema", "none"), Ok(Config::default()));
    assert_ne!(set("optim.dense.ema", "0.9"), Ok(Config::default()));
    assert!(set("train.blocks", "none").is_err());
    assert_eq!(set("model.hidden", "none").map(|config| config.model.hidden), Ok(Vec::new()));
    // A file may have this name.
    assert_ne!(set("data.cache", "none"), Ok(Config::default()));
}

#[test]
fn the_help_of_a_name_lists_all_names() {
    let mut count = 0;
    for setting in SETTINGS.iter().filter(|setting| setting.what() == "name") {
        let refusal = setting.set(&mut Config::default(), "?").unwrap_err();
        let (_, names) = refusal.split_once("give one of ").unwrap();
        for name in names.split(", ") {
            let words = setting.help.split([' ', ',', ':']);
            assert!(words.into_iter().any(|word| word == name), "{}: {name}", setting.key);
            count += 1;
        }
    }
    assert!(count >= 20, "{count}");
}

/// Each entry changes exactly one field, and every field has an entry.
fn covers<T: Clone + PartialEq>(
    settings: &[Setting<T>],
    begun: &T,
    fields: fn(&T) -> Vec<(&'static str, Value)>,
) {
    let keys: Vec<&str> = settings.iter().map(|setting| setting.key).collect();
    assert_eq!(keys, fields(begun).into_iter().map(|(key, _)| key).collect::<Vec<_>>());
    for setting in settings {
        let (other, text) = changed(setting, begun);
        for ((key, was), (_, is)) in fields(begun).into_iter().zip(fields(&other)) {
            assert_eq!(was != is, key == setting.key, "{key}: {} = {text}", setting.key);
            if key == setting.key {
                assert_eq!((setting.get(begun), setting.get(&other)), (was, is), "{key}");
            }
        }
        assert!(!setting.what().is_empty() && !setting.help.is_empty(), "{}", setting.key);
        assert!(!setting.help.ends_with('.') && !setting.help.contains('|'), "{}", setting.key);
    }
}

#[test]
fn no_setting_of_a_table_or_feature_is_forgotten() {
    covers(TABLE_SETTINGS, &TableConfig::default(), of_table);
    covers(FEATURE_SETTINGS, &FeatureConfig::default(), of_feature);
    covers(
        COLUMN_SETTINGS,
        &ColumnConfig { names: vec!["a".to_owned()], ..Default::default() },
        of_column,
    );
    covers(LAYER_SETTINGS, &LayerConfig::default(), of_layer);
}

#[test]
fn every_setting_of_a_layer_is_kept_and_read_again() {
    let mut config = Config::default();
    config.model.kind = ModelKind::Graph;
    config.model.layers = vec![LayerConfig::default(); 11];
    for setting in LAYER_SETTINGS {
        let key = format!("model.layers.11.{}", setting.key);
        let mut other = config.clone();
        let (layer, text) = changed(setting, &config.model.layers[10]);
        other.model.layers[10] = layer;
        let (was, is) = (listed(&config, &key), listed(&other, &key));
        assert!(was.is_some() && was != is, "{key} = {text}: {was:?} {is:?}");
        assert_eq!(from_json(&to_json(&other)), Ok(other), "{key} = {text}");
    }
    // Another kind of model ignores them, with a note.
    config.model.kind = ModelKind::Dcn;
    assert_eq!(listed(&config, "model.layers.1.kind"), None);
    let notes = idle_notes(&["model.layers.1.kind".to_owned()], &config);
    assert_eq!(notes, ["model.layers has no effect, because only graph has layers of its own"]);
}

/// A configuration with two features and two tables, one of them in memory.
fn with_parts() -> Config {
    let mut config = Config::default();
    for (key, text) in [
        ("tables.users.dim", "8"),
        ("tables.ads.admit_after", "3"),
        ("features.1.columns", "C2"),
        ("features.1.table", "users"),
        ("features.2.columns", "C3,C5-C9"),
        ("features.2.table", "ads"),
    ] {
        look_up(key).unwrap().set(&mut config, text).unwrap();
    }
    config.check().unwrap();
    config
}

#[test]
fn a_setting_of_a_table_or_feature_is_kept_as_its_entry_says() {
    let config = with_parts();
    let kept = |config: &Config, key: &str| listed(config, key);
    for setting in TABLE_SETTINGS {
        for at in 0..2 {
            let mut other = config.clone();
            other.tables[at] = changed(setting, &config.tables[at]).0;
            let key = format!("tables.{}.{}", config.tables[at].name, setting.key);
            // The sketch matters only for a table that counts occurrences.
            let reaches = match setting.kept {
                Kept::Always | Kept::BeyondDefault => true,
                Kept::WhereItCounts => at == 1,
                Kept::Resumed | Kept::Never => false,
            };
            let is_listed = reaches && setting.kept != Kept::BeyondDefault;
            assert_eq!(kept(&config, &key).is_some(), is_listed, "{key}");
            assert_eq!(kept(&config, &key) != kept(&other, &key), reaches, "{key}");
        }
    }
    for setting in FEATURE_SETTINGS {
        let mut other = config.clone();
        other.features[0] = changed(setting, &config.features[0]).0;
        let key = format!("features.1.{}", setting.key);
        assert_eq!(setting.kept, Kept::Always);
        assert!(kept(&config, &key).is_some() && kept(&config, &key) != kept(&other, &key));
    }
}

#[test]
fn the_help_of_a_name_of_a_table_or_feature_lists_all_names() {
    let refused = |key: &str| look_up(key).unwrap().set(&mut Config::default(), "?").unwrap_err();
    let of_tables = TABLE_SETTINGS.iter().map(|of| ("tables.a", of.key, of.help, of.what()));
    let of_features = FEATURE_SETTINGS.iter().map(|of| ("features.1", of.key, of.help, of.what()));
    let of_columns = COLUMN_SETTINGS.iter().map(|of| ("columns.1", of.key, of.help, of.what()));
    let of_layers = LAYER_SETTINGS.iter().map(|of| ("model.layers.1", of.key, of.help, of.what()));
    let mut count = 0;
    let all = of_tables.chain(of_features).chain(of_columns).chain(of_layers);
    for (part, key, help, _) in all.filter(|of| of.3 == "name") {
        let refusal = refused(&format!("{part}.{key}"));
        let (_, names) = refusal.split_once("give one of ").unwrap();
        for name in names.split(", ") {
            assert!(help.split([' ', ',', ':', '(']).any(|word| word == name), "{key}: {name}");
            count += 1;
        }
    }
    assert_eq!(count, 9 + 3 + 3 + 4 + 6 + 2 + 3 + 6 + 2 + 18 + 6);
}
