use super::*;

fn apply_text(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    apply("run.toml", text, &mut config).map(|_| config)
}

#[test]
fn numbers_of_any_base_are_what_they_say() {
    for (text, seed) in [("0x10", 16), ("0o17", 15), ("0b101", 5), ("1_000", 1000), ("7", 7)] {
        assert_eq!(apply_text(&format!("seed = {text}")).unwrap().seed, seed, "{text}");
    }
    assert!(apply_text("seed = 0x1_0000_0000_0000_0000").unwrap_err().contains("seed = "));
}

#[test]
fn data_in_the_place_of_settings_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clicks.tsv");
    for bytes in [&b"1\t2\n"[..], &[0x28, 0xB5, 0x2F, 0xFD, 0xFF]] {
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path, &mut Config::default()).unwrap_err();
        assert!(error.contains("--data"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn tables_and_dotted_keys_are_the_same() {
    let dotted = apply_text("tiers.dram = '64MiB'\nmodel.hidden = [8, 4]").unwrap();
    let tables = apply_text("[tiers]\ndram = '64MiB'\n[model]\nhidden = [8, 4]").unwrap();
    assert_eq!(dotted, tables);
    assert_eq!(dotted.model.hidden, [8, 4]);
}

#[test]
fn lists_are_taken_as_they_are() {
    let config = apply_text("model.hidden = []\ndata.paths = ['a,b.tsv', 'c.tsv']").unwrap();
    assert!(config.model.hidden.is_empty());
    assert_eq!(config.data.paths, ["a,b.tsv", "c.tsv"]);
    let error = apply_text("seed = [1]").unwrap_err();
    assert_eq!(error, "run.toml:1: seed = [1]: give one value, not a list");
}

#[test]
fn keys_are_told() {
    let mut config = Config::default();
    let text = "seed = 2\n[pipeline]\nhorizon = 3";
    let mut keys = apply("run.toml", text, &mut config).unwrap();
    keys.sort();
    assert_eq!(keys, ["pipeline.horizon", "seed"]);
}

#[test]
fn errors_name_the_line() {
    let error = |text| apply_text(text).unwrap_err();
    assert!(error("seed = 1\n\ntiers.drm = 1").starts_with("run.toml:3: unknown key"));
    assert!(error("[data]\nepochs = 'x'").starts_with("run.toml:2: data.epochs = x"));
    assert!(error("seed = ").starts_with("run.toml:1: "));
}

const NAMED: &str = "\
seed = 3
[tables.zebra]
dim = 8
[[features]]
columns = [\"C1\", \"C5-C9\"]
table = \"zebra\"
[tables.ant]
place = \"memory\"
dram = \"64MiB\"
[[features]]
columns = \"C2,C3\"
table = \"ant\"
pooling = \"mean\"
ids = 4
weight = \"I3\"
[tables.embedding]
[[features]]
columns = [\"C4\"]
";

#[test]
fn tables_and_features_are_in_the_order_of_the_file() {
    let config = apply_text(NAMED).unwrap();
    let names: Vec<&str> = config.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["zebra", "ant", "embedding"]);
    let tables: Vec<&str> = config.features.iter().map(|of| of.table.as_str()).collect();
    assert_eq!(tables, ["zebra", "ant", "embedding"]);
    assert_eq!(config.features[0].columns, ["C1", "C5-C9"]);
    assert_eq!((config.features[1].ids, config.seed), (4, 3));
    config.check().unwrap();
    let inline = "features = [{ columns = ['C1'] }, { columns = ['C2'], ids = 2 }]\n\
                      tables.b.dim = 2\ntables.a.dim = 3\ntables.b.lr = 1";
    let config = apply_text(inline).unwrap();
    assert_eq!((config.features.len(), config.features[1].ids), (2, 2));
    assert_eq!((config.tables[0].name.as_str(), config.tables.len()), ("b", 2));
}

#[test]
fn keys_of_tables_and_features_are_told() {
    let mut config = Config::default();
    let keys = apply("run.toml", NAMED, &mut config).unwrap();
    assert_eq!(keys[..2], ["seed", "tables.zebra.dim"]);
    assert!(keys.contains(&"features.3.columns".to_owned()), "{keys:?}");
    assert!(!keys.iter().any(|key| key == "tables.embedding" || key == "features.1"));
    for key in keys {
        look_up(&key).unwrap();
    }
}

#[test]
fn tables_that_are_none_are_refused_where_they_stand() {
    let error = |text| apply_text(text).unwrap_err();
    let below = "and below it its settings, such as dim = 16";
    let tables = format!("tables: write [tables.NAME], {below}");
    assert_eq!(error("seed = 1\ntables = 3"), format!("run.toml:2: {tables}"));
    assert_eq!(error("[[tables]]\ndim = 3"), format!("run.toml:1: {tables}"));
    let users = format!("tables.users: write [tables.users], {below}");
    assert_eq!(error("\n\ntables.users = 3"), format!("run.toml:3: {users}"));
    assert_eq!(error("\n[[tables.users]]\ndim = 3"), format!("run.toml:2: {users}"));
    let name = "give a name of 1 to 64 ASCII letters, digits, _ and -";
    let named = error("seed = 1\n[tables.\"my table\"]\ndim = 3");
    assert_eq!(named, format!("run.toml:2: tables.my table: {name}"));
    assert_eq!(error("[tables.'a.b']"), format!("run.toml:1: tables.a.b: {name}"));
    let twice = error("[tables.users]\n[tables.users]");
    assert!(twice.starts_with("run.toml:2: duplicate key"), "{twice}");
    let twice = error("[tables.users]\ndim = 1\ndim = 2");
    assert!(twice.starts_with("run.toml:3: duplicate key"), "{twice}");
    let unknown = error("[tables.users]\nlr = 1\ndmi = 2");
    let meant = "unknown key 'tables.users.dmi'; did you mean 'tables.users.dim'?";
    assert!(unknown.starts_with(&format!("run.toml:3: {meant}")), "{unknown}");
    let kind = error("[tables.users]\nlr = 'fast'");
    assert_eq!(kind, "run.toml:2: tables.users.lr = fast: give a number");
    let word = error("[optim.dense]\nema = none  # no mean");
    assert_eq!(word, "run.toml:2: put text in quotes: ema = \"none\"");
    assert!(!error("[model]\nbatch_norm = True").contains("quotes"));
    let range = error("[tables.users]\n\ndim = 5000");
    assert_eq!(range, "run.toml:3: tables.users.dim is 5000: give at most 4096");
}

#[test]
fn features_that_are_none_are_refused_where_they_stand() {
    let error = |text: &str| apply_text(text).unwrap_err();
    let write = "features: write [[features]] for each, and below it columns = [\"C1\"]";
    for text in ["\n[features]\ncolumns = ['C1']", "\nfeatures = 3", "\nfeatures = [1]"] {
        assert_eq!(error(text), format!("run.toml:2: {write}"), "{text}");
    }
    let feature = |text: &str| error(&format!("[[features]]\n\n[[features]]\n{text}"));
    for (text, answer) in [
        ("columns = []", "columns is empty: name at least one column"),
        ("columns = ['C9-C5']", "columns has C9-C5, which is descending: give C5-C9"),
        ("columns = ['C9', 'C5-C9']", "columns has C9 twice: name it once"),
        ("pooling = 'max'", "pooling = max: give one of sum, mean, sqrt_n, none"),
        ("ids = 0", "ids is 0: give 1 to 65536"),
        ("ids = [1]", "ids = [1]: give one value, not a list"),
    ] {
        assert_eq!(feature(text), format!("run.toml:4: features.2.{answer}"));
    }
    let unknown = feature("colums = ['C1']");
    let meant = "unknown key 'features.2.colums'; did you mean 'features.2.columns'?";
    assert!(unknown.starts_with(&format!("run.toml:4: {meant}")), "{unknown}");
    let nested = feature("columns = [['C1']]");
    let give = "give a number, a text in quotes, or a list of them";
    assert_eq!(nested, format!("run.toml:4: {give}"));
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let page = include_str!("../../../../docs/tables.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let config = apply_text(rest.split_once("```").unwrap().0).unwrap();
    config.check().unwrap();
    assert_eq!((config.tables.len(), config.features.len()), (2, 3));
    assert_eq!(config.tables_in_use().len(), 3);
}

/// Lines of files, valid and invalid, in all orders.
#[test]
fn no_mixture_of_lines_panics() {
    let lines = [
        "[tables.users]",
        "[[features]]",
        "[features]",
        "[tables]",
        "[[tables.users]]",
        "dim = 8",
        "columns = ['C1', 'C5-C9']",
        "columns = [[]]",
        "table = 'users'",
        "ids = -1",
        "tables.users = 3",
        "features = [{ columns = 'C1' }, {}]",
        "[tables.\"\"]",
        "place = 1e9",
        "tables.a.dim = 3",
        "features.1.ids = 2",
        "weight = 1979-05-27",
        "é = 'ü'",
        "[",
        "x",
    ];
    let mut state: u64 = 1;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        lines[(state >> 33) as usize % lines.len()]
    };
    let (mut taken, mut refused) = (0, 0);
    for count in (1..=6).cycle().take(6000) {
        let text = (0..count).map(|_| draw()).collect::<Vec<_>>().join("\n");
        match apply_text(&text) {
            Ok(_) => taken += 1,
            Err(why) => {
                assert!(why.starts_with("run.toml:") && !why.contains('\n'), "{why}");
                refused += 1;
            }
        }
    }
    assert!(taken > 100 && refused > 1000, "{taken} taken, {refused} refused");
}
