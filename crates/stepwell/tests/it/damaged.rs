//! Damaged checkpoints, read by every command that reads checkpoints.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{TINY, Workshop, args};

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_name() == "ENDED" {
            // The file only marks the run as ended, so nothing is lost.
            continue;
        }
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

/// If any file of a checkpoint is changed, truncated or missing, a command that reads it fails with
/// one line and leaves nothing; a command that does not read it succeeds.
#[test]
fn whatever_is_damaged_is_one_line() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let more = ["--checkpoint=saved", "--rows.history=true", "--ranks=2", "--threads=1"];
    shop.ok(&args(&[&data], &[&TINY[..], &more].concat()));
    shop.ok(&["export", "saved", "--to", "tensors", "--state"]);
    let mut entries = fs::read_dir(shop.path("saved")).unwrap().map(|entry| entry.unwrap().path());
    let checkpoint = entries.find(|path| path.is_dir()).unwrap();
    let commands: [&[&str]; 7] = [
        &["inspect", "saved", "--json"],
        &["eval", "saved", "--data", &data, "--digest"],
        &["predict", "saved", "--data", &data, "--out", "scores.csv"],
        &["export", "saved", "--to", "out", "--format", "parquet"],
        &["diff", "saved", "whole"],
        &["diff", "whole", "saved"],
        &["import", "tensors", "--like", "saved", "--to", "out"],
    ];
    let places = [shop.path("saved"), shop.path("whole")];
    assert!(Command::new("cp").arg("-r").args(places).status().unwrap().success());
    for path in files(&checkpoint) {
        let whole = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == ".stepwell" {
            continue;
        }
        let of_rows = path.parent().unwrap() != checkpoint;
        // The first page of rows is never empty.
        let at = if name.starts_with("segment") { 4096 + 200 } else { whole.len() / 2 };
        let mut changed = whole.clone();
        changed[at] ^= 4;
        for bytes in [Some(&changed[..]), Some(&whole[..at]), None] {
            match bytes {
                Some(bytes) => fs::write(&path, bytes).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            for command in commands {
                let output = shop.run(command);
                let error = String::from_utf8_lossy(&output.stderr);
                let what = format!("{name}, {:?}, {command:?}: {error}", bytes.map(<[u8]>::len));
                assert!(!error.contains("panicked"), "{what}");
                let said = error.lines().filter(|line| line.starts_with("stepwell: "));
                let said = said.filter(|line| !line.starts_with("stepwell: note: ")).count();
                if command[0] == "import" && of_rows {
                    assert!(output.status.success(), "{what}");
                } else if !(command[0] == "inspect" && name == "manifest.json") {
                    // A store without a manifest may be empty, and a directory without
                    // checkpoint.json is not a checkpoint.
                    let is_none = name == "checkpoint.json" && bytes.is_none();
                    let status = if is_none { 2 } else { 3 };
                    assert_eq!((output.status.code(), said), (Some(status), 1), "{what}");
                    assert!(!shop.path("out").exists() && !shop.path("scores.csv").exists());
                }
                let _ = fs::remove_dir_all(shop.path("out"));
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    shop.ok(&["diff", "saved", "whole"]);
}
