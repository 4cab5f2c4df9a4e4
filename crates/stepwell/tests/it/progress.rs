//! Progress of a run in plain lines, without a terminal.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::{SMALL, Workshop};

/// A resumed run that has nothing of an epoch left to train shows no figures of it, and knows the
/// numbers of the others.
#[test]
fn epochs_of_a_resumed_run_have_their_numbers() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 600);
    let train = |more: &[&str]| {
        let run = ["train", "--data", &data, "--checkpoint", "saved", "--tiers.segment=64KiB"];
        shop.ok(&[&run[..], more, &SMALL].concat())
    };
    train(&[]);
    let said = train(&["--resume", "--data.epochs", "3"]);
    let epochs: Vec<&str> =
        said.lines().filter_map(|line| line.split_once(", prog")).map(|(epoch, _)| epoch).collect();
    assert_eq!(epochs, ["epoch 2/3", "epoch 3/3"], "{said}");
    assert!(!said.contains("over 0 examples"), "{said}");
}

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
