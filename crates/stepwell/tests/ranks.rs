//! Several ranks from outside: the same model, the same messages, one exit status.

mod common;

use std::time::{Duration, Instant};

use common::{SMALL, TINY, Workshop};

fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train"];
    args.extend(SMALL);
    args.extend(TINY);
    args.extend(more);
    args
}

#[test]
fn ranks_train_the_model_of_one() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let with = |ranks, report| {
        let epochs = ["--data.epochs", "2", "--set", "data.eval_fraction=0.2"];
        let mut args = train(&["--data", &data, "--ranks", ranks, "--report", report]);
        args.extend(epochs);
        shop.ok(&args);
        shop.report(report)
    };
    let one = with("1", "one.json");
    for ranks in ["2", "3", "8"] {
        let several = with(ranks, "several.json");
        for field in ["model_digest", "steps", "examples", "eval", "progressive", "rows"] {
            assert_eq!(several[field], one[field], "{ranks} ranks: {field}");
        }
        assert_eq!(several["by_rank"].as_array().unwrap().len().to_string(), ranks);
        assert!(one.get("by_rank").is_none());
    }
}

#[test]
fn a_bad_line_is_one_message_whoever_reads_it() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let mut text = std::fs::read_to_string(&data).unwrap();
    text.insert_str(text.match_indices('\n').nth(1499).unwrap().0 + 1, "bad\n");
    std::fs::write(&data, text).unwrap();
    let one = shop.fails(&train(&["--data", &data]));
    assert!(one.contains("line 1501"), "{one}");
    assert_eq!(shop.fails(&train(&["--data", &data, "--ranks", "3"])), one);
    let skips = ["--data", &data, "--data.skip_max", "1", "--report"];
    shop.ok(&[&train(&skips)[..], &["one.json"]].concat());
    shop.ok(&[&train(&skips)[..], &["three.json", "--ranks", "3"]].concat());
    let (one, three) = (shop.report("one.json"), shop.report("three.json"));
    for field in ["model_digest", "skipped_lines", "examples"] {
        assert_eq!(three[field], one[field], "{field}");
    }
}

#[test]
fn what_ranks_cannot_do_is_refused_at_once() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let refused = |more: &[&str]| shop.fails(&train(&[&["--data", &data[..]], more].concat()));
    assert!(refused(&["--ranks", "9"]).contains("give at most 8 ranks"));
    assert!(refused(&["--ranks", "0"]).contains("ranks is 0: give 1 to 256"));
    let saves = refused(&["--ranks", "2", "--checkpoint", "saved"]);
    assert!(saves.contains("checkpoint.dir") && saves.contains("ranks = 1"), "{saves}");
    assert!(!shop.path("saved").exists());
    let caches = refused(&["--ranks", "2", "--data.cache", "cache.packed"]);
    assert!(caches.contains("data.cache") && !shop.path("cache.packed").exists(), "{caches}");
}

#[test]
fn a_rank_that_fails_ends_all_with_its_own_words() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let rows = shop.path("rows");
    std::fs::create_dir_all(&rows).unwrap();
    // Where the rows of rank 1 should lie there is a file.
    std::fs::write(rows.join("rank-1"), "in the way").unwrap();
    let begun = Instant::now();
    let rows = rows.display().to_string();
    let error = shop.fails(&train(&["--data", &data, "--ranks", "3", "--tiers.ssd", &rows]));
    assert!(error.contains("rank-1"), "{error}");
    assert_eq!(error.lines().filter(|line| line.starts_with("stepwell:")).count(), 1, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}
