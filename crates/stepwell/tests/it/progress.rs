//! Progress of a run in plain lines, without a terminal.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::{SMALL, Workshop};

#[test]
fn a_run_says_how_fast_it_is_just_now_and_what_is_left() {
    let shop = Workshop::new();
    // Lines are counted, so that a long run knows how many are left.
    let data = shop.examples("data.tsv", 5000);
    let args = [&["train", "--data", &data, "--data.epochs", "100000"][..], &SMALL].concat();
    let mut run = shop.command(&args);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told: Vec<String> = lines.filter(|line| line.contains("% hits")).take(1).collect();
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    for line in &told {
        let rate = line.split(", ").find_map(|part| part.strip_suffix(" examples/s"));
        assert!(rate.is_some_and(|rate| rate.parse::<u64>().is_ok_and(|rate| rate > 0)), "{line}");
        let left = |part: &str| part.ends_with(" h left") || part.ends_with(" min left");
        assert!(line.split(", ").any(left), "{line}");
        assert!(line.starts_with("epoch "), "{line}");
    }
}
