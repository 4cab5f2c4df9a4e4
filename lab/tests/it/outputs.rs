//! Figures on standard output and in files: `stepwell-lab` never writes over what it reads, and a
//! closed or full output is an error, not a panic.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs::{self, File};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::Workshop;
use crate::study::clicks;

/// A benchmark that takes a moment.
const BENCH: [&str; 12] = [
    "bench",
    "mem",
    "--keys",
    "2000",
    "--slots",
    "500",
    "--batch",
    "64",
    "--lookups",
    "2000",
    "--rounds",
    "1",
];

fn printed(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn figures_are_printed_or_written_to_a_file() {
    let shop = Workshop::new();
    let of = |more: &[&str]| shop.run(&[&BENCH[..], more].concat());
    for more in [&["--json"][..], &["--json", "-"], &["--json=-", "-q"]] {
        assert!(printed(&of(more))["hit_rate"].as_f64() > Some(0.0), "{more:?}");
    }
    assert_eq!(fs::read_dir(shop.path("")).unwrap().count(), 0);
    for (more, file) in
        [(&["--json", "one.json"][..], "one.json"), (&["--json=two.json"], "two.json")]
    {
        let table = String::from_utf8(of(more).stdout).unwrap();
        assert!(table.contains("look-ups with their rows"), "{table}");
        assert!(shop.report(file)["hit_rate"].as_f64() > Some(0.0));
    }
    let data = clicks(&shop, "data.tsv", 500);
    for args in [["cache-sim", &data, "--json"], ["cache-sim", "--json=-", &data]] {
        let traced = printed(&shop.run(&args));
        assert!(traced[0]["accesses"].as_u64() > Some(500), "{traced}");
    }
    // A trace after the flag is not taken for its file.
    let error = shop.fails(&["cache-sim", "--json", &data, "other.tsv"]);
    assert!(error.contains("write --json=- before it"), "{error}");
}

#[test]
fn inputs_are_never_written_over() {
    let shop = Workshop::new();
    let data = clicks(&shop, "data.tsv", 300);
    let before = fs::read(&data).unwrap();
    fs::hard_link(&data, shop.path("data.link")).unwrap();
    for (args, why) in [
        (&["--json", "data.tsv"][..], "this run reads that file"),
        (&["--json", "data.link"], "this run reads that file"),
        (&["--picture", "new.svg", "--json", "new.svg"], "two outputs"),
        (&["--json", "no/where.json"], "--json no/where.json"),
    ] {
        let message = shop.fails(&[&["cache-sim", &data], args].concat());
        assert!(message.contains(why), "{args:?}: {message}");
    }
    assert_eq!(fs::read(&data).unwrap(), before);
    assert!(!shop.path("new.svg").exists(), "a refused run leaves nothing");
    fs::write(shop.path("f.json.unfinished"), "mine").unwrap();
    shop.ok(&["cache-sim", &data, "--json", "f.json", "--svg", "f.svg"]);
    let mut names: Vec<String> = fs::read_dir(shop.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["data.link", "data.tsv", "f.json", "f.json.unfinished", "f.svg"]);
    assert_eq!(fs::read_to_string(shop.path("f.json.unfinished")).unwrap(), "mine");
    for name in ["f.json", "f.svg"] {
        assert!(fs::metadata(shop.path(name)).unwrap().len() > 0, "{name}");
    }
}

#[test]
fn closed_and_full_outputs_are_no_panic() {
    let shop = Workshop::new();
    let data = clicks(&shop, "data.tsv", 500);
    let commands: [&[&str]; 3] =
        [&["cache-sim", &data], &["cache-sim", &data, "--json"], &["bench", "ssd", "--help"]];
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = shop.command(args).stdout(writer).output().unwrap();
        assert!(output.status.success(), "{args:?}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = shop.command(args).stdout(full).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {error}");
        assert!(error.contains("cannot write to standard output: No space left"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    // Files are written even if nobody reads the table.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let args = ["cache-sim", &data, "--json", "f.json", "--picture", "f.svg"];
    assert!(shop.command(&args).stdout(writer).status().unwrap().success());
    assert!(shop.path("f.json").exists() && shop.path("f.svg").exists());
    let run = |redirect: &str, args: &[&str]| {
        let mut shell = Command::new("sh");
        let line = format!("exec \"$0\" \"$@\" {redirect}");
        shell.arg("-c").arg(line).arg(crate::PROGRAM).args(args);
        shell.current_dir(shop.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().unwrap().code()
    };
    let figures = [&BENCH[..], &["--json", "out"]].concat();
    for redirect in [">&-", "2>&-", ">&- 2>&-", ">&- 2>&- <&-", "2>/dev/full", ">/dev/full 2>&-"] {
        let full = redirect.starts_with(">/dev/full");
        for args in [&figures[..], &["cache-sim", &data, "--json", "out"]] {
            let _ = fs::remove_file(shop.path("out"));
            assert_eq!(run(redirect, args), Some(i32::from(full)), "{args:?} {redirect}");
            assert!(shop.path("out").exists(), "{args:?} {redirect}");
        }
    }
}
