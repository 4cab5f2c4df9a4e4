//! Settings of named tables and features, given to the program.

use crate::common::Workshop;

const FILE: &str = "\
[tables.users]
dim = 8
[[features]]
columns = [\"C1\", \"C5-C9\"]
table = \"users\"
";

#[test]
fn files_flags_and_pairs_give_them() {
    let shop = Workshop::new();
    std::fs::write(shop.path("run.toml"), FILE).unwrap();
    shop.ok(&["plan", "run.toml"]);
    let unknown = shop.fails(&["plan", "run.toml", "--tables.users.dmi", "8"]);
    assert!(unknown.contains("did you mean 'tables.users.dim'?"), "{unknown}");
    let range = "tables.users.dim is 5000: give at most 4096";
    for given in [
        &["--tables.users.dim", "5000"][..],
        &["--tables.users.dim=5000"],
        &["--set", "tables.users.dim=5000"],
        &["--set", "tables.users.dim=4", "--tables.users.dim", "5", "--tables.users.dim=5000"],
    ] {
        let error = shop.fails(&[&["plan", "run.toml"], given].concat());
        assert!(error.ends_with(range), "{given:?}: {error}");
    }
    let next = ["--features.2.columns", "C2", "--features.2.table", "ads"];
    let error = shop.fails(&[&["plan", "run.toml"][..], &next].concat());
    assert!(error.contains("features.2.table is ads, which is not a table"), "{error}");
    shop.ok(&[&["plan", "run.toml", "--set", "tables.ads.lr=0.5"][..], &next].concat());
    let gap = shop.fails(&["plan", "run.toml", "--features.3.ids=2"]);
    assert!(gap.contains("features.3 skips a number: give features.2"), "{gap}");
}

#[test]
fn a_file_is_refused_by_line() {
    let shop = Workshop::new();
    std::fs::write(shop.path("run.toml"), FILE.replace("C5-C9", "C9-C5")).unwrap();
    let error = shop.fails(&["plan", "run.toml"]);
    let why = "run.toml:4: features.1.columns has C9-C5, which is descending: give C5-C9";
    assert!(error.ends_with(why), "{error}");
}

#[test]
fn what_changes_nothing_is_told() {
    let shop = Workshop::new();
    std::fs::write(shop.path("run.toml"), FILE.replace("dim = 8", "sketch = '1KiB'")).unwrap();
    let output = shop.run(&["plan", "run.toml"]);
    let notes = String::from_utf8(output.stderr).unwrap();
    let note = "tables.users.sketch has no effect, because the table's admit_after is 1";
    assert!(notes.contains(note), "{notes}");
}

#[test]
fn all_of_their_settings_are_listed() {
    let shop = Workshop::new();
    let listed = shop.ok(&["config"]);
    let line = |key: &str| listed.lines().find(|line| line.split(' ').next() == Some(key)).unwrap();
    assert!(line("tables.NAME.dim").ends_with("[model.dim]"), "{listed}");
    assert!(line("tables.NAME.dram").ends_with("[a share of tiers.dram]"), "{listed}");
    assert!(line("features.N.table").ends_with("[embedding]"), "{listed}");
}
