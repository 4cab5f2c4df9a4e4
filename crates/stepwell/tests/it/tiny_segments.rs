//! Segments so small that their footers take more than `tiers.space` leaves: a run still ends, and
//! gives the same model as any other.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::Workshop;

/// Far more time than it takes in parallel with other tests, and far less than merging forever.
const LONGEST: Duration = Duration::from_secs(120);

#[test]
fn segments_of_one_page_end_in_time() {
    let shop = Workshop::new();
    let data = shop.text("data.tsv");
    shop.ok(&["synth", "--out", &data, "--examples", "20000"]);
    let train = |segment: &str, report: &str| {
        let mut args = vec!["train", "--data", &data, "--preset", "criteo", "--model", "lr"];
        args.extend(["--data.mini_batch", "64", "--tiers.dram", "200KiB", "--tiers.index", "8MiB"]);
        args.extend(["--tiers.segment", segment, "--report", report]);
        let mut child = shop.command(&args).stdout(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > LONGEST {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("segments of {segment} take more than {LONGEST:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        assert!(child.wait().unwrap().success());
        shop.report(report)
    };
    let (tiny, large) = (train("16KiB", "tiny.json"), train("1MiB", "large.json"));
    assert_eq!(tiny["model_digest"], large["model_digest"]);
    let disk = &tiny["tiers"]["disk"];
    // A segment has at most 170 rows, and a merge frees at least a third of one.
    let (written, merges) = (&disk["rows_written"], &disk["compactions"]);
    let most = written.as_u64().unwrap() * 3 / 100;
    assert!(merges.as_u64().unwrap() < most, "{merges} merges for {written} rows");
}

#[test]
fn space_that_cannot_be_kept_is_one_line() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 200);
    let mut args = vec!["train", "--data", &data, "--model", "lr", "--tiers.dram", "200KiB"];
    args.extend(["--tiers.segment", "16KiB", "--tiers.index", "8MiB", "--tiers.space", "1.2"]);
    let message = shop.fails(&args);
    assert!(message.contains("tiers.space") && message.contains("tiers.segment"), "{message}");
}

#[test]
fn a_store_that_is_merging_when_its_run_ends_leaves_nothing() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    let mut args = vec!["train", "--data", &data, "--model", "wide_deep", "--model.dim", "4"];
    args.extend(["--model.hidden", "8", "--data.eval_fraction", "0", "--data.mini_batch", "64"]);
    args.extend(["--tiers.dram", "200KiB", "--tiers.segment", "16KiB", "--tiers.space", "2"]);
    args.extend(["--tiers.index", "8MiB", "--rows.expire_after", "3"]);
    for run in 0..6 {
        shop.ok(&args);
        let listed = std::fs::read_dir(shop.path("")).unwrap().flatten();
        let left: Vec<_> = listed.map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["data.tsv"], "after run {run}");
    }
}
