//! Random keys and values in random order: nothing panics, errors are one line, and reports keep
//! accepted values unchanged.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use stepwell_settings::{
    COLUMN_SETTINGS, Config, FEATURE_SETTINGS, LAYER_SETTINGS, SETTINGS, TABLE_SETTINGS, from_json,
    idle_notes, look_up, model_settings, to_json,
};

const VALUES: [&str; 38] = [
    "label",
    "dense",
    "ids",
    "ignored",
    "log1p",
    "standardise",
    "[1, 2.5]",
    "a1-a3",
    "",
    "0",
    "1",
    "2",
    "-1",
    "8",
    "0.5",
    "1e308",
    "nan",
    "inf",
    "-0",
    "1e-320",
    "true",
    "adam",
    "bf16",
    "memory",
    "tiers",
    "mean",
    "none",
    "C1",
    "C1,C5-C9",
    "C9-C5",
    "C1-C65536",
    "I3",
    "users",
    "embedding",
    "[8, 4]",
    "64KiB",
    "18446744073709551616",
    "é\n",
];

/// Known keys and some unknown ones.
fn keys() -> impl Strategy<Value = String> {
    // The store checks the range of tiers.space.
    let run = SETTINGS.iter().map(|setting| setting.key).filter(|key| *key != "tiers.space");
    let run = run.map(str::to_owned).collect::<Vec<_>>();
    let of_table = TABLE_SETTINGS.iter().map(|setting| setting.key).collect::<Vec<_>>();
    let of_feature = FEATURE_SETTINGS.iter().map(|setting| setting.key).collect::<Vec<_>>();
    let of_columns = COLUMN_SETTINGS.iter().map(|setting| setting.key).collect::<Vec<_>>();
    let of_layers = LAYER_SETTINGS.iter().map(|setting| setting.key).collect::<Vec<_>>();
    let numbers_of_layers = select(vec!["1", "2", "3", "0", "x"]);
    let numbers_of = select(vec!["1", "2", "3", "4", "0", "99999999999999999999"]);
    let names = select(vec!["users", "embedding", "a", "", "b c", "é", "tables"]);
    let numbers = select(vec!["1", "2", "3", "0", "-1", "x", "99999999999999999999"]);
    prop_oneof![
        1 => select(run),
        4 => (names, select(of_table)).prop_map(|(name, key)| format!("tables.{name}.{key}")),
        4 => (numbers, select(of_feature)).prop_map(|(at, key)| format!("features.{at}.{key}")),
        6 => (numbers_of, select(of_columns)).prop_map(|(at, key)| format!("columns.{at}.{key}")),
        3 => (numbers_of_layers, select(of_layers))
            .prop_map(|(at, key)| format!("model.layers.{at}.{key}")),
        1 => "[a-z.0-9]{0,20}",
        1 => "\\PC{0,20}",
    ]
}

fn values() -> impl Strategy<Value = String> {
    prop_oneof![9 => select(&VALUES[..]).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

/// The settings with another value given, if it is accepted.
fn given(config: &Config, key: &str, value: &str) -> Result<Config, String> {
    let found = look_up(key)?;
    let mut config = config.clone();
    found.set(&mut config, value)?;
    found.check_alone(&config)?;
    found.get(&config);
    Ok(config)
}

/// Checks settings whose values were accepted one by one.
fn is_kept(config: &Config) {
    let json: Value = serde_json::from_str(&to_json(config).to_string()).unwrap();
    assert_eq!(from_json(&json).as_ref(), Ok(config));
    let layout = config.layout();
    // A layout agrees with its schema.
    if let Ok(Some(layout)) = &layout {
        let schema = layout.schema();
        assert_eq!(layout.dense_names().len().max(1), schema.dense);
        assert_eq!(layout.id_names().len(), schema.id_columns);
        assert!(layout.chunk_bytes_max(1 << 16) > 0 && layout.rules_name().len() == 40);
    }
    let settings = model_settings(config);
    let chosen: Vec<String> = settings.iter().map(|(key, _)| key.clone()).collect();
    idle_notes(&chosen, config);
    if config.check().is_ok() {
        assert!(!config.tables_in_use().is_empty());
        for feature in &config.features {
            assert!(config.tables_in_use().iter().any(|table| table.name == feature.table));
            let layout = layout.as_ref().unwrap();
            assert!(!feature.columns_in(layout.as_deref()).unwrap().is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("STEPWELL_LONG").is_some() { 50_000 } else { 1000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn garbage_is_refused_or_kept(pairs in prop::collection::vec((keys(), values()), 0..24)) {
        let mut config = Config::default();
        for (key, value) in pairs {
            match given(&config, &key, &value) {
                Ok(next) => config = next,
                Err(why) => prop_assert!(why.len() > 10, "{key} = {value}: {why}"),
            }
        }
        is_kept(&config);
    }

    #[test]
    fn reports_of_others_do_not_panic(pairs in prop::collection::vec((keys(), values()), 0..8)) {
        let mut object: serde_json::Map<String, Value> =
            pairs.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        object.insert("tables".to_owned(), pairs.into_iter().map(|(_, value)| value).collect());
        let _ = from_json(&Value::Object(object));
    }
}

#[test]
fn what_is_no_object_of_settings_does_not_panic() {
    for text in ["null", "3", "[]", "{\"tables\": 3}", "{\"tables\": [[1]]}", "{\"seed\": {}}"] {
        let _ = from_json(&serde_json::from_str(text).unwrap());
    }
}
