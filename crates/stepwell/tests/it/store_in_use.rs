//! `stepwell store` during runs, and on whole checkpoints.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{SMALL, TINY, Workshop};

/// A run that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `look` finds something.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "nothing came");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A run that does not end by itself, with its rows in `ssd` and checkpoints in `saved`.
fn start(shop: &Workshop) -> Running {
    let data = shop.examples("data.tsv", 2000);
    let mut args = vec!["train", "--data", &data, "--data.epochs", "100000"];
    args.extend(["--checkpoint", "saved", "--checkpoint.every", "20", "--checkpoint.keep", "9999"]);
    args.extend(["--tiers.ssd", "ssd"]);
    args.extend(SMALL);
    args.extend(TINY);
    let mut command = shop.command(&args);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn checkpoints(shop: &Workshop) -> Vec<PathBuf> {
    let listed = fs::read_dir(shop.path("saved")).into_iter().flatten();
    let mut found: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("step-"));
    found.sort();
    found
}

#[test]
fn a_store_that_a_run_has_open_is_in_use() {
    let shop = Workshop::new();
    let mut run = start(&shop);
    let checkpoint = until(|| checkpoints(&shop).into_iter().next());
    for directory in ["ssd", "ssd/rows-0"] {
        let message = shop.fails(&["store", "check", directory]);
        assert!(message.contains("ssd/rows-0 is in use"), "{message}");
        let message = shop.fails(&["store", "repair", directory, "--into", "new"]);
        assert!(message.contains("is in use") && !shop.path("new").exists(), "{message}");
    }
    let message = shop.fails(&["store", "check", "saved", "ssd/rows-0"]);
    assert!(message.contains("ssd/rows-0 has a manifest"), "{message}");
    // With any of a store's directories.
    fs::create_dir(shop.path("second")).unwrap();
    let lock = fs::File::create(shop.path("second/store.lock")).unwrap();
    lock.lock().unwrap();
    let rows = checkpoint.join("rows-0").display().to_string();
    let message = shop.fails(&["store", "check", &rows, "second"]);
    assert!(message.contains("second is in use"), "{message}");
    drop(lock);
    // The run does not have the checkpoint open.
    let path = checkpoint.display().to_string();
    assert!(shop.ok(&["store", "check", &path]).contains("rows-0: commit"));
    assert!(!checkpoint.join("rows-0").join("store.lock").exists());
    assert!(run.0.try_wait().unwrap().is_none(), "the run continues");
    drop(run);
    // The lock file that the killed run left does not block.
    assert!(shop.path("ssd/rows-0/store.lock").exists());
    let printed = shop.ok(&["store", "check", "ssd"]);
    assert!(printed.contains("whole") && !printed.contains("DAMAGED"), "{printed}");
    shop.ok(&["store", "repair", "ssd", "--into", "new"]);
    assert!(!shop.path("new/rows-0/store.lock").exists());
}

