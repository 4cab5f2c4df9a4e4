//! File names that are not UTF-8: no command panics on one.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Output;

use crate::common::{Workshop, args, same};

/// An argument with `%` replaced by a byte that is not valid in UTF-8.
fn odd(argument: &str) -> OsString {
    OsStr::from_bytes(
        &argument.bytes().map(|byte| if byte == b'%' { 0xFF } else { byte }).collect::<Vec<_>>(),
    )
    .to_owned()
}

fn run(shop: &Workshop, words: &[&str]) -> Output {
    let mut command = shop.command(&[]);
    let output = command.args(words.iter().map(|word| odd(word))).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{words:?}: {said}");
    output
}

#[test]
fn commands_that_write_take_names_that_are_no_text() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    shop.ok(&args(&[&data], &["--checkpoint", "saved"]));
    fs::rename(shop.path("saved"), shop.path("").join(odd("s%"))).unwrap();
    let step = fs::read_dir(shop.path("").join(odd("s%"))).unwrap().flatten();
    let step = step.map(|entry| entry.file_name().into_string().unwrap());
    let step = format!("s%/{}", step.filter(|name| name.starts_with("step-")).max().unwrap());
    for words in [
        &["synth", "--out=a%.tsv", "--examples=9"][..],
        &["convert", &data, "--out=a%"],
        &["predict", "s%", "--data", &data, "--out=a%.csv"],
        &["export", "s%", "--state", "--to=t%"],
        &["import", "t%", "--like=s%", "--to=i%"],
        &["inspect", "s%"],
        &["diff", "s%", "s%"],
        &["store", "check", &step],
        &["store", "repair", &step, "--into=r%"],
        &["store", "purge", "s%"],
        &["eval", "s%"],
    ] {
        let output = run(&shop, &[words, &["--json"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        // The output is JSON, with a text for the name.
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    }
    assert!(shop.path("").join(odd("a%.csv")).exists());
}

#[test]
fn settings_are_texts_and_say_so() {
    let shop = Workshop::new();
    for command in ["train", "config", "plan"] {
        let output = run(&shop, &[command, "--checkpoint=c%"]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("stepwell: --checkpoint c") && said.contains("UTF-8"), "{said}");
    }
    assert_eq!(run(&shop, &["train", "--tiers.ssd=c%"]).status.code(), Some(2));
    assert_eq!(run(&shop, &["train", "--data=c%"]).status.code(), Some(2));
}

#[test]
fn a_place_for_rows_that_is_not_there_is_told_by_its_name() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let output = shop.command(&args(&[&data], &[])).env("TMPDIR", "/none").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the directory /none") && said.contains("tiers.ssd"), "{said}");
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1));
}

#[test]
fn control_characters_of_names_never_reach_a_terminal() {
    let shop = Workshop::new();
    let name = "a\u{1b}[2J\nb.jsonl";
    fs::write(shop.path(name), "{\"label\":1,\"user\":\"x\"}\n".repeat(9)).unwrap();
    let settings = "[data]\neval_fraction = 0\nmini_batch = 4\n[model]\nkind = \"lr\"\n\
                    [[columns]]\n\
                    names = [\"label\"]\ntype = \"label\"\n[[columns]]\nnames = [\"nobody\"]\n";
    fs::write(shop.path("run.toml"), settings).unwrap();
    for args in [
        &["train", "run.toml", "--data", "*.jsonl", "--force", "--checkpoint", "saved"][..],
        &["train", "run.toml", "--data", name],
        &["plan", "run.toml", "--data", name],
        &["eval", "saved", "--data", "*.jsonl"],
        &["predict", "saved", "--data", "*.jsonl", "--out", "s.csv"],
        &["convert", name, "--config", "run.toml", "--out", "p\u{1b}.packed"],
    ] {
        let output = shop.run(args);
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        assert!(!said.contains(&0x1b), "{args:?}: {}", String::from_utf8_lossy(&said));
    }
    let warned = shop.run(&["train", "run.toml", "--data", "*.jsonl"]).stderr;
    let warned = String::from_utf8(warned).unwrap();
    assert!(warned.contains("records of a\\u{1b}[2J\\nb.jsonl has nobody"), "{warned}");
}

#[test]
fn names_of_texts_alone_are_never_a_record() {
    let shop = Workshop::new();
    let settings = "[[columns]]\nnames = ['liked']\ntype = 'label'\npositive = ['yes']\n\
                    [[columns]]\nnames = ['user', 'item']\n";
    fs::write(shop.path("texts.toml"), settings).unwrap();
    fs::write(shop.path("texts.csv"), "liked,user,item\nyes,u1,i1\nno,u2,i2\n").unwrap();
    fs::write(shop.path("other.csv"), "vote,film,customer\nyes,i1,u1\nno,i2,u2\n").unwrap();
    fs::write(shop.path("bare.csv"), "Item,User\ni1,u1\ni2,u2\n").unwrap();
    fs::write(shop.path("right.csv"), "user,item\nu1,i1\nu2,i2\n").unwrap();
    let data = ["--data", "texts.csv", "--data.eval_fraction", "0"];
    shop.ok(&[&["train", "texts.toml", "--checkpoint", "texts"][..], &data].concat());
    for args in [
        &["train", "texts.toml", "--data", "other.csv"][..],
        &["train", "texts.toml", "--data", "texts.csv", "--data", "other.csv"],
        &["eval", "texts", "--data", "other.csv"],
        &["predict", "texts", "--data", "other.csv", "--unlabelled", "-q"],
        &["convert", "other.csv", "--config", "texts.toml", "--out", "packed"],
    ] {
        let refused = shop.fails(args);
        assert!(refused.contains("other.csv") && refused.contains("data.header"), "{refused}");
    }
    let scores = |data: &str| shop.ok(&["predict", "texts", "--data", data, "--unlabelled"]);
    assert_eq!(scores("bare.csv"), scores("right.csv"));
}

#[test]
fn texts_of_settings_keep_their_spaces() {
    let shop = Workshop::new();
    let settings = "[data]\neval_fraction = 0\nmini_batch = ' 2 '\n[model]\nkind = 'lr '\n\
                    [[columns]]\nnames = ['label']\ntype = 'label'\n\
                    [[columns]]\nnames = ['tags']\ntype = 'ids'\nseparator = ', '\n";
    fs::write(shop.path("spaces.toml"), settings).unwrap();
    fs::write(shop.path("l.csv"), "label;tags\n1;red, new\n0;new, red, blue\n").unwrap();
    let lists = "{\"label\":1,\"tags\":[\"red\",\"new\"]}\n\
                 {\"label\":0,\"tags\":[\"new\",\"red\",\"blue\"]}\n";
    fs::write(shop.path("l.jsonl"), lists).unwrap();
    let run = |data: &str, more: &[&str]| {
        let args = ["train", "spaces.toml", "--data", data, "--report", "r", "--threads", "1"];
        shop.ok(&[&args[..], more].concat());
        shop.report("r")
    };
    let expected = run("l.jsonl", &[]);
    same(&run("l.csv", &["--checkpoint", "spaces"]), &expected, "a separator with a space");
    let flag = ["--columns.2.separator", ", "];
    same(&run("l.csv", &flag), &expected, "by a flag");
    let pair = ["--set", "columns.2.separator=, "];
    same(&run("l.csv", &pair), &expected, "by a pair");
    // A checkpoint keeps the value.
    let scores = |data: &str| shop.ok(&["predict", "spaces", "--data", data]);
    assert_eq!(scores("l.csv"), scores("l.jsonl"));
}
