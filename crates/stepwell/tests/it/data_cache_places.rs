//! `data.cache`: a path of another file is refused, and the file stays unchanged.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;

use crate::common::{SMALL, Workshop, lines_beside_notes};

fn args<'a>(data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", "--data", data, "--data.cache", "all.cache"], &SMALL[..], more].concat()
}

/// The error of a run that leaves every file unchanged.
fn refused(shop: &Workshop, data: &str, more: &[&str], kept: &[&str]) -> String {
    let read = || kept.iter().map(|name| fs::read(shop.path(name)).unwrap()).collect::<Vec<_>>();
    let before = read();
    let error = shop.fails(&args(data, more));
    assert!(read() == before, "{error}: a file was changed");
    assert_eq!(lines_beside_notes(&error), 1, "{error}");
    error
}

/// A workshop with two files of text and a cache of the second.
fn workshop() -> Workshop {
    let shop = Workshop::new();
    shop.examples("a.tsv", 300);
    shop.examples("b.tsv", 200);
    shop.ok(&args("b.tsv", &[]));
    shop
}

#[test]
fn a_file_that_is_evaluated() {
    let shop = workshop();
    let error = refused(&shop, "a.tsv", &["--data.eval_paths", "all.cache"], &["all.cache"]);
    assert!(error.contains("data.cache = all.cache is one of the data files"), "{error}");
    fs::rename(shop.path("all.cache"), shop.path("all.cache.unfinished")).unwrap();
    let more = ["--data.eval_paths", "all.cache.unfinished"];
    let error = refused(&shop, "a.tsv", &more, &["all.cache.unfinished"]);
    assert!(error.contains("all.cache.unfinished, which is a data file"), "{error}");
}

#[test]
fn a_whole_file_or_a_link_where_it_is_written() {
    let shop = workshop();
    shop.ok(&["convert", "b.tsv", "--out", "all.cache.unfinished"]);
    let error = refused(&shop, "a.tsv", &[], &["all.cache.unfinished"]);
    assert!(error.contains("was packed by `stepwell convert`: rename it"), "{error}");
    // A run stopped at the last moment leaves a complete cache there.
    fs::copy(shop.path("all.cache"), shop.path("all.cache.unfinished")).unwrap();
    shop.ok(&args("a.tsv", &[]));
    assert!(!shop.path("all.cache.unfinished").exists());
    shop.ok(&["convert", "b.tsv", "--out", "all.cache.unfinished"]);
    fs::remove_file(shop.path("all.cache.unfinished")).unwrap();
    fs::write(shop.path("mine"), "").unwrap();
    std::os::unix::fs::symlink(shop.path("mine"), shop.path("all.cache.unfinished")).unwrap();
    let error = refused(&shop, "b.tsv", &[], &["mine"]);
    assert!(error.contains("is a link"), "{error}");
    assert!(shop.path("all.cache.unfinished").is_symlink());
}

#[test]
fn a_folder_of_checkpoints_or_rows() {
    let shop = workshop();
    fs::remove_file(shop.path("all.cache")).unwrap();
    for (flag, key) in [("--checkpoint", "checkpoint.dir"), ("--tiers.ssd", "tiers.ssd")] {
        let error = refused(&shop, "a.tsv", &[flag, "all.cache"], &[]);
        assert!(error.contains(&format!("is also {key}")), "{error}");
        assert!(!shop.path("all.cache").exists(), "{key}");
    }
}

#[test]
fn checkpoints_stay_where_no_cache_can_be_made() {
    let shop = Workshop::new();
    shop.examples("a.tsv", 300);
    shop.ok(&args("a.tsv", &["--checkpoint", "saved"]));
    let listed = || {
        let entries = fs::read_dir(shop.path("saved")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = listed();
    fs::remove_file(shop.path("all.cache")).unwrap();
    fs::create_dir(shop.path("all.cache.unfinished")).unwrap();
    refused(&shop, "a.tsv", &["--checkpoint", "saved", "--force"], &[]);
    assert_eq!(listed(), before);
}

#[test]
fn a_cache_among_its_text_is_not_trained_on_twice() {
    let shop = Workshop::new();
    fs::create_dir(shop.path("days")).unwrap();
    shop.examples("days/1.tsv", 300);
    let cache = ["--data.cache", "days/all.cache"];
    let train = |data: &'static str, more: &[&'static str]| {
        [&["train", "--data", data], &SMALL[..], more].concat()
    };
    shop.ok(&train("days/*", &cache));
    for more in [&[][..], &cache] {
        let error = shop.fails(&train("days/*", more));
        assert!(error.contains("days/all.cache is a cache that data.cache made"), "{error}");
    }
    shop.ok(&train("days/all.cache", &[]));
}
