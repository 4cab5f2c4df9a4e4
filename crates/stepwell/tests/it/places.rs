//! Directories given to a run: the user's files stay, and unsuitable directories are refused.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::process::Command;

use crate::common::{SMALL, TINY, Workshop};

fn train<'a>(data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--data", data];
    args.extend(SMALL);
    args.extend(TINY);
    args.extend(more);
    args
}

const BOTH: [&str; 4] = ["--checkpoint", "saved", "--tiers.ssd", "rows"];

fn newest(shop: &Workshop) -> String {
    let entries = fs::read_dir(shop.path("saved")).unwrap().flatten();
    let whole = entries.filter(|entry| entry.path().join("checkpoint.json").exists());
    let names = whole.map(|entry| entry.file_name().into_string().unwrap());
    format!("saved/{}", names.filter(|name| name.starts_with("step-")).max().unwrap())
}

#[test]
fn resuming_removes_rows_of_runs_alone() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    shop.ok(&train(&data, &BOTH));
    for kept in ["rows/rows-important/a", "rows/rows-7/b"] {
        fs::create_dir_all(shop.path(kept)).unwrap();
    }
    let mut resumed = train(&data, &BOTH);
    resumed.push("--resume");
    let said = shop.notes(&resumed);
    assert!(said.contains("set aside into rows/set-aside-1"), "{said}");
    assert!(shop.path("rows/rows-important/a").is_dir());
    assert!(shop.path("rows/set-aside-1/rows-7/b").is_dir());
    assert!(!shop.path("rows/set-aside-1/rows-0").exists());
    let said = shop.notes(&resumed);
    assert!(!said.contains("set aside"), "{said}");
    // Without a checkpoint to restore them from, a run's rows are not removed either.
    fs::rename(shop.path("saved"), shop.path("elsewhere")).unwrap();
    *resumed.last_mut().unwrap() = "--resume=auto";
    let said = shop.notes(&resumed);
    assert!(said.contains("set aside into rows/set-aside-2"), "{said}");
    assert!(shop.path("rows/set-aside-2/rows-0/manifest.json").exists());
}

#[test]
fn rows_that_were_set_aside_are_told_and_go_when_asked() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let run = train(&data, &["--tiers.ssd", "rows", "--report", "report.json"]);
    let said = shop.ok(&run);
    assert!(!said.contains("store purge"), "{said}");
    assert_eq!(shop.report("report.json")["tiers"]["disk"]["set_aside"], serde_json::json!([]));
    let forced = [&run[..], &["--force"]].concat();
    shop.ok(&forced);
    fs::write(shop.path("rows/set-aside-1/rows-0/notes"), b"mine").unwrap();
    let said = shop.ok(&forced);
    let report = shop.report("report.json");
    let aside = report["tiers"]["disk"]["set_aside"].as_array().unwrap();
    assert_eq!(aside.len(), 2);
    for (found, directory) in aside.iter().zip(["rows/set-aside-1", "rows/set-aside-2"]) {
        assert_eq!(found["directory"], directory);
        assert!(found["files"].as_u64() > Some(1) && found["bytes"].as_u64() > Some(0), "{found}");
        assert!(said.contains(&format!("`stepwell store purge {directory}`")), "{said}");
    }
    // Purging the run's own rows lists rows that were set aside and does not remove them.
    let purged = shop.ok(&["store", "purge", "rows"]);
    assert!(purged.contains("rows/rows-0: 0 files removed"), "{purged}");
    for found in aside {
        let (directory, files) = (found["directory"].as_str().unwrap(), &found["files"]);
        assert!(purged.contains(&format!("{directory}: {files} files, ")), "{purged}");
        assert!(
            purged.contains(&format!("`stepwell store purge {directory}` removes")),
            "{purged}"
        );
    }
    let json: serde_json::Value =
        serde_json::from_str(&shop.ok(&["store", "purge", "rows", "--json"])).unwrap();
    assert_eq!(json["set_aside"].as_array(), Some(aside));
    // Directories of several stores are not taken for one store's.
    for (one, other, named) in [
        ("rows/rows-0", "rows/set-aside-1", "rows/set-aside-1 holds other stores"),
        ("rows/set-aside-1", "rows/rows-0", "rows/set-aside-1 holds other stores"),
        ("rows/rows-0", "rows/set-aside-1/rows-0", "rows/set-aside-1/rows-0 has a manifest"),
        ("rows/set-aside-2", "rows/set-aside-1", "rows/set-aside-2 holds other stores"),
    ] {
        for job in [&["check"][..], &["purge"], &["repair", "--into", "new"]] {
            let message = shop.fails(&[&["store"], job, &[one, other]].concat());
            assert!(
                message.contains(named) && message.contains("one store at a time"),
                "{message}"
            );
        }
    }
    // A store that is being checked stays unchanged.
    let lock = fs::File::open(shop.path("rows/set-aside-2/rows-0/store.lock")).unwrap();
    lock.lock_shared().unwrap();
    assert!(shop.fails(&["store", "purge", "rows/set-aside-2"]).contains("is in use"));
    drop(lock);
    shop.ok(&["store", "check", "rows/set-aside-2"]);
    let purged = shop.ok(&["store", "purge", "rows/set-aside-2"]);
    assert!(!purged.contains(" 0 files") && !shop.path("rows/set-aside-2").exists(), "{purged}");
    shop.ok(&["store", "purge", "rows/set-aside-1/rows-0", "--json"]);
    let mine = shop.path("rows/set-aside-1/rows-0");
    assert_eq!(fs::read_dir(&mine).unwrap().count(), 1, "nothing but what is the user's");
    assert_eq!(fs::read(mine.join("notes")).unwrap(), b"mine");
    // Rows that were not set aside stay.
    assert!(shop.ok(&["store", "purge", "rows"]).contains("0 files removed"));
    assert!(shop.ok(&["store", "check", "rows"]).contains("whole"));
}

