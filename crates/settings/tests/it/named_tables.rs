//! Named tables and features.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use serde_json::Value;
use stepwell_base::initial::Initial;
use stepwell_engine::Pooling;
use stepwell_settings::{
    Config, EMBEDDING, PlaceKind, RowOptimizerKind, TableConfig, from_json, idle_notes, look_up,
    model_settings, to_json,
};

/// The default settings with these values.
fn with(pairs: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    pairs.iter().for_each(|(key, text)| look_up(key).unwrap().set(&mut config, text).unwrap());
    config
}

/// Two tables, not in alphabetical order, and eleven features.
fn rich() -> Config {
    let mut config = with(&[
        ("tables.users.dim", "0"),
        ("tables.users.place", "memory"),
        ("tables.users.dram", "64MiB"),
        ("tables.ads.optimizer", "adam"),
        ("tables.ads.history", "true"),
        ("tables.ads.sketch", "1KiB"),
    ]);
    for number in 1..=11 {
        let table = ["users", "ads", EMBEDDING][number % 3];
        for (key, text) in [
            ("columns", &format!("C{number},C20-C2{number}")[..]),
            ("table", table),
            ("pooling", "sqrt_n"),
            ("ids", "4"),
            ("weight", "I3"),
        ] {
            let key = format!("features.{number}.{key}");
            look_up(&key).unwrap().set(&mut config, text).unwrap();
        }
    }
    config
}

/// The settings of tables and features in a model's list.
fn said(config: &Config) -> String {
    let count = model_settings(&Config::default()).len();
    let parts = model_settings(config).into_iter().skip(count);
    parts.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_given_lies_in_the_configuration() {
    let config = rich();
    let names: Vec<&str> = config.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["users", "ads"]);
    let users = &config.tables[0];
    assert_eq!((users.dim, users.place, users.lr), (Some(0), PlaceKind::Memory, None));
    assert_eq!(config.features.len(), 11);
    let first = &config.features[0];
    assert_eq!((first.pooling, first.ids), (Pooling::SqrtN, 4));
    assert_eq!(first.columns, ["C1", "C20-C21"]);
    config.check().unwrap();
}

#[test]
fn reports_keep_all_of_it_in_its_order() {
    let config = rich();
    let json = to_json(&config);
    assert_eq!(json["tables.users.lr"], Value::Null);
    assert!(json.as_object().unwrap().contains_key("tables.users.lr"));
    assert_eq!(json["features.11.table"], "embedding");
    assert_eq!(from_json(&json), Ok(config.clone()));
    let text: Value = serde_json::from_str(&json.to_string()).unwrap();
    assert_eq!(from_json(&text), Ok(config));
    let mut bare = Config::default();
    bare.tables.push(TableConfig::named("a"));
    assert_eq!(from_json(&to_json(&bare)), Ok(bare));
    let plain = to_json(&Config::default());
    let named = |key: &String| key.starts_with("tables") || key.starts_with("features");
    assert!(!plain.as_object().unwrap().keys().any(named));
}

#[test]
fn a_setting_is_read_and_shown_by_its_key() {
    let mut config = with(&[("tables.a.dim", "8")]);
    let found = look_up("tables.a.dim").unwrap();
    assert_eq!((found.key().as_str(), found.get(&config)), ("tables.a.dim", 8.into()));
    found.set(&mut config, "").unwrap();
    assert_eq!((found.get(&config), config.tables.len()), (Value::Null, 1));
    for key in ["tables.b.dim", "features.3.ids"] {
        let found = look_up(key).unwrap();
        assert_eq!(
            (found.get(&config), found.check_alone(&config)),
            (Value::Null, Ok(())),
            "{key}"
        );
    }
    found.set(&mut config, "4097").unwrap();
    let refused = "tables.a.dim is 4097: give at most 4096";
    assert_eq!(found.check_alone(&config), Err(refused.to_owned()));
}

