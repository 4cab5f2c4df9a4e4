//! Every setting is given absurd values: the program ends soon, in good order, with a message that
//! names the setting.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use crate::common::Workshop;

/// Far more time than any of them takes in parallel with other tests.
const LONGEST: Duration = Duration::from_secs(60);

/// Values without a meaning, or too large for any machine.
const ABSURD: [&str; 15] = [
    "",
    "-1",
    "0",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-320",
    "nan",
    "-inf",
    "[1,2]",
    "true",
    "0x10",
    "16777216TiB",
    "1\n2\u{1b}",
];

/// Settings of a tiny run.
const BASE: [&str; 18] = [
    "--model.dim",
    "4",
    "--model.hidden",
    "8",
    "--data.mini_batch",
    "64",
    "--tiers.index",
    "8MiB",
    "--tiers.dram",
    "1MiB",
    "--tiers.segment",
    "64KiB",
    "--threads",
    "2",
    "--synth.vocab_scale",
    "0.2",
    "--synth.examples",
    "300",
];

/// Two columns of the data; the first may be anything.
const COLUMNS: &[&str] = &[
    "--data",
    "data.csv",
    "--set",
    "columns.1.names=a",
    "--set",
    "columns.2.names=y",
    "--set",
    "columns.2.type=label",
    "--set",
    "columns.3.names=b",
];

/// Settings with which another setting has an effect.
fn context(key: &str) -> &'static [&'static str] {
    match key {
        "model.cross_layers" => &["--model", "dcn"],
        "model.bottom" => &["--model", "dlrm"],
        "rows.sketch" => &["--rows.admit_after", "2"],
        "optim.rows.lr" => &["--rows.storage", "f16"],
        "data.skip_max" => &["--data", "data.tsv", "--data.cache", "cache"],
        "features.1.columns" => &["--data", "data.tsv"],
        _ if key.starts_with("columns.") => COLUMNS,
        _ if key.starts_with("features.") => {
            &["--data", "data.tsv", "--set", "features.1.columns=C1"]
        }
        _ if key.starts_with("tables.") => {
            &["--data", "data.tsv", "--features.1.columns", "C1", "--features.1.table", "NAME"]
        }
        _ if key.starts_with("synth.") => &["--model", "lr"],
        _ if key.starts_with("checkpoint.") => &["--data", "data.tsv", "--checkpoint", "saved"],
        _ => &["--data", "data.tsv"],
    }
}

/// Records of the columns a, y and b.
fn records(shop: &Workshop) {
    let record = |n: usize| format!("{},{},{}\n", n % 7, n % 2, n % 11);
    let text: String = (0..200).map(record).collect();
    std::fs::write(shop.path("data.csv"), format!("a,y,b\n{text}")).unwrap();
}

/// The keys of all settings, as the program lists them.
fn keys(shop: &Workshop) -> Vec<String> {
    let listed = shop.ok(&["config"]);
    let keys: Vec<String> = listed
        .lines()
        .filter_map(|line| {
            let key = line.split_whitespace().next()?;
            Some(key.replace("features.N.", "features.1.").replace("columns.N.", "columns.1."))
        })
        .collect();
    assert!(keys.len() >= 62 && keys.contains(&"tiers.dram".to_owned()), "{keys:?}");
    keys
}

/// Every second value, in turn; all of them if `STEPWELL_LONG` is set.
fn share_of<'a>(values: &[&'a str], number: usize) -> Vec<&'a str> {
    let step = if std::env::var_os("STEPWELL_LONG").is_some() { 1 } else { 2 };
    values.iter().copied().skip(number % step).step_by(step).collect()
}

