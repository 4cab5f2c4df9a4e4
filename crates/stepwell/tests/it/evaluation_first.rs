//! The evaluation part is read before training, so that its errors stop the run at the start.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::io::Write;

use crate::common::{TINY, Workshop, args};
use serde_json::Value;

fn train(shop: &Workshop, data: &[&str], more: &[&str]) -> Value {
    shop.ok(&args(data, more));
    shop.report("report.json")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_ends_an_evaluation_ends_the_run_before_it_trains() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let text = fs::read_to_string(&data).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let malformed = [&lines[..2999].concat(), "nonsense\n", lines[2999]].concat();
    fs::write(shop.path("bad.tsv"), &malformed).unwrap();
    fs::write(shop.path("bad.gz"), gzip(malformed.as_bytes())).unwrap();
    shop.ok(&["convert", &data, "--out", "bad.packed"]);
    let mut packed = fs::read(shop.path("bad.packed")).unwrap();
    let end = packed.len() - 1000;
    packed[end] ^= 1;
    fs::write(shop.path("bad.packed"), packed).unwrap();
    let kept = ["--checkpoint", "saved", "--checkpoint.every", "5"];
    let untrained = |data: &[&str], more: &[&str], why: &str| {
        let error = shop.fails(&args(data, &[&kept[..], more].concat()));
        assert!(error.contains(why), "{error}");
        // Nothing was started, so there is no directory.
        assert!(!shop.path("saved").exists(), "{data:?} {more:?}");
    };
    let line = ": line 3000, column 1: the line has 1 column where 40 are expected";
    untrained(&["bad.tsv"], &[], line);
    untrained(&["bad.gz"], &["--data.cache", "cache"], line);
    untrained(&[&data], &["--data.eval_paths", "bad.tsv"], line);
    untrained(&[&data], &["--data.eval_paths", "bad.gz", "--data.epochs", "3"], line);
    untrained(&["bad.packed"], &[], "bad.packed: block 3 (examples 2009 to 3000");
    untrained(&[&data], &["--data.eval_paths", "bad.packed"], "bad.packed: block 3");
    assert!(!shop.path("cache").exists() && !shop.path("cache.unfinished").exists());
    // Lines that may be skipped are only counted by the evaluation, once per epoch.
    let skip = ["--data.skip_max", "1", "--data.epochs", "2"];
    let report = train(&shop, &[&data], &[&skip[..], &["--data.eval_paths", "bad.gz"]].concat());
    assert_eq!(report["skipped_lines"], 2);
    assert_eq!(report["eval"]["examples"], 3000);
}

#[test]
fn a_resumed_run_looks_at_its_evaluation_as_one_that_never_stopped() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let other = shop.examples("other.tsv", 300);
    let text = fs::read_to_string(&other).unwrap();
    let more = ["--data.eval_paths", &other, "--data.epochs", "2", "--data.skip_max", "2"];
    let kept = ["--checkpoint", "saved", "--checkpoint.every", "9", "--checkpoint.keep", "100"];
    let run = [&more[..], &kept, &TINY].concat();
    fs::write(&other, format!("bad\n{text}bad\n")).unwrap();
    let expected = train(&shop, &[&data], &run);
    assert_eq!(expected["skipped_lines"], 4);
    let last = fs::read_dir(shop.path("saved")).unwrap().map(|entry| entry.unwrap().path());
    let last = last.filter(|path| path.to_string_lossy().contains("step-")).max().unwrap();
    fs::remove_dir_all(last).unwrap();
    let resume = [&run[..], &["--resume"]].concat();
    fs::write(&other, format!("bad\n{text}bad\nbad\n")).unwrap();
    let error = shop.fails(&args(&[&data], &resume));
    assert!(error.contains("other.tsv: line 303, column 1"), "{error}");
    fs::write(&other, format!("bad\n{text}bad\n")).unwrap();
    let found = train(&shop, &[&data], &resume);
    for figure in ["model_digest", "steps", "eval"] {
        assert_eq!(found[figure], expected[figure], "{figure}");
    }
}

#[test]
fn the_evaluation_part_is_the_tail_rounded_a_half_up() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 9999);
    let text = fs::read_to_string(&data).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (count, fraction, tail) in [(9999, "0.2", 2000), (1001, "0.5", 501), (1003, "0.5", 502)] {
        fs::write(shop.path("some.tsv"), lines[..count].concat()).unwrap();
        fs::write(shop.path("train.tsv"), lines[..count - tail].concat()).unwrap();
        fs::write(shop.path("tail.tsv"), lines[count - tail..count].concat()).unwrap();
        let cut = train(&shop, &["some.tsv"], &["--data.eval_fraction", fraction]);
        assert_eq!(
            (&cut["eval"]["examples"], &cut["examples"]),
            (&tail.into(), &(count - tail).into())
        );
        let named = train(&shop, &["train.tsv"], &["--data.eval_paths", "tail.tsv"]);
        for figure in ["model_digest", "eval"] {
            assert_eq!(named[figure], cut[figure], "{count} {fraction}: {figure}");
        }
    }
    let listed = shop.ok(&["config"]);
    let line = listed.lines().find(|line| line.starts_with("data.eval_fraction")).unwrap();
    assert!(line.contains("of n lines, the last round(n times this), halves rounded up"), "{line}");
}

#[test]
fn an_evaluation_part_without_an_example_is_told() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    fs::write(shop.path("bad.tsv"), "bad\n".repeat(3)).unwrap();
    let more = ["--data.eval_paths", "bad.tsv", "--data.skip_max", "3"];
    let said = shop.notes(&args(&[&data], &more));
    assert!(said.contains("nothing will be evaluated"), "{said}");
}

#[test]
fn a_part_that_is_chosen_by_values_is_what_eval_scores() {
    let shop = Workshop::new();
    let rows: String =
        (0..400).map(|n| format!("{},{},{}\n", n * 7 % 3 % 2, n * n % 10, n % 5)).collect();
    fs::write(shop.path("data.csv"), format!("y,a,b\n{rows}")).unwrap();
    let settings = "[data]\npaths = [\"data.csv\"]\nmini_batch = 8\neval_fraction = 0.0\n\
                    eval_column = \"b\"\neval_values = [\"0\"]\n[model]\nkind = \"lr\"\n\
                    [[columns]]\n\
                    names = [\"y\"]\ntype = \"label\"\n[[columns]]\nnames = [\"a\", \"b\"]\n";
    fs::write(shop.path("run.toml"), settings).unwrap();
    let small = ["--tiers.dram", "8MiB", "--report", "report.json", "-q"];
    shop.ok(&[&["train", "run.toml", "--checkpoint", "saved"][..], &small].concat());
    let trained = shop.report("report.json")["eval"].clone();
    assert_eq!(trained["examples"], 80);
    shop.ok(&["eval", "saved", "--report", "report.json", "-q"]);
    assert_eq!(shop.report("report.json")["eval"], trained);
    let said = shop.fails(&[&["train", "run.toml", "--data.streams=2"][..], &small].concat());
    assert!(said.contains("data.streams = 2 and data.eval_column:"), "{said}");
}
