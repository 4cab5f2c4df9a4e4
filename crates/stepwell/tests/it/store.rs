//! `stepwell store`: checks, purges and repairs stores of a run.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{SMALL, Workshop, args};

/// The rows of a run's checkpoint.
fn trained(shop: &Workshop) -> PathBuf {
    let data = shop.examples("data.tsv", 1500);
    let mut args = vec!["train", "--data", &data, "--checkpoint", "saved"];
    args.extend(SMALL);
    shop.ok(&args);
    let checkpoints = subdirectories(&shop.path("saved"));
    let rows = subdirectories(checkpoints.last().unwrap());
    rows.into_iter().next().unwrap()
}

fn subdirectories(path: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_dir());
    paths.sort();
    paths
}

fn first_segment(rows: &Path) -> PathBuf {
    let listed = fs::read_dir(rows).unwrap().map(|entry| entry.unwrap().path());
    listed.filter(|path| path.extension().is_some_and(|end| end == "rows")).min().unwrap()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_is_damaged_is_found_and_the_rest_salvaged() {
    let shop = Workshop::new();
    let rows = trained(&shop);
    let path = rows.display().to_string();
    assert!(shop.ok(&["store", "check", &path]).contains("whole"));
    flip(&first_segment(&rows), 5000);
    assert!(shop.fails(&["store", "check", &path]).contains("1 damaged place;"));
    let message = shop.fails(&["store", "repair", &path, "--into", "new"]);
    assert!(message.contains("1 store could not be salvaged in full"), "{message}");
    assert!(shop.ok(&["store", "check", "new"]).contains("whole"));
    let again = shop.fails(&["store", "repair", &path, "--into", "new"]);
    assert!(again.contains("is not empty"), "{again}");
    assert!(shop.fails(&["store", "check", &path, &path]).contains("is named twice"));
    // The salvaged rows replace the damaged ones.
    assert!(shop.fails(&["eval", "saved"]).contains("--repaired accepts"));
    fs::rename(&rows, shop.path("damaged")).unwrap();
    fs::rename(shop.path("new"), &rows).unwrap();
    assert!(shop.fails(&["eval", "saved"]).contains("--repaired"));
    let checkpoint = rows.parent().unwrap().display().to_string();
    assert!(shop.fails(&["store", "check", &checkpoint]).contains("not those that were saved"));
    assert!(shop.ok(&["inspect", "saved"]).contains("NOT THE ROWS THAT WERE SAVED"));
    assert!(shop.ok(&["eval", "saved", "--repaired"]).contains("evaluating"));
}

#[test]
fn a_checkpoint_is_checked_to_its_end_whatever_is_met_on_the_way() {
    let shop = Workshop::new();
    let rows = trained(&shop);
    let checkpoint = rows.parent().unwrap().display().to_string();
    flip(&rows.join("manifest.json"), 9);
    // A store that is checked after the damaged one is intact.
    let other = rows.with_file_name("rows-9");
    fs::create_dir(&other).unwrap();
    let message = shop.fails(&["store", "check", &checkpoint]);
    assert!(message.contains("manifest.json") && message.contains("rows-9"), "{message}");
    let output = shop.run(&["store", "check", &checkpoint, "--json"]);
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(whole["stores"].as_array().unwrap().len(), 2);
    assert!(whole["stores"][0]["error"].as_str().unwrap().contains("manifest.json"));
}

#[test]
fn looking_at_a_checkpoint_changes_nothing_in_it() {
    let shop = Workshop::new();
    let rows = trained(&shop);
    let stray = rows.join("segment-000000000999.rows");
    fs::write(&stray, b"of nobody").unwrap();
    let checkpoint = rows.parent().unwrap().display().to_string();
    assert!(shop.ok(&["inspect", &checkpoint]).contains("table"));
    assert!(stray.exists() && !rows.join("set-aside").exists());
}

#[test]
fn what_is_no_file_is_found_and_stops_nobody() {
    let shop = Workshop::new();
    let rows = trained(&shop);
    let path = rows.display().to_string();
    let segment = first_segment(&rows);
    fs::remove_file(&segment).unwrap();
    assert!(Command::new("mkfifo").arg(&segment).status().unwrap().success());
    assert!(shop.fails(&["store", "check", &path]).contains("1 damaged place;"));
    let message = shop.fails(&["store", "repair", &path, "--into", "new"]);
    assert!(message.contains("in full"), "{message}");
}

#[test]
fn a_repair_neither_writes_into_its_source_nor_passes_for_whole_half_way() {
    let shop = Workshop::new();
    let rows = trained(&shop);
    let path = rows.display().to_string();
    let inside = rows.join("new").display().to_string();
    let message = shop.fails(&["store", "repair", &path, "--into", &inside]);
    assert!(message.contains("which is to be salvaged"), "{message}");
    fs::create_dir_all(shop.path("out/rows-0.partial")).unwrap();
    fs::copy(rows.join("manifest.json"), shop.path("out/rows-0.partial/manifest.json")).unwrap();
    for place in ["out", "out/rows-0.partial", "out/rows-0.partial/"] {
        let message = shop.fails(&["store", "check", place]);
        assert!(message.contains("interrupted repair"), "{message}");
    }
}

#[test]
fn what_was_set_aside_is_told_and_removed_when_asked() {
    let shop = Workshop::new();
    let rows = trained(&shop);
    let path = rows.display().to_string();
    assert!(shop.ok(&["store", "purge", &path]).contains("0 files removed"));
    let listed = |path: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = listed(&rows);
    let aside = rows.join("set-aside");
    fs::create_dir(&aside).unwrap();
    fs::copy(first_segment(&rows), aside.join("segment-000000000999.rows")).unwrap();
    fs::write(aside.join("manifest.json.2"), b"{}").unwrap();
    fs::write(aside.join("notes"), b"mine").unwrap();
    let told = shop.ok(&["store", "check", &path]);
    assert!(told.contains("2 files") && told.contains("store purge"), "{told}");
    let purged = shop.ok(&["store", "purge", &path]);
    assert!(purged.contains("2 files removed") && purged.contains("notes"), "{purged}");
    assert_eq!(listed(&aside), ["notes"]);
    assert!(!shop.ok(&["store", "check", &path]).contains("store purge"));
    fs::remove_dir_all(&aside).unwrap();
    assert_eq!(listed(&rows), before, "nothing else is touched");
    fs::create_dir(shop.path("empty")).unwrap();
    // As JSON for each store, even if others fail.
    fs::create_dir_all(shop.path("two/rows-0/set-aside")).unwrap();
    fs::write(shop.path("two/rows-0/set-aside/manifest.json"), b"{}").unwrap();
    fs::write(shop.path("two/rows-0/segment-000000000001.rows"), b"").unwrap();
    assert!(
        Command::new("cp")
            .arg("-r")
            .arg(&rows)
            .arg(shop.path("two/rows-1"))
            .status()
            .unwrap()
            .success()
    );
    fs::create_dir(shop.path("two/rows-1/set-aside")).unwrap();
    fs::write(shop.path("two/rows-1/set-aside/manifest.json"), b"four").unwrap();
    fs::write(shop.path("two/rows-1/set-aside/notes"), b"mine").unwrap();
    let output = shop.run(&["store", "purge", "two", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stores = json["stores"].as_array().unwrap();
    assert_eq!(stores[0]["directories"], serde_json::json!(["two/rows-0"]));
    assert!(stores[0]["error"].as_str().unwrap().contains("holds no store"), "{json}");
    let removed = serde_json::json!({ "files": 1, "bytes": 4, "others": ["notes"] });
    assert_eq!(stores[1]["removed"], removed);
    assert!(!output.status.success() && shop.path("two/rows-0/set-aside/manifest.json").exists());
    fs::remove_dir_all(shop.path("two/rows-0")).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&shop.ok(&["store", "purge", "two", "--json"])).unwrap();
    assert_eq!(json["stores"][0]["removed"]["files"], 0);
    assert!(shop.fails(&["store", "purge", "empty"]).contains("holds no store"));
    assert!(shop.fails(&["store", "purge", "nowhere"]).contains("is not a directory"));
}

#[test]
fn checkpoints_that_were_set_aside_are_told_and_removed_when_asked() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 400);
    let train = args(&[&data], &["--checkpoint", "saved", "--tiers.segment=64KiB"]);
    shop.ok(&train);
    shop.ok(&[&train[..], &["--force"]].concat());
    let told = shop.ok(&["store", "purge", "saved"]);
    let command = "`stepwell store purge saved/set-aside-1` removes it";
    assert!(told.starts_with("saved/set-aside-1: ") && told.contains(command), "{told}");
    let aside = shop.path("saved/set-aside-1");
    let step = fs::read_dir(&aside).unwrap().flatten().next().unwrap().path();
    // A copy belongs to the user.
    let copy = aside.join("step-000000000001");
    assert!(Command::new("cp").arg("-r").args([&step, &copy]).status().unwrap().success());
    let purged = shop.ok(&["store", "purge", "saved/set-aside-1"]);
    assert!(purged.contains("files of checkpoints removed, "), "{purged}");
    assert!(purged.contains("step-000000000001 was not made there by a run, and is kept"));
    assert!(!step.exists() && copy.join("dense.bin").exists());
    fs::remove_dir_all(copy).unwrap();
    fs::remove_dir(&aside).unwrap();
    shop.ok(&[&train[..], &["--force"]].concat());
    let purged = shop.ok(&["store", "purge", "saved/set-aside-1", "--json"]);
    let purged: serde_json::Value = serde_json::from_str(&purged).unwrap();
    assert!(purged["checkpoints"][0]["files"].as_u64().unwrap() > 3, "{purged}");
    assert!(!aside.exists());
    assert_eq!(shop.ok(&["store", "purge", "saved"]), "nothing was set aside there\n");
    shop.ok(&["eval", "saved"]);
}