#[test]
fn what_makes_a_model_is_said_with_all_settings_together() {
    let mut config = with(&[
        ("tables.users.dim", "8"),
        ("tables.users.place", "memory"),
        ("tables.users.dram", "1GiB"),
        ("tables.users.admit_after", "2"),
        ("features.1.columns", "C1,C5-C7,C8"),
        ("features.1.table", "users"),
    ]);
    let users = "tables.users.dim=8 tables.users.optimizer=Adagrad tables.users.lr=0.02 \
                 tables.users.storage=f32 tables.users.init_range=0.01 tables.users.admit_after=2 \
                 tables.users.admit_probability=1 tables.users.expire_after=0 \
                 tables.users.history=false tables.users.sketch=4194304";
    let feature = "features.1.columns=C1,C5-C8 features.1.table=users features.1.pooling=sum \
                   features.1.ids=1 features.1.weight=none";
    assert_eq!(said(&config), format!("{users} {feature}"));
    // Giving a default, or writing columns in another way, does not change the model.
    let before = said(&config);
    for (key, text) in [
        ("tables.users.lr", "0.02"),
        ("tables.users.sketch", "4MiB"),
        ("tables.users.place", "tiers"),
        ("tables.users.dram", ""),
        ("features.1.columns", "C1,C5,C6,C7-C8"),
    ] {
        look_up(key).unwrap().set(&mut config, text).unwrap();
        assert_eq!(said(&config), before, "{key} = {text}");
    }
    // Nor do settings for all rows that the table overrides; they are still listed.
    look_up("model.dim").unwrap().set(&mut config, "4").unwrap();
    assert_eq!(said(&config), before);
    assert!(model_settings(&config).contains(&("model.dim".to_owned(), "4".to_owned())));
    look_up("rows.storage").unwrap().set(&mut config, "f16").unwrap();
    assert!(said(&config).contains("tables.users.storage=f16"));
}

#[test]
fn the_table_that_is_there_by_itself() {
    let names = |config: &Config| -> Vec<String> {
        config.tables_in_use().into_iter().map(|table| table.name).collect()
    };
    assert_eq!(names(&Config::default()), [EMBEDDING]);
    let mut config = with(&[("tables.embedding.lr", "0.02")]);
    config.check().unwrap();
    assert_eq!((said(&config), names(&config)), (String::new(), vec![EMBEDDING.to_owned()]));
    look_up("tables.embedding.lr").unwrap().set(&mut config, "0.5").unwrap();
    assert!(said(&config).starts_with("tables.embedding.dim=16 "), "{}", said(&config));
    let features = [
        ("tables.users.dim", "8"),
        ("features.1.columns", "C1"),
        ("features.2.columns", "C2"),
        ("features.2.table", "users"),
    ];
    let implied = with(&features);
    let given = with(&[&features[..], &[("tables.embedding.dim", "16")]].concat());
    implied.check().unwrap();
    given.check().unwrap();
    assert_eq!((names(&implied), names(&given)), (names(&given), names(&implied)));
    assert_eq!(names(&given), [EMBEDDING, "users"]);
    assert_eq!(said(&implied), said(&given));
}

#[test]
fn keys_that_name_nothing_are_answered_with_the_mend() {
    let long = format!("tables.{}.dim", "x".repeat(65));
    for (key, answer) in [
        ("tables.users.dmi", "did you mean 'tables.users.dim'?"),
        ("tables.users.optim", "did you mean 'tables.users.optimizer'?"),
        ("table.users.dim", "did you mean 'tables.users.dim'?"),
        ("features.2.colums", "did you mean 'features.2.columns'?"),
        ("feature.2.table", "did you mean 'features.2.table'?"),
        ("tables", "tables: give a setting of a table, such as tables.NAME.dim"),
        ("tables.users", "tables.users: give a setting of the table, such as tables.users.dim"),
        ("features", "features: give a setting of a feature, such as features.1.columns"),
        ("features.1", "features.1: give a setting of the feature, such as features.1.columns"),
        ("features.0.ids", "features.0.ids: features are numbered from 1, such as features.1.ids"),
        ("features.01.ids", "features are numbered from 1, such as features.1.ids"),
        ("features.x.ids", "features are numbered from 1"),
        ("tables..dim", "tables.: give a name of 1 to 64 ASCII letters, digits, _ and -"),
        ("tables.my table.dim", "tables.my table: give a name of 1 to 64 ASCII letters"),
        (&long, "give a name of 1 to 64 ASCII letters"),
    ] {
        let error = look_up(key).unwrap_err();
        assert!(error.contains(answer), "{key}: {error}");
    }
    for nothing in ["tables.users.zzz", "features.1.zzz", "features.1.columns.x.y.z"] {
        let error = look_up(nothing).unwrap_err();
        assert!(error.starts_with("unknown key"), "{error}");
    }
    let mut config = Config::default();
    let gap = look_up("features.2.ids").unwrap().set(&mut config, "3").unwrap_err();
    assert_eq!(gap, "features.2 skips a number: give features.1");
    let kind = look_up("tables.a.lr").unwrap().set(&mut config, "fast").unwrap_err();
    assert_eq!(kind, "tables.a.lr = fast: give a number");
}