/// Everything below a directory, by name and inode.
fn all_below(path: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap().flatten() {
        found.push((entry.path(), std::os::unix::fs::DirEntryExt::ino(&entry)));
        if entry.path().is_dir() {
            found.extend(all_below(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn force_does_not_start_inside_the_store_of_a_run() {
    let shop = Workshop::new();
    let mut run = start(&shop);
    until(|| checkpoints(&shop).into_iter().next());
    fs::create_dir(shop.path("mine")).unwrap();
    let mut train = vec!["train", "--data", "data.tsv"];
    train.extend(SMALL);
    let cases: [&[&str]; 7] = [
        &["--tiers.ssd", "ssd/rows-0", "--force"],
        &["--tiers.ssd", "ssd/rows-0"],
        &["--tiers.ssd", "ssd/rows-0/new/one", "--force"],
        &["--tiers.ssd", "mine/../ssd/rows-0", "--force", "--checkpoint", "mine"],
        &["--checkpoint", "ssd/rows-0", "--force"],
        &["--checkpoint", "ssd/rows-0/new", "--resume=auto"],
        &["--tiers.ssd", "ssd", "--force"],
    ];
    for case in cases {
        let message = shop.fails(&[&train, case].concat());
        assert!(message.contains("choose another directory"), "{case:?}: {message}");
        assert!(message.contains("/ssd") || message.contains(" ssd "), "{case:?}: {message}");
        assert!(case[1] == "ssd" || message.contains("ssd/rows-0 is a store"), "{message}");
        let inside = ["rows-0", "new", ".lock"].map(|name| shop.path("ssd/rows-0").join(name));
        assert!(inside.iter().all(|path| !path.exists()), "{case:?}");
    }
    assert!(run.0.try_wait().unwrap().is_none(), "the run continues");
    drop(run);
    // A killed run's store is still its store.
    let message = shop.fails(&[&train, cases[0]].concat());
    assert!(message.contains("ssd/rows-0 is a store"), "{message}");
}

/// Takes a shared lock on a file, like a reader, until it is dropped.
fn read(file: &Path) -> fs::File {
    let file = fs::File::open(file).unwrap();
    file.lock_shared().unwrap();
    file
}

#[test]
fn force_moves_nothing_that_somebody_reads() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let mut train = vec!["train", "--data", &data, "--checkpoint", "saved", "--tiers.ssd", "ssd"];
    train.extend(["--checkpoint.every", "9"]);
    train.extend(SMALL);
    shop.ok(&train);
    train.push("--force");
    let (saved, ssd) = (shop.path("saved"), shop.path("ssd"));
    let before = [all_below(&saved), all_below(&ssd)];
    let newest = checkpoints(&shop).pop().unwrap();
    for held in [newest.join(".stepwell"), ssd.join("rows-0/store.lock")] {
        let reader = read(&held);
        let message = shop.fails(&train);
        let name = held.parent().unwrap().strip_prefix(shop.path("")).unwrap();
        assert!(message.contains(&name.display().to_string()), "{message}");
        assert!(message.contains("wait for that to end"), "{message}");
        let mut after = [all_below(&saved), all_below(&ssd)];
        // The locks of directories stay.
        for (after, before) in after.iter_mut().zip(&before) {
            after.retain(|of| !of.0.ends_with(".lock") || before.contains(of));
        }
        assert_eq!(after, before, "{}", held.display());
        drop(reader);
    }
    let oldest = checkpoints(&shop).remove(0);
    shop.ok(&train);
    let name = oldest.file_name().unwrap();
    assert!(saved.join("set-aside-1").join(name).join("checkpoint.json").exists());
    assert!(ssd.join("set-aside-1/rows-0/manifest.json").exists());
}

/// A checkpoint of a run, and the same run's arguments.
fn trained(shop: &Workshop) -> PathBuf {
    let data = shop.examples("data.tsv", 1500);
    let mut args = vec!["train", "--data", &data, "--checkpoint", "saved"];
    args.extend(SMALL);
    shop.ok(&args);
    checkpoints(shop).pop().unwrap()
}

fn flipped(path: &Path, at: usize, bit: u8) -> Vec<u8> {
    let before = fs::read(path).unwrap();
    let mut bytes = before.clone();
    bytes[at] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
    before
}

#[test]
fn all_of_a_checkpoint_is_checked() {
    let shop = Workshop::new();
    let checkpoint = trained(&shop);
    let path = checkpoint.display().to_string();
    let printed = shop.ok(&["store", "check", &path]);
    for part in ["checkpoint.json", "dense.bin", "CHECKSUMS", "rows-0"] {
        let of_part = |line: &&str| line.contains(part);
        let lines: Vec<&str> = printed.lines().filter(of_part).collect();
        assert!(lines.len() == 1 && lines[0].ends_with(": whole"), "{part}: {printed}");
    }
    let rows = fs::read_dir(checkpoint.join("rows-0")).unwrap();
    let rows = rows.map(|entry| format!("rows-0/{}", entry.unwrap().file_name().display()));
    let files: Vec<String> = ["checkpoint.json", "dense.bin", "CHECKSUMS"]
        .map(str::to_owned)
        .into_iter()
        .chain(rows)
        .collect();
    assert!(files.len() > 4, "{files:?}");
    for name in &files {
        let file = checkpoint.join(name);
        let length = fs::metadata(&file).unwrap().len() as usize;
        for (at, bit) in [(0, 0), (length / 3, 4), (length - 1, 1)] {
            let before = flipped(&file, at, bit);
            let output = shop.run(&["store", "check", &path]);
            let (printed, error) = (
                String::from_utf8_lossy(&output.stdout).into_owned(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            );
            assert!(!output.status.success(), "byte {at} of {name}: {printed}");
            assert_eq!(error.trim_end().lines().count(), 1, "{error}");
            let of_rows = name.starts_with("rows-0");
            let wrong = printed.contains("NOT WHOLE") || printed.contains("DAMAGED");
            assert!(wrong || error.contains("manifest.json"), "{name}: {printed}{error}");
            assert_eq!(printed.contains("NOT WHOLE"), !of_rows, "{name}: {printed}{error}");
            fs::write(&file, before).unwrap();
        }
        // A missing file and a truncated one.
        let before = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        shop.fails(&["store", "check", &path]);
        fs::write(&file, &before[..length / 2]).unwrap();
        shop.fails(&["store", "check", &path]);
        fs::write(&file, before).unwrap();
    }
    fs::rename(checkpoint.join("rows-0"), shop.path("elsewhere")).unwrap();
    let message = shop.fails(&["store", "check", &path]);
    assert!(message.contains("rows-0, with a table's rows, is missing"), "{message}");
    let message = shop.fails(&["store", "repair", &path, "--into", "new"]);
    assert!(message.contains("holds no rows"), "{message}");
    fs::rename(shop.path("elsewhere"), checkpoint.join("rows-0")).unwrap();
    assert!(shop.ok(&["store", "check", &path]).contains("whole"));
    let output = shop.run(&["store", "check", &path, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["checkpoint"]["step"].as_u64() > Some(0), "{json}");
    assert_eq!(json["checkpoint"]["errors"], serde_json::json!([]));
}

#[test]
fn salvaged_rows_do_not_make_a_checkpoint_whole() {
    let shop = Workshop::new();
    let checkpoint = trained(&shop);
    let path = checkpoint.display().to_string();
    flipped(&checkpoint.join("dense.bin"), 40, 3);
    let message = shop.fails(&["store", "repair", &path, "--into", "new"]);
    assert!(message.contains("only rows") && message.contains("dense.bin"), "{message}");
    assert!(shop.ok(&["store", "check", "new"]).contains("rows-0: commit"));
}

#[test]
fn a_repair_that_goes_on_is_in_use_and_not_cut_short() {
    let shop = Workshop::new();
    let checkpoint = trained(&shop);
    let rows = checkpoint.join("rows-0").display().to_string();
    let repair = ["store", "repair", &rows, "--into", "new"];
    fs::create_dir(shop.path("new.partial")).unwrap();
    fs::write(shop.path("new.partial/segment-000000000001.rows"), b"some").unwrap();
    let lock = fs::File::create(shop.path("new.partial/repair.lock")).unwrap();
    lock.lock().unwrap();
    let check = ["store", "check", "new.partial"];
    for args in [&repair[..], &check] {
        let message = shop.fails(args);
        assert!(message.contains("new.partial is in use: a repair"), "{message}");
        assert!(!message.contains("remove it"), "{message}");
    }
    drop(lock);
    for args in [&repair[..], &check] {
        let message = shop.fails(args);
        assert!(message.contains("new.partial is left from an interrupted repair"), "{message}");
    }
    assert!(shop.path("new.partial/segment-000000000001.rows").exists());
    fs::remove_dir_all(shop.path("new.partial")).unwrap();
    shop.ok(&repair);
    assert!(!shop.path("new/repair.lock").exists() && !shop.path("new.partial").exists());
    // Several at once: one does it, and the others report that it is in use.
    for round in 0..10 {
        let into = format!("new-{round}");
        let start = |_| {
            let mut command = shop.command(&["store", "repair", &rows, "--into", &into]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let started: Vec<Child> = (0..3).map(start).collect();
        let ended: Vec<_> =
            started.into_iter().map(|run| run.wait_with_output().unwrap()).collect();
        assert_eq!(ended.iter().filter(|run| run.status.success()).count(), 1);
        for run in ended {
            let error = String::from_utf8_lossy(&run.stderr);
            assert!(!error.contains("remove it"), "{error}");
        }
        assert!(shop.ok(&["store", "check", &into]).contains("whole"));
    }
}

#[test]
fn what_is_no_place_for_a_new_store_is_named_before_anything_is_salvaged() {
    let shop = Workshop::new();
    let checkpoint = trained(&shop);
    fs::write(shop.path("run.toml"), b"seed = 1").unwrap();
    for store in [checkpoint.clone(), checkpoint.join("rows-0")] {
        let store = store.display().to_string();
        for into in ["run.toml", "run.toml/new"] {
            let message = shop.fails(&["store", "repair", &store, "--into", into]);
            assert!(message.contains("run.toml is not a directory"), "{message}");
            assert!(message.contains("--out names a new directory"), "{message}");
        }
    }
    assert!(!shop.path("run.toml.partial").exists());
}
