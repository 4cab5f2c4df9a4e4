//! How a run goes, in plain lines where there is no terminal.

mod common;

use self::common::Workshop;

/// A model and steps so small that some examples take seconds, wherever it is.
const SLOW: [&str; 6] = ["--model", "lr", "--data.mini_batch", "1", "--tiers.index", "8MiB"];

#[test]
fn a_run_says_how_fast_it_is_just_now_and_what_is_left() {
    let shop = Workshop::new();
    let stream = ["train", "--synth.examples", "50000", "--synth.vocab_scale", "0.2"];
    let said = shop.ok(&[&stream[..], &SLOW].concat());
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("% hits")).collect();
    assert!(!lines.is_empty(), "{said}");
    for line in &lines {
        let rate = line.split(", ").find_map(|part| part.strip_suffix(" examples/s"));
        assert!(rate.is_some_and(|rate| rate.parse::<u64>().is_ok_and(|rate| rate > 0)), "{line}");
        assert!(line.ends_with(" s left") || line.ends_with(" min left"), "{line}");
    }
}

#[test]
fn lines_of_files_are_counted_so_that_what_is_left_is_known() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 12_000);
    let said = shop.ok(&[&["train", "--data", &data, "--data.epochs", "4"][..], &SLOW].concat());
    let line = said.lines().find(|line| line.contains("% hits"));
    assert!(line.is_some_and(|line| line.ends_with(" left")), "{said}");
}
