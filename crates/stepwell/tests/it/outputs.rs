//! No command overwrites its inputs.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;

use crate::common::{SMALL, Workshop};

#[test]
fn what_a_run_reads_is_never_written_over() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    fs::write(shop.path("run.toml"), "seed = 1\n").unwrap();
    let before = fs::read(&data).unwrap();
    let refused = |args: &[&str], why: &str| {
        let message = shop.fails(args);
        assert!(message.contains(why), "{args:?}: {message}");
    };
    let train = |report| {
        let mut args = vec!["train", "run.toml", "--data", &data, "--report", report];
        args.extend(SMALL);
        args
    };
    for report in ["data.tsv", "./data.tsv", "run.toml"] {
        refused(&train(report), "this run reads that file");
    }
    let mut args = train("report.json");
    args.extend(["--checkpoint", "saved"]);
    shop.ok(&args);
    let step = fs::read_dir(shop.path("saved")).unwrap().next().unwrap().unwrap().path();
    let inside = step.join("checkpoint.json").display().to_string();
    let step = step.display().to_string();
    refused(&["eval", &step, "--report", &inside], "which this run reads");
    let mut again = train(&inside);
    again.extend(["--checkpoint", "saved", "--resume"]);
    refused(&again, "which this run reads");
    again[5] = "saved/report.json";
    shop.ok(&again);
    shop.ok(&["inspect", &step]);
    assert_eq!(fs::read(&data).unwrap(), before);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_with_the_mend_before_training() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let proc = "/proc/report.json: cannot be written: No such file or directory (os error 2); name";
    for (place, why) in [
        ("no/where.json", "no/where.json: there is no directory no: create it, or name another"),
        (".", ".: is a directory: name a file in it"),
        ("data.tsv/report.json", "data.tsv is not a directory: name another place"),
        ("/proc/report.json", proc),
    ] {
        for ranks in ["1", "2"] {
            let mut args = vec!["train", "--data", &data, "--report", place, "--ranks", ranks];
            args.extend(SMALL);
            let output = shop.run(&args);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.starts_with(&format!("stepwell: --report {place}")), "{error}");
            assert!(error.contains(why), "{ranks} ranks: {error}");
            assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "nothing was begun");
        }
    }
}

#[test]
fn files_that_look_unfinished_are_nobodys_to_take() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let mine = ["r.json.unfinished", "s.tsv.unfinished"];
    for name in mine {
        fs::write(shop.path(name), "mine").unwrap();
    }
    let mut args = vec!["train", "--data", &data, "--report", "r.json"];
    args.extend(SMALL);
    shop.ok(&args);
    shop.ok(&["synth", "--out", "s.tsv", "--examples", "100"]);
    for name in mine {
        assert_eq!(fs::read_to_string(shop.path(name)).unwrap(), "mine", "{name}");
    }
    for name in ["r.json", "s.tsv"] {
        assert!(fs::metadata(shop.path(name)).unwrap().len() > 0, "{name}");
    }
    assert_eq!(left(&shop), Vec::<String>::new());
}

/// Files with names of unfinished outputs.
fn left(shop: &Workshop) -> Vec<String> {
    let names = fs::read_dir(shop.path("")).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("stepwell-")).collect()
}

#[test]
fn an_output_that_fails_leaves_the_older_one_and_nothing_else() {
    let shop = Workshop::new();
    shop.ok(&["synth", "--out", "s.tsv", "--examples", "100"]);
    let before = fs::read(shop.path("s.tsv")).unwrap();
    // A limit on the size of files acts like a full disk.
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 100; exec \"$0\" \"$@\""])
        .args([env!("CARGO_BIN_EXE_stepwell"), "synth", "--out", "s.tsv", "--force"])
        .args(["--examples", "10000"])
        .current_dir(shop.path(""))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("s.tsv") && error.contains("(ulimit -f)"), "{error}");
    assert_eq!(fs::read(shop.path("s.tsv")).unwrap(), before);
    assert_eq!(left(&shop), Vec::<String>::new());
}

#[test]
fn a_report_goes_into_a_pipe_without_a_name() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let mut args = vec!["train", "--data", &data, "--report", "/dev/stdout"];
    args.extend(SMALL);
    assert!(shop.ok(&args).contains("\"model_digest\": \""));
}

/// Prints which files are synced and which are renamed, in order.
const WATCHER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void say(const char *what, const char *one, const char *other) {
    FILE *file = fopen(getenv("WATCHED"), "a");
    if (file) { fprintf(file, "%s\t%s\t%s\n", what, one, other); fclose(file); }
}

int fsync(int file) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length < 0 ? 0 : length] = 0;
    say("sync", name, "");
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int rename(const char *from, const char *to) {
    char place[4096], *real = realpath(from, place);
    int renamed = ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(from, to);
    char target[4096], *there = realpath(to, target);
    say("rename", real ? real : from, there ? there : to);
    return renamed;
}
"#;