/// Runs with a setting; returns whether it was accepted.
fn in_good_order(shop: &Workshop, command: &str, key: &str, value: &str) -> bool {
    let pair = format!("{key}={value}");
    let args = [&[command], context(key), &BASE, &["--set", &pair]].concat();
    let began = Instant::now();
    let output = shop.run(&args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(began.elapsed() < LONGEST, "{command} {pair:?}: {:?}", began.elapsed());
    assert!(!error.contains("panicked"), "{command} {pair:?}: {error}");
    let taken = output.status.code() == Some(0);
    if !taken {
        // Some are invalid settings, and some name missing files.
        assert!(matches!(output.status.code(), Some(1 | 2)), "{command} {pair:?}: {error}");
        let notes = error.lines().filter(|line| line.starts_with("stepwell: note: ")).count();
        assert_eq!(error.lines().count() - notes, 1, "{command} {pair:?}: {error}");
        // An error about missing data names the given path.
        let named = error.contains(key) || key.ends_with("paths");
        // An error about a column names the column.
        let named = named || (key.starts_with("columns.") && error.contains("column "));
        assert!(named, "{command} {pair:?}: {error}");
    }
    taken
}

#[test]
fn plans_of_absurd_settings() {
    let shop = Workshop::new();
    shop.examples("data.tsv", 200);
    records(&shop);
    let (mut taken, mut refused) = (0, 0);
    for (number, key) in keys(&shop).iter().enumerate() {
        for value in share_of(&ABSURD, number) {
            match in_good_order(&shop, "plan", key, value) {
                true => taken += 1,
                false => refused += 1,
            }
        }
    }
    assert!(taken > 50 && refused > 300, "{taken} taken, {refused} refused");
}

#[test]
fn runs_with_absurd_settings() {
    let shop = Workshop::new();
    shop.examples("data.tsv", 200);
    records(&shop);
    let values = ["", "0", "18446744073709551615", "1e308", "1e-320", "nan"];
    for (number, key) in keys(&shop).into_iter().enumerate() {
        for value in share_of(&values, number) {
            // A user may want so many epochs or examples.
            let long = key == "data.epochs" || key == "synth.examples";
            if !(long && value.len() > 10) {
                in_good_order(&shop, "train", &key, value);
                for left in ["saved", "cache"] {
                    let left = shop.path(left);
                    let _ = std::fs::remove_dir_all(&left).or_else(|_| std::fs::remove_file(&left));
                }
            }
        }
    }
}

#[test]
fn settings_that_are_no_text() {
    let shop = Workshop::new();
    for command in ["plan", "train"] {
        let mut command = shop.command(&[command, "--set"]);
        let output = command.arg(OsStr::from_bytes(b"tiers.ssd=\xff\xfe")).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("invalid UTF-8"), "{error}");
    }
}

#[test]
fn flags_of_other_commands() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 200);
    let mut train = vec!["train", "--data", &data, "--model", "lr", "--checkpoint", "saved"];
    train.extend(["--data.mini_batch", "64", "--tiers.index", "8MiB"]);
    shop.ok(&train);
    let commands: [(&[&str], &[&str]); 3] = [
        (&["inspect", "saved"], &["top"]),
        (&["synth", "--out", "s.tsv", "--examples", "10", "--force"], &["seed", "vocab-scale"]),
        (&["convert", &data, "--out", "p", "--force"], &["threads", "skip-max"]),
    ];
    for (args, flags) in commands {
        for flag in flags {
            for value in ABSURD {
                let given = format!("--{flag}={value}");
                let output = shop.run(&[args, &[&given]].concat());
                let error = String::from_utf8(output.stderr).unwrap();
                let good = matches!(output.status.code(), Some(0..=2));
                assert!(good && !error.contains("panicked"), "{args:?} {given}: {error}");
            }
        }
    }
}

/// Commands that take a number of threads, without it; the data is `data.tsv`, the checkpoint
/// `saved`.
const THREADED: [(&[&str], &str); 6] = [
    (&["train", "--data", "data.tsv"], "--threads="),
    (&["train", "--data", "data.tsv", "--set"], "threads="),
    (&["plan"], "--threads="),
    (&["eval", "saved", "--data", "data.tsv"], "--threads="),
    (&["eval", "saved", "--data", "data.tsv", "--set"], "threads="),
    (&["convert", "data.tsv", "--out", "packed"], "--threads="),
];

#[test]
fn threads_that_nobody_has_are_refused_in_one_line() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 200);
    let mut train = vec!["train", "--data", &data, "--model", "lr", "--checkpoint", "saved"];
    train.extend(["--data.mini_batch", "64", "--tiers.index", "8MiB"]);
    shop.ok(&train);
    for (args, flag) in THREADED {
        for threads in ["0", "1025", "1000000000", "18446744073709551615"] {
            let error = shop.fails(&[args, &[&format!("{flag}{threads}")]].concat());
            let notes = error.lines().filter(|line| line.starts_with("stepwell: note: ")).count();
            assert_eq!(error.trim_end().lines().count() - notes, 1, "{args:?} {threads}: {error}");
            let mend = ["threads is", "--threads"].iter().any(|name| error.contains(name));
            assert!(mend && error.contains("1 to 1024"), "{args:?} {threads}: {error}");
        }
    }
}