/// A table `a` that a feature uses, with these values.
fn refused(pairs: &[(&str, &str)]) -> String {
    let base = [("features.1.columns", "C1"), ("features.1.table", "a"), ("tables.a.dim", "8")];
    with(&[&base[..], pairs].concat()).check().unwrap_err()
}

#[test]
fn what_is_wrong_alone_is_answered_with_the_mend() {
    for (key, text, answer) in [
        ("tables.a.dim", "4097", "is 4097: give at most 4096"),
        (
            "tables.a.lr",
            "0",
            "is 0.0: give a number above 0 (in f32, at least 1e-45) and at most 1000000",
        ),
        ("tables.a.init_range", "-1", "is -1: give a number from 0 to 1000"),
        ("tables.a.admit_after", "0", "is 0: give 1 to 255"),
        ("tables.a.admit_probability", "0", "is 0: give more than 0 and at most 1"),
        ("tables.a.dram", "0", "is 0: give at least 1"),
        ("features.1.columns", "", "is empty: name at least one column"),
        (
            "features.1.columns",
            "C1, I3",
            "has I3: give id columns, C1 to C65536, or ranges such as C5-C9",
        ),
        ("features.1.columns", "C9-C5", "has C9-C5, which is descending: give C5-C9"),
        ("features.1.columns", "C1,C1", "has C1 twice: name it once"),
        ("features.1.table", "a b", "is a b: give the name of a table"),
        ("features.1.ids", "0", "is 0: give 1 to 65536"),
        ("features.1.ids", "65537", "is 65537: give 1 to 65536"),
        ("features.1.weight", "C3", "is C3: give a dense column, I1 to I65536, or leave it out"),
    ] {
        assert_eq!(refused(&[(key, text)]), format!("{key} {answer}"));
    }
}

#[test]
fn what_does_not_go_together_is_answered_with_the_mend() {
    let both = [("tables.a.admit_after", "2"), ("tables.a.admit_probability", "0.5")];
    let rules = "are two rules of admission: give";
    assert_eq!(
        refused(&both),
        format!(
            "tables.a.admit_after = 2 and tables.a.admit_probability = 0.5 {rules} one of them"
        )
    );
    assert_eq!(
        refused(&[("tables.a.admit_after", "2"), ("rows.admit_probability", "0.5")]),
        format!(
            "tables.a.admit_after = 2 and rows.admit_probability = 0.5 {rules} \
             tables.a.admit_probability = 1 for this table"
        )
    );
    assert_eq!(
        refused(&[("rows.admit_after", "2"), ("tables.a.admit_probability", "0.5")]),
        format!(
            "rows.admit_after = 2 and tables.a.admit_probability = 0.5 {rules} \
             tables.a.admit_after = 1 for this table"
        )
    );
    let sketch = [("tables.a.admit_after", "2"), ("tables.a.sketch", "63")];
    assert_eq!(refused(&sketch), "tables.a.sketch is 63 B: give at least 64 bytes");
    assert_eq!(
        refused(&[("tables.a.place", "memory")]),
        "tables.a.place is memory, and its size is missing: give tables.a.dram, enough bytes for \
         all of its rows, such as 64MiB"
    );
    assert_eq!(
        refused(&[("features.1.table", "b")]),
        "features.1.table is b, which is not a table: give [tables.b], or name another table"
    );
    let unused = "is used by no feature: give [[features]] with table = \"b\" and its columns, or \
                  leave it out";
    assert_eq!(refused(&[("tables.b.dim", "8")]), format!("tables.b {unused}"));
    let alone = with(&[("tables.b.dim", "8")]).check().unwrap_err();
    assert_eq!(alone, format!("tables.b {unused}"));
    let mut twice = with(&[("tables.embedding.dim", "8")]);
    twice.tables.push(twice.tables[0].clone());
    assert_eq!(twice.check().unwrap_err(), "tables.embedding is given twice: give it once");
    let memory = [
        ("tables.a.place", "memory"),
        ("tables.a.dram", "1MiB"),
        ("tables.a.admit_after", "9"),
        ("features.1.table", "a"),
        ("features.1.columns", "C1"),
    ];
    with(&memory).check().unwrap();
}

#[test]
fn ids_of_an_example_are_bounded() {
    let many = |count: u64| {
        format!(
            "take {count} ids per example (columns times ids): give fewer columns or ids, at most \
             65536 in all"
        )
    };
    let error = refused(&[("features.1.columns", "C1-C65536"), ("features.1.ids", "65536")]);
    assert_eq!(error, format!("features.1 to features.1 {}", many(1 << 32)));
    let error = refused(&[("features.1.columns", "C1-C65536"), ("features.2.columns", "C1")]);
    assert_eq!(error, format!("features.1 to features.2 {}", many(65_537)));
    let most = [("features.1.columns", "C1-C2"), ("features.1.ids", "32768")];
    with(&most).check().unwrap();
}

