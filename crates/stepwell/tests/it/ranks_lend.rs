//! Ranks that lend each other rows, from outside.

use crate::common::{SMALL, TINY, Workshop};

fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["train"], &SMALL[..], &TINY, more].concat()
}

#[test]
fn rows_are_lent_where_that_is_asked_for() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let with = |more: &[&str]| {
        let args = ["--data", &data, "--report", "report.json", "--set", "data.eval_fraction=0.1"];
        let output = shop.command(&train(&[&args[..], more].concat())).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let report = shop.report("report.json");
        let by_rank = report["by_rank"].as_array().map_or(&[][..], Vec::as_slice);
        let lent = by_rank.iter().map(|rank| rank["ranks"]["rows_borrowed"].as_u64().unwrap());
        (report["model_digest"].clone(), lent.sum::<u64>(), said)
    };
    let (oracle, ..) = with(&[]);
    let lends = ["--ranks.exchange", "working_set"];
    for (ranks, batch, note) in [
        ("1", "data.batch=1024", "ranks.exchange has no effect, because there is only one rank"),
        ("2", "data.batch=64", "ranks.exchange has no effect, because a batch is one mini-batch"),
        ("2", "data.batch=1024", ""),
        ("5", "data.batch=1024", ""),
    ] {
        let more = ["--ranks", ranks, "--set", batch];
        let (digest, lent, said) = with(&[&lends[..], &more].concat());
        assert_eq!(digest, oracle, "{more:?}");
        assert_eq!(lent > 0, note.is_empty(), "{more:?}: {lent} rows");
        assert!(said.contains(note), "{more:?}: {said}");
        assert_eq!(said.contains("ranks.exchange"), !note.is_empty(), "{more:?}: {said}");
    }
    // The plan counts the memory for lending.
    let plan = |exchange: &str| {
        let more = ["--ranks", "2", "--set", "data.batch=1024", "--ranks.exchange", exchange];
        shop.ok(&[&["plan"], &SMALL[..], &["--data", &data], &more].concat())
    };
    assert!(plan("working_set").contains("rows that other ranks lend"));
    assert!(!plan("owner").contains("rows that other ranks lend"));
}
