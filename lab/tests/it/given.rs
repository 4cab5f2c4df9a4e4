//! Values that no command can use: one line each, an exit status of 0 to 2, and no panic.

use crate::common::Workshop;
use crate::study::clicks;

/// Values without a meaning, or with one that no machine has room for.
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

#[test]
fn absurd_values_are_refused() {
    let shop = Workshop::new();
    std::fs::write(shop.path("scarab-recs"), [7; 800]).unwrap();
    for flag in ["sizes", "mini-batch", "window", "policies", "format"] {
        for value in ABSURD {
            let given = format!("--{flag}={value}");
            let output = shop.run(&["cache-sim", "scarab-recs", &given]);
            let error = String::from_utf8(output.stderr).unwrap();
            let good = matches!(output.status.code(), Some(0..=2));
            assert!(good && !error.contains("panicked"), "{given}: {error}");
        }
    }
    for (args, flag) in [
        (&["bench", "train", "--dir", ".", "--set"][..], "threads="),
        (&["bench", "cpu", "--models", "lr", "--steps", "1", "--rows", "26"], "--threads="),
    ] {
        for threads in ["0", "1025", "1000000000", "18446744073709551615"] {
            let error = shop.fails(&[args, &[&format!("{flag}{threads}")]].concat());
            assert!(error.contains("1 to 1024"), "{args:?} {threads}: {error}");
        }
    }
}

#[test]
fn wrong_arguments_have_status_2() {
    let shop = Workshop::new();
    let data = clicks(&shop, "data.tsv", 300);
    for (args, why) in [
        (&["cache-sim", &data, "--format=none"][..], "--format"),
        (&["cache-sim", &data, "--policies=none"], "--policies"),
        (&["bench", "mem", "--rounds=0"], "0 rounds"),
        (&["bench", "cpu", "--models=none"], "--models none"),
        (&["bench", "cpu", "--set", "tables.users.dim=8"], "one table with all columns"),
        (&["bench", "cpu", "--set", "features.1.columns=C1"], "one table with all columns"),
    ] {
        let error = shop.fails(args);
        assert!(error.starts_with("stepwell-lab: ") && error.contains(why), "{args:?}: {error}");
        assert_eq!(shop.run(args).status.code(), Some(2), "{args:?}");
    }
    for args in [
        &["cache-sim", "none"][..],
        &["study", "ctr", "--data", "none"],
        &["study", "rna", "--data", "none"],
        &["bench", "ranks", "--data", "none"],
        &["bench", "ssd", "--dir", "none"],
        &["bench", "mem", "--json", "none/x.json"],
    ] {
        assert_eq!(shop.run(args).status.code(), Some(2), "{args:?}");
    }
    assert!(!shop.ok(&["--help"]).contains("diff"));
    let help = shop.ok(&["cache-sim", "--help"]);
    assert!(help.contains("[possible values: all, lru-lfu, lru, lfu,"), "{help}");
    // A policy that the product no longer has is not measured in silence.
    let args = ["bench", "train", "--dir", ".", "--set", "tiers.policy=lru", "--rows", "20000"];
    let error = String::from_utf8(shop.run(&args).stderr).unwrap();
    assert!(error.contains("tiers.policy = lru: this policy was removed"), "{error}");
    // An earlier name of a flag.
    for flag in ["--svg", "--picture"] {
        let error = shop.fails(&["cache-sim", &data, flag, "no/where.svg"]);
        assert!(!error.contains("unexpected"), "{error}");
    }
}

#[test]
fn files_that_are_no_traces_are_named() {
    let shop = Workshop::new();
    std::fs::create_dir(shop.path("folder")).unwrap();
    std::fs::write(shop.path("empty"), "").unwrap();
    clicks(&shop, "data.tsv", 100);
    let made = std::process::Command::new("mkfifo").arg(shop.path("pipe")).status().unwrap();
    assert!(made.success());
    for format in [&[][..], &["--format", "i64be"], &["--format", "criteo-tsv"]] {
        for file in ["pipe", "/dev/zero", "folder", "missing", "empty", "data.tsv/below"] {
            let error = shop.fails(&[&["cache-sim"], format, &[file]].concat());
            assert!(error.contains(file), "{format:?}: {error}");
        }
    }
}

#[test]
fn a_library_that_cannot_be_opened_is_an_error_with_a_way_out() {
    let shop = Workshop::new();
    let folder = shop.path("libraries");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::fs::write(folder.join(name), "no library ".repeat(100)).unwrap();
    }
    let mut command = shop.command(&["bench", "hbm", "--device", "cuda"]);
    let output = command.env("LD_LIBRARY_PATH", &folder).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("the NVIDIA driver's library cannot be opened: "), "{error}");
    assert!(error.contains("--device emulated:1"), "{error}");
}