#[test]
fn what_changes_nothing_is_told_where_it_was_chosen() {
    let keys =
        ["dim", "init_range", "sketch", "history", "lr"].map(|key| format!("tables.a.{key}"));
    let mut config = with(&[("features.1.columns", "C1"), ("features.1.table", "a")]);
    let mut notes = |pairs: &[(&str, &str)]| {
        for (key, text) in pairs {
            look_up(key).unwrap().set(&mut config, text).unwrap();
        }
        idle_notes(&keys, &config)
    };
    let sketch = "tables.a.sketch has no effect, because the table's admit_after is 1";
    assert_eq!(notes(&[("tables.a.sketch", "1KiB")]), [sketch]);
    let history = "tables.a.history has no effect, because the table's admission or expiry needs \
                   it already";
    assert_eq!(notes(&[("tables.a.admit_after", "2")]), [history]);
    let range = "tables.a.init_range has no effect, because the table's dim is 0";
    assert_eq!(notes(&[("tables.a.dim", "0")]), [range, history]);
    let lr = "has no effect, because lr has neither embeddings nor hidden layers";
    let told = notes(&[("model.kind", "lr")]);
    assert!(told[0] == format!("tables.a.dim {lr}") && told.len() == 3, "{told:?}");
}

#[test]
fn settings_of_all_rows_count_where_a_table_takes_them() {
    let keys = ["rows.sketch".to_owned(), "rows.history".to_owned()];
    assert_eq!(idle_notes(&keys, &Config::default()).len(), 1);
    let config = with(&[("tables.embedding.admit_after", "2")]);
    assert_eq!(idle_notes(&keys, &config), [""; 0]);
}

#[test]
fn a_table_has_its_own_distribution_of_initial_weights_or_the_models() {
    let initial = |pairs: &[(&str, &str)]| {
        let feature = [("features.1.columns", "C2"), ("features.1.table", "users")];
        let mut config = with(&[&feature, pairs].concat());
        let table = config.table_mut("users").unwrap().clone();
        config.check().map(|()| table.rules(&config).initial)
    };
    let (model_std, table_std) = (("model.init_std", "0.5"), ("tables.users.init_std", "0.25"));
    assert_eq!(initial(&[]), Ok(Initial::Uniform { range: 0.01 }));
    assert_eq!(initial(&[model_std]), Ok(Initial::Normal { std: 0.5 }));
    assert_eq!(initial(&[model_std, table_std]), Ok(Initial::Normal { std: 0.25 }));
    let value = ("tables.users.init_value", "-1.5");
    assert_eq!(initial(&[model_std, value]), Ok(Initial::Constant { value: -1.5 }));
    let range = ("tables.users.init_range", "2");
    assert_eq!(initial(&[model_std, range]), Ok(Initial::Uniform { range: 2.0 }));
    let both = "tables.users.init_std = 0.25 and tables.users.init_value = -1.5: give one of them";
    assert_eq!(initial(&[value, table_std]), Err(both.to_owned()));
    let both = "model.init_std = 0.5 and model.init_value = 1: give one of them";
    assert_eq!(initial(&[model_std, ("model.init_value", "1")]), Err(both.to_owned()));
}

#[test]
fn a_table_takes_what_its_optimizer_has_from_the_settings_of_all_rows() {
    let feature = [("features.1.columns", "C2"), ("features.1.table", "users")];
    let rows = [
        ("optim.rows.kind", "adagrad"),
        ("optim.rows.eps", "0.5"),
        ("optim.rows.momentum", "0.7"),
        ("optim.rows.l2", "0.1"),
        ("optim.rows.weight_decay", "0.2"),
        ("tables.users.weight_decay", "0.3"),
    ];
    let mut config = with(&[&feature[..], &rows].concat());
    let idle = ["optim.rows.momentum".to_owned()];
    assert_eq!(idle_notes(&idle, &config).len(), 1, "no table has a velocity");
    config.table_mut("users").unwrap().optimizer = Some(RowOptimizerKind::Momentum);
    assert!(idle_notes(&idle, &config).is_empty());
    config.check().unwrap();
    let of = config.tables[0].rules(&config).optimizer;
    assert_eq!((of.kind, of.momentum, of.eps), (RowOptimizerKind::Momentum, Some(0.7), None));
    assert_eq!((of.l2, of.weight_decay), (Some(0.1), Some(0.3)));
}