/// After a power cut an older file must not be replaced by an empty one.
#[test]
fn every_output_is_synced_before_it_has_its_name_and_its_directory_after() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    fs::write(shop.path("watcher.c"), WATCHER).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "watcher.so", "watcher.c", "-ldl"])
        .current_dir(shop.path(""))
        .output();
    if !compiled.is_ok_and(|compiled| compiled.status.success()) {
        return stepwell_skip::skipped("a C compiler, to watch calls of the system");
    }
    let outputs = |args: &[&str]| {
        let log = shop.path("watched.log");
        let _ = fs::remove_file(&log);
        let mut command = shop.command(args);
        command.env("LD_PRELOAD", shop.path("watcher.so")).env("WATCHED", &log);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let log = fs::read_to_string(&log).unwrap_or_default();
        let calls: Vec<Vec<&str>> = log.lines().map(|line| line.split('\t').collect()).collect();
        let renamed = calls.iter().enumerate().filter(|(_, call)| call[0] == "rename");
        // Stores and checkpoints have other tests.
        let is_of_rows = |name: &str| name.contains("/saved/") || name.ends_with("/manifest.json");
        let of_outputs = renamed.filter(|(_, call)| !is_of_rows(call[2]));
        let mut names = Vec::new();
        for (at, call) in of_outputs {
            let folder = std::path::Path::new(call[2]).parent().unwrap().display().to_string();
            let is_synced = |calls: &[Vec<&str>], name: &str| {
                calls.iter().any(|call| call[0] == "sync" && call[1] == name)
            };
            assert!(is_synced(&calls[..at], call[1]), "{args:?}: {log}");
            assert!(is_synced(&calls[at..], &folder), "{args:?}: {log}");
            names.push(call[2].rsplit('/').next().unwrap().to_owned());
        }
        names
    };
    let mut train = vec!["train", "--data", &data, "--report", "r.json", "--html", "r.html"];
    train.extend(SMALL);
    train.extend(["--checkpoint", "saved"]);
    let mut of_train = outputs(&train);
    of_train.dedup();
    assert_eq!(of_train, ["r.html", "r.json"]);
    let scored = ["--data", &data, "--out"];
    for (command, names) in [
        (&["eval", "saved", "--data", &data, "--report", "e.json"][..], &["e.json"][..]),
        (&[&["predict", "saved"], &scored[..], &["s.csv"]].concat(), &["s.csv"]),
        (&[&["predict", "saved"], &scored[..], &["s.parquet"]].concat(), &["s.parquet"]),
        (&["export", "saved", "--to", "tensors"], &["tensors"]),
        (&["convert", &data, "--out", "d.packed"], &["d.packed"]),
        (&["synth", "--out", "d.tsv", "--examples", "100"], &["d.tsv"]),
    ] {
        assert_eq!(outputs(command), names, "{command:?}");
    }
}

#[test]
fn another_name_of_what_is_read_is_not_written_over() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    fs::write(shop.path("run.toml"), "seed = 1\n").unwrap();
    let train = |more: [&str; 2]| {
        let first = ["train", "run.toml", "--data", &data, "--threads=1", "-q"];
        let args: Vec<String> =
            first.into_iter().chain(SMALL).chain(more).map(str::to_owned).collect();
        args
    };
    fn words(args: &[String]) -> Vec<&str> {
        args.iter().map(String::as_str).collect()
    }
    let fails = |args: &[String]| shop.fails(&words(args));
    shop.ok(&words(&train(["--checkpoint", "saved"])));
    let step = fs::read_dir(shop.path("saved")).unwrap().next().unwrap().unwrap().path();
    for (link, of) in [
        ("data.link", shop.path("data.tsv")),
        ("run.link", shop.path("run.toml")),
        ("meta.link", step.join("checkpoint.json")),
    ] {
        fs::hard_link(of, shop.path(link)).unwrap();
    }
    let before = |link: &str| fs::read(shop.path(link)).unwrap();
    let was = ["data.link", "run.link", "meta.link"].map(before);
    for flag in ["--metrics", "--report", "--html"] {
        for link in ["data.link", "run.link"] {
            let said = fails(&train([flag, link]));
            assert!(said.contains("this run reads that file"), "{flag} {link}: {said}");
        }
    }
    for args in [
        &["predict", "saved", "--data", &data, "--out", "data.link", "-q"][..],
        &["eval", "saved", "--data", &data, "--report", "data.link", "-q"],
        &["convert", &data, "--out", "data.link", "--force"],
        &["convert", &data, "--config", "run.toml", "--out", "run.toml", "--force"],
        &["export", "saved", "--ids", &data, "--to", "data.link", "-q"],
    ] {
        let said = shop.fails(args);
        assert!(said.contains("this run reads that file"), "{args:?}: {said}");
    }
    for args in [
        &["eval", "saved", "--data", &data, "--report", "meta.link", "-q"][..],
        &["inspect", "saved", "--svg", "meta.link"],
    ] {
        let said = shop.fails(args);
        assert!(said.contains("it is another name of a file in"), "{args:?}: {said}");
    }
    fs::write(shop.path("one.json"), "{}").unwrap();
    fs::hard_link(shop.path("one.json"), shop.path("two.json")).unwrap();
    let mut args = train(["--report", "one.json"]);
    args.extend(["--metrics", "two.json"].map(str::to_owned));
    let said = fails(&args);
    assert!(said.contains("named for two outputs"), "{said}");
    assert_eq!(["data.link", "run.link", "meta.link"].map(before), was);
}
