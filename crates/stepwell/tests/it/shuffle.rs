//! `data.shuffle`: an order of examples that does not depend on how they are read and trained, and
//! in the middle of which a run can resume.

use std::fs;

use serde_json::Value;

use crate::common::{TINY, Workshop, args, same};

fn train(shop: &Workshop, data: &str, more: &[&str]) -> Value {
    let all = [&["--set", "data.epochs=2", "--set", "data.eval_fraction=0.2"], more].concat();
    shop.ok(&args(&[data], &all));
    shop.report("report.json")
}

#[test]
fn one_order_whatever_the_data_lies_in_and_however_it_is_trained() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    shop.ok(&["convert", &data, "--out", "data.packed"]);
    let packed = shop.text("data.packed");
    let in_order = train(&shop, &data, &[]);
    let mut digests = vec![in_order["model_digest"].clone()];
    // A part of a mini-batch, several mini-batches, and more than all examples.
    for window in ["10", "500", "100000"] {
        let window = ["--data.shuffle", window];
        let expected = train(&shop, &data, &window);
        digests.push(expected["model_digest"].clone());
        assert_eq!(expected["examples"], in_order["examples"]);
        let with = |data: &str, more: &[&str], what: &str| {
            same(&train(&shop, data, &[&window[..], more].concat()), &expected, what);
        };
        with(&packed, &["--threads", "3"], "packed");
        with(&data, &TINY, "tiny tiers");
        with(&data, &["--ranks", "3"], "three ranks");
        with(&packed, &["--ranks", "2", "--pipeline.lookahead", "0"], "two ranks, packed");
        for more in ["makes", "reads"] {
            with(&data, &["--data.cache", "cache"], more);
        }
        fs::remove_file(shop.path("cache")).unwrap();
    }
    let seed = train(&shop, &data, &["--data.shuffle", "500", "--set", "seed=9"]);
    digests.push(seed["model_digest"].clone());
    for (number, digest) in digests.iter().enumerate() {
        assert!(!digests[..number].contains(digest), "number {number}");
    }
}

#[test]
fn a_run_goes_on_in_the_middle_of_a_window() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    // With malformed lines, which are skipped and counted.
    let text = fs::read_to_string(&data).unwrap();
    let text: Vec<&str> = text.lines().collect();
    let with_bad = text.chunks(97).flat_map(|lines| lines.iter().chain(&["bad"])).copied();
    fs::write(&data, with_bad.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let skip = ["--data.skip_max", "100", "--data.shuffle", "700"];
    let expected = train(&shop, &data, &skip);
    assert!(expected["skipped_lines"].as_u64().unwrap() > 60, "{expected}");
    // An epoch has 38 steps, a window 11, and step 76 is the last.
    for every in ["5", "11", "17", "38"] {
        let saved = ["--checkpoint", "saved", "--set"];
        let every = format!("checkpoint.every={every}");
        let saves = [&skip[..], &saved, &[&every]].concat();
        train(&shop, &data, &saves);
        let mut steps: Vec<_> =
            fs::read_dir(shop.path("saved")).unwrap().flatten().map(|entry| entry.path()).collect();
        steps.sort();
        // Removes the checkpoint of the end.
        fs::remove_dir_all(steps.pop().unwrap()).unwrap();
        let resumed = train(&shop, &data, &[&saves[..], &["--resume"]].concat());
        assert_eq!(resumed["model_digest"], expected["model_digest"], "{every}");
        assert_eq!(resumed["skipped_lines"], expected["skipped_lines"], "{every}");
        let other = [&saved[..2], &["--resume", "--data.skip_max", "100"]].concat();
        let all = [&["--set", "data.epochs=2", "--set", "data.eval_fraction=0.2"], &other[..]];
        let told = shop.fails(&args(&[&data], &all.concat()));
        assert!(told.contains("data.shuffle"), "{told}");
        fs::remove_dir_all(shop.path("saved")).unwrap();
    }
}

/// Data sorted by its label.
#[test]
fn sorted_data_is_learned_as_well() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    let text = fs::read_to_string(&data).unwrap();
    let (head, tail) = text.split_at(text.match_indices('\n').nth(4799).unwrap().0 + 1);
    let mut sorted: Vec<&str> = head.lines().collect();
    sorted.sort_by_key(|line| line.starts_with('1'));
    fs::write(&data, sorted.join("\n") + "\n" + tail).unwrap();
    let loss = |more: &[&str]| train(&shop, &data, more)["eval"]["logloss"].as_f64().unwrap();
    let (sorted, shuffled) = (loss(&[]), loss(&["--data.shuffle", "10000"]));
    assert!(shuffled < sorted - 0.05, "{shuffled} {sorted}");
}

#[test]
fn a_bad_line_ends_a_run_behind_the_last_whole_window() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 4000);
    let mut text = fs::read_to_string(&data).unwrap();
    text.insert_str(text.match_indices('\n').nth(2899).unwrap().0 + 1, "bad\n");
    fs::write(&data, text).unwrap();
    let saves = ["--checkpoint", "saved", "--tiers.dram", "16MiB"];
    let more = [&["--data.shuffle", "640", "--data.eval_fraction", "0"], &saves[..]].concat();
    let told = shop.fails(&args(&[&data], &more));
    assert!(told.contains("line 2901"), "{told}");
    // Blocks of lines are longer than this window.
    let streams = ["--data.shuffle", "640", "--data.streams", "2"];
    let told = shop.fails(&args(&[&data], &streams));
    assert!(told.contains("data.shuffle") && told.contains("data.streams"), "{told}");
}
