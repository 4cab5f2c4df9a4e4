//! Exit statuses of commands for each kind of result.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;

use crate::common::{SMALL, Workshop};

/// A shop with data of the built-in stream, a checkpoint of a model trained on it, and packed data.
fn shop() -> Workshop {
    let shop = Workshop::new();
    shop.examples("data.tsv", 400);
    shop.ok(&["convert", "data.tsv", "--out", "data.packed"]);
    let train = ["train", "--data", "data.tsv", "--checkpoint", "saved", "--tiers.segment=64KiB"];
    shop.ok(&[&train[..], &SMALL].concat());
    shop
}

/// Checks that a command ends with `status`, and with one line on standard error if it fails.
#[track_caller]
fn ends(shop: &Workshop, args: &[&str], status: i32) {
    let output = shop.run(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    if status != 0 {
        let last = said.trim_end().lines().last().unwrap_or_default();
        assert!(last.starts_with("stepwell: "), "{args:?}: {said}");
    }
}

/// Changes a byte in the middle of a file.
fn damage(shop: &Workshop, name: &str) {
    let mut bytes = fs::read(shop.path(name)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(shop.path(name), bytes).unwrap();
}

/// Paths of the newest checkpoint and of a segment of its rows.
fn segment(shop: &Workshop) -> (String, String) {
    let newest = fs::read_dir(shop.path("saved")).unwrap().flatten();
    let newest = newest.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let newest = newest.filter(|name| name.starts_with("step-")).max().unwrap();
    let rows = fs::read_dir(shop.path(&format!("saved/{newest}/rows-0"))).unwrap().flatten();
    let mut rows = rows.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let segment = rows.find(|name| name.starts_with("seg")).unwrap();
    (format!("saved/{newest}"), format!("saved/{newest}/rows-0/{segment}"))
}

#[test]
fn flags_and_settings_that_make_no_sense_are_usage() {
    let shop = shop();
    fs::write(shop.path("wrong.toml"), "[data]\nmini_batch = 0\n").unwrap();
    fs::write(shop.path("no.toml"), "[data\n").unwrap();
    for args in [
        &["train", "--no-such-flag"][..],
        &["nothing"],
        &["train", "--data.mini_batch=0"],
        &["train", "--model=none"],
        &["train", "--set", "data.mini_batch"],
        &["train", "--set", "no.such=1"],
        &["train", "wrong.toml"],
        &["train", "no.toml"],
        &["train", "--preset", "avazu"],
        &["train", "--tiers.dram=1KiB", "--data", "data.tsv"],
        &["config", "--data.batch=3"],
        &["plan", "--network=fast", "--ranks=2"],
        &["plan", "--network=1Gbit,1us"],
        &["eval", "saved", "--threads=0"],
        &["predict", "saved", "--data", "data.tsv", "--json"],
        &["predict", "saved", "--data", "data.tsv", "--out", "x.gz"],
        &["predict", "saved", "--data", "data.tsv", "--set", "data.skip_max=1"],
        &["export", "saved", "--to", "x", "--since", "99999"],
        &["convert", "data.tsv", "--out", "x", "--threads=0"],
        &["inspect", "saved", "--top=99999999"],
        &["synth", "--out", "x.xz"],
        &["man", "nothing"],
    ] {
        ends(&shop, args, 2);
    }
    let other = ["train", "--data", "data.tsv", "--checkpoint", "saved", "--resume", "--seed=7"];
    ends(&shop, &[&other[..], &SMALL].concat(), 2);
}

#[test]
fn paths_that_cannot_be_used_are_usage() {
    let shop = shop();
    fs::create_dir(shop.path("empty")).unwrap();
    let small =
        |more: &[&str]| shop.run(&[&["train", "--data", "data.tsv"], more, &SMALL].concat());
    for args in [
        &["train", "none.toml"][..],
        &["train", "--data", "none.tsv"],
        &["train", "--data", "none-*.tsv"],
        &["train", "--data", "data.tsv", "--data.eval_paths", "none.tsv"],
        &["train", "--data", "data.tsv", "--from", "none"],
        &["train", "--data", "data.tsv", "--checkpoint", "none", "--resume"],
        &["train", "--data", "data.tsv", "--checkpoint", "saved", "--tiers.segment=64KiB"],
        &["train", "--data", "data.tsv", "--report", "none/x.json"],
        &["train", "--data", "data.tsv", "--tensorboard", "data.tsv"],
        &["train", "--data", "data.tsv", "--limits", "none.json"],
        &["plan", "--data", "none.tsv"],
        &["plan", "--profile", "none.json"],
        &["eval", "none"],
        &["eval", "empty"],
        &["eval", "saved", "--data", "none.tsv"],
        &["predict", "saved", "--data", "none.tsv"],
        &["predict", "saved", "--data", "data.tsv", "--out", "none/scores.csv"],
        &["export", "none", "--to", "x"],
        &["export", "saved", "--to", "saved"],
        &["import", "none", "--like", "saved", "--to", "x"],
        &["inspect", "none"],
        &["inspect", "data.tsv"],
        &["convert", "none.tsv", "--out", "x"],
        &["convert", "data.tsv", "--out", "data.packed"],
        &["synth", "--out", "data.tsv"],
        &["store", "check", "none"],
        &["store", "repair", "none", "--into", "x"],
        &["schema", "none.csv"],
        &["diff", "saved", "none"],
        &["man", "--dir", "data.tsv"],
    ] {
        ends(&shop, args, 2);
    }
    // Nothing is said to begin before the data is there.
    assert!(small(&["--data", "none.tsv"]).stdout.is_empty());
}

#[test]
fn what_cannot_be_done_is_a_failure() {
    let shop = shop();
    fs::write(shop.path("bad.tsv"), "nonsense\n").unwrap();
    for args in [
        &["train", "--data", "bad.tsv"][..],
        &["predict", "saved", "--data", "bad.tsv", "--out", "scores.csv"],
        &["convert", "bad.tsv", "--out", "x"],
    ] {
        ends(&shop, args, 1);
    }
    for args in [&["eval", "saved"][..], &["diff", "saved", "saved"], &["config"], &["--help"]] {
        ends(&shop, args, 0);
    }
    let again = ["train", "--data", "data.tsv", "--checkpoint", "other", "--seed=2"];
    shop.ok(&[&again[..], &SMALL].concat());
    let differ = shop.run(&["diff", "saved", "other"]);
    assert_eq!((differ.status.code(), differ.stderr.len()), (Some(1), 0));
}

#[test]
fn damage_has_a_status_of_its_own() {
    let shop = shop();
    let (checkpoint, segment) = segment(&shop);
    damage(&shop, "data.packed");
    ends(&shop, &["train", "--data", "data.packed", "--data.mini_batch=64"], 3);
    ends(&shop, &["train", "--data", "data.packed", "--data.mini_batch=64", "--ranks=2"], 3);
    ends(&shop, &["convert", "data.packed", "--out", "again.packed"], 3);
    ends(&shop, &["predict", "saved", "--data", "data.packed", "--out", "x.csv"], 3);
    let whole = fs::read(shop.path(&segment)).unwrap();
    damage(&shop, &segment);
    ends(&shop, &["store", "check", &checkpoint], 3);
    ends(&shop, &["store", "check", &checkpoint, "--json"], 3);
    ends(&shop, &["eval", "saved"], 3);
    ends(&shop, &["export", "saved", "--to", "x"], 3);
    ends(&shop, &["diff", "saved", "saved"], 3);
    ends(&shop, &["inspect", "saved"], 3);
    ends(&shop, &["store", "repair", &checkpoint, "--into", "salvaged"], 3);
    fs::write(shop.path(&segment), whole).unwrap();
    damage(&shop, &format!("{checkpoint}/dense.bin"));
    for command in ["eval", "inspect"] {
        ends(&shop, &[command, "saved"], 3);
    }
    ends(&shop, &["store", "check", &checkpoint], 3);
    fs::remove_file(shop.path(&format!("{checkpoint}/dense.bin"))).unwrap();
    ends(&shop, &["eval", "saved"], 3);
    let train = ["train", "--data", "data.tsv", "--checkpoint", "saved", "--resume"];
    ends(&shop, &[&train[..], &SMALL].concat(), 3);
}

#[test]
fn help_and_manual_have_the_table() {
    let shop = Workshop::new();
    let (help, page) = (shop.ok(&["--help"]), shop.ok(&["man", "store", "check"]));
    for status in ["0", "1", "2", "3", "129", "130", "143"] {
        assert!(help.lines().any(|line| line.split_whitespace().next() == Some(status)), "{help}");
        assert!(page.contains(&format!(".TP\n\\fB{status}\\fR\n")), "{page}");
    }
    assert_eq!(shop.ok(&["man"]).matches("EXIT STATUS").count(), 1);
}
