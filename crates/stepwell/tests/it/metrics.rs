//! `train --metrics`: lines of JSON during a run.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;

use serde_json::Value;

use crate::common::{Workshop, args};

fn lines(shop: &Workshop) -> Vec<Value> {
    let text = fs::read_to_string(shop.path("curves.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(lines: &[Value], event: &str) -> usize {
    lines.iter().filter(|line| line["event"] == event).count()
}

#[test]
fn a_run_says_how_it_goes_and_a_resumed_one_goes_on_saying_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let more = ["--metrics", "curves.jsonl", "--checkpoint", "saved", "--data.epochs", "2"];
    for ranks in ["1", "2"] {
        fs::write(shop.path("curves.jsonl"), "of an older run\n").unwrap();
        shop.ok(&args(&[&data], &[&more[..], &["--ranks", ranks, "--force"]].concat()));
        let (found, report) = (lines(&shop), shop.report("report.json"));
        assert!(count(&found, "training") >= 1, "{found:?}");
        assert_eq!([count(&found, "epoch"), count(&found, "evaluation")], [2, 2]);
        assert_eq!(count(&found, "checkpoint"), 1);
        let evaluations = found.iter().filter(|line| line["event"] == "evaluation");
        for (line, expected) in evaluations.zip(report["eval_by_epoch"].as_array().unwrap()) {
            assert_eq!(line["auc"], expected["auc"]);
            assert_eq!(line["scored"], expected["examples"]);
        }
        let last = found.last().unwrap();
        assert_eq!((&last["step"], &last["examples"]), (&report["steps"], &report["examples"]));
        let saved = found.iter().find(|line| line["event"] == "checkpoint").unwrap();
        assert!(saved["path"].as_str().unwrap().contains("step-"), "{saved}");
        let times: Vec<f64> = found.iter().map(|line| line["seconds"].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    }
    let before = lines(&shop).len();
    let on = ["--metrics", "curves.jsonl", "--checkpoint", "saved", "--resume"];
    shop.ok(&args(&[&data], &[&on[..], &["--data.epochs", "3"]].concat()));
    let found = lines(&shop);
    // The epoch at whose end it resumes has no examples left.
    let epochs = found.iter().filter(|line| line["event"] == "epoch" && line["scored"] != 0);
    assert_eq!((epochs.count(), found.len() > before), (3, true));
    // A run that fails at the start leaves an older file unchanged.
    let refused = args(&[&data], &["--metrics", "curves.jsonl", "--checkpoint", "saved"]);
    assert!(shop.fails(&refused[..]).contains("saved"));
    assert_eq!(lines(&shop), found);
}

#[test]
fn lines_that_cannot_be_written_are_told_and_the_run_goes_on() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let error = shop.fails(&args(&[&data], &["--metrics", "none/curves.jsonl"]));
    assert!(error.contains("--metrics none/curves.jsonl: there is no directory none"), "{error}");
    let error = shop.fails(&args(&[&data], &["--metrics", &data]));
    assert!(error.contains("this run reads that file"), "{error}");
    let error = shop.fails(&args(&[&data], &["--metrics", "report.json"]));
    assert!(error.contains("named for two outputs"), "{error}");
    let output = shop.run(&args(&[&data], &["--metrics", "/dev/full"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("the run continues").count(), 1, "{said}");
}