#[test]
fn a_segment_that_is_missing_is_named() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    shop.ok(&train(&data, &BOTH));
    let rows = format!("{}/rows-0", newest(&shop));
    let listed = fs::read_dir(shop.path(&rows)).unwrap();
    let mut names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let segment = format!("{rows}/{}", names.find(|name| name.starts_with("segment-")).unwrap());
    fs::remove_file(shop.path(&segment)).unwrap();
    let message = shop.fails(&train(&data, &[&BOTH[..], &["--resume"]].concat()));
    assert!(message.contains(&format!("cannot link {segment}: ")), "{message}");
}

#[test]
fn evaluating_leaves_directories_alone() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    shop.ok(&train(&data, &BOTH));
    let before: Vec<_> = fs::read_dir(shop.path("rows/rows-0")).unwrap().flatten().collect();
    let set = ["--set", "tiers.ssd=rows", "--set", "checkpoint.dir=saved"];
    let mut args = vec!["eval", "saved", "--data", &data];
    args.extend(set);
    shop.ok(&args);
    let after: Vec<_> = fs::read_dir(shop.path("rows/rows-0")).unwrap().flatten().collect();
    assert_eq!(before.len(), after.len());
    assert!(!shop.path("rows/set-aside-1").exists());
}

#[test]
fn what_a_user_keeps_beside_checkpoints_is_neither_taken_nor_removed() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let users = [".incomplete-old", "step-000000000007", "step-7", "notes"];
    for name in users {
        fs::create_dir_all(shop.path(&format!("saved/{name}"))).unwrap();
        fs::write(shop.path(&format!("saved/{name}/mine")), name).unwrap();
    }
    let kept = ["--checkpoint.every", "10", "--checkpoint.keep", "1"];
    shop.ok(&train(&data, &[&BOTH[..2], &kept].concat()));
    // A user's copy with a name that would make it the newest.
    let (own, copy) = (newest(&shop), "saved/step-000000009999");
    let copying = [shop.path(&own), shop.path(copy)];
    assert!(Command::new("cp").arg("-r").args(copying).status().unwrap().success());
    let more = ["--resume", "--data.epochs", "2"];
    let said = shop.said(&train(&data, &[&BOTH[..2], &kept, &more].concat()));
    assert!(said.contains(&format!("from {own}")), "{said}");
    assert!(said.contains(&format!("{copy} is not a complete checkpoint of that step")), "{said}");
    assert!(shop.ok(&["eval", "saved"]).lines().next().unwrap().contains("saved/step-0000000000"));
    for name in users {
        let mine = shop.path(&format!("saved/{name}/mine"));
        assert_eq!(fs::read_to_string(mine).unwrap(), name);
    }
    assert!(shop.path(copy).join("checkpoint.json").exists());
    assert!(!shop.path(&own).exists(), "its own are kept to their number");
    // If it is named itself, it is used.
    assert!(shop.ok(&["eval", copy]).contains("after step"));
}

#[test]
fn a_checkpoint_is_no_place_for_rows() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    shop.ok(&train(&data, &BOTH));
    let checkpoint = newest(&shop);
    for more in [&["--resume"][..], &["--force"], &[]] {
        let mut args = train(&data, &["--tiers.ssd", &checkpoint]);
        args.extend(if more == ["--resume"] { &BOTH[..2] } else { &[] });
        args.extend(more);
        let error = shop.fails(&args);
        assert!(error.contains("is a checkpoint") && error.contains("tiers.ssd"), "{error}");
    }
    shop.ok(&["eval", "saved"]);
    let error = shop.fails(&train(&data, &["--checkpoint", "one", "--tiers.ssd", "one"]));
    assert!(error.contains("choose two directories"), "{error}");
    fs::create_dir(shop.path("two")).unwrap();
    let error = shop.fails(&train(&data, &["--checkpoint", "two", "--tiers.ssd", "./two"]));
    assert!(error.contains("choose two directories"), "{error}");
}

#[test]
fn an_index_that_no_checkpoint_fits_is_refused_before_training() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let small = ["--set", "tiers.index=100000"];
    let mut args = train(&data, &["--checkpoint", "saved"]);
    args.extend(small);
    let error = shop.fails(&args);
    assert!(error.contains("too small for a checkpoint"), "{error}");
    assert!(
        !shop.path("saved").exists()
            || fs::read_dir(shop.path("saved")).unwrap().all(|entry| !entry
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with("step-"))
    );
    args[0] = "plan";
    assert!(shop.fails(&args).contains("too small for a checkpoint"));
    // The size in the message is enough.
    let words: Vec<&str> = error.split_whitespace().collect();
    let at = words.windows(3).position(|three| three == ["raise", "tiers.index", "to"]).unwrap();
    let named = format!("tiers.index={}", words[at + 3]);
    args[0] = "train";
    let last = args.len() - 1;
    args[last] = &named;
    shop.ok(&args);
    let error = shop.fails(&train(&data, &["--set", "tiers.index=1000"]));
    assert!(error.contains("tiers.index") && error.contains("at least 65536"), "{error}");
    for (setting, key) in [("tiers.space=1", "tiers.space"), ("tiers.segment=1", "tiers.segment")] {
        let error = shop.fails(&train(&data, &["--set", setting]));
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn a_horizon_that_somebody_chose_is_kept() {
    let shop = Workshop::new();
    let known = |args: &[&str]| {
        let said = shop.ok(args);
        let line = said.lines().find(|line| line.contains("planning")).unwrap().to_owned();
        line.split_whitespace().rev().nth(3).unwrap().parse::<usize>().unwrap()
    };
    fs::write(shop.path("chosen.toml"), "[pipeline]\nlookahead = 10\nhorizon = 12\n").unwrap();
    fs::write(shop.path("open.toml"), "[pipeline]\nlookahead = 40\n").unwrap();
    assert_eq!(known(&["plan", "chosen.toml"]), 13);
    assert_eq!(known(&["plan", "open.toml"]), 81);
    assert_eq!(known(&["plan", "open.toml", "--set", "pipeline.horizon =41"]), 42);
    assert_eq!(known(&["plan", "open.toml", "--pipeline.horizon", "44"]), 45);
    assert_eq!(known(&["plan", "--pipeline.lookahead", "40"]), 81);
    assert_eq!(known(&["plan", "--pipeline.lookahead", "10"]), 65);
    let batches = ["plan", "--data.mini_batch", "100", "--data.batch", "1000"];
    assert_eq!(known(&batches), 80, "seven batches, and the one that is planned");
}

#[test]
fn a_disk_without_room_is_told_before_the_first_step() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    fs::create_dir(shop.path("small")).unwrap();
    let within = |script: &str, args: &[&str]| {
        let mut command = Command::new("unshare");
        let script = format!("mount -t tmpfs -o size=16k none small && {script}");
        command.args(["-rm", "sh", "-c", &script, env!("CARGO_BIN_EXE_stepwell")]).args(args);
        command.current_dir(shop.path("")).output()
    };
    if !within("true", &[]).is_ok_and(|output| output.status.success()) {
        return stepwell_skip::skipped("mounts of its own (unshare -rm)");
    }
    let refused = |more: &[&str]| {
        let mut args = vec!["train", "--data", &data, "--tiers.segment", "64KiB"];
        args.extend(SMALL);
        args.extend(more);
        let output = within("exec \"$0\" \"$@\"", &args).unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let lines = error.lines().filter(|line| !line.starts_with("stepwell: note: "));
        assert_eq!((output.status.code(), lines.count()), (Some(2), 1), "{error}");
        error
    };
    let saved = refused(&["--checkpoint", "small/saved", "--tiers.ssd", "rows"]);
    assert!(saved.contains("checkpoint.dir = small/saved: its file system has "), "{saved}");
    assert!(saved.contains("for the dense part of one checkpoint"), "{saved}");
    let rows = refused(&["--checkpoint", "saved", "--tiers.ssd", "small/rows"]);
    assert!(rows.contains("tiers.ssd = small/rows") && rows.contains("for segments"), "{rows}");
}
