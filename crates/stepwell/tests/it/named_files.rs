//! Every file that a command can read: a wrong one fails at once with one line that names it, and
//! no command waits for a pipe or a device.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{SMALL, Workshop, lines_beside_notes};

/// Far more time than it takes in parallel with other tests, and far less than forever.
const LONGEST: Duration = Duration::from_secs(60);

/// The error of the program, which must fail soon with `status`.
fn refused(shop: &Workshop, args: &[&str], status: i32) -> String {
    let mut command: Command = shop.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut child, began) = (command.spawn().unwrap(), Instant::now());
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > LONGEST {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{args:?} does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(status), "{args:?}: {error}");
    assert_eq!(lines_beside_notes(&error), 1, "{args:?}: {error}");
    error
}

/// A shop with wrong files of every kind, named by their kinds.
fn workshop() -> Workshop {
    let shop = Workshop::new();
    shop.examples("data.tsv", 100);
    assert!(Command::new("mkfifo").arg(shop.path("pipe")).status().unwrap().success());
    fs::create_dir(shop.path("folder")).unwrap();
    fs::write(shop.path("empty"), "").unwrap();
    let garbage: Vec<u8> = (0..3000u32).map(|at| (at * at % 251) as u8 | 0x80).collect();
    fs::write(shop.path("garbage"), garbage).unwrap();
    fs::write(shop.path("control"), "\u{1b}[31m\n=\n").unwrap();
    shop
}

const FILES: [&str; 7] =
    ["pipe", "/dev/zero", "folder", "missing", "empty", "garbage", "data.tsv/below"];

#[test]
fn what_no_command_can_read_is_named_at_once() {
    let shop = workshop();
    let mut limits = vec!["train", "--data", "data.tsv", "--report", "report.json"];
    limits.extend(SMALL);
    let commands: [&[&str]; 9] = [
        &["train", "--data"],
        &["train", "--data", "data.tsv", "--data.eval_paths"],
        &["plan", "--data"],
        &["convert", "--out", "packed"],
        &["eval"],
        &["inspect"],
        &["store", "check"],
        &["store", "repair", "--into", "new"],
        &[&limits[..], &["--limits"]].concat(),
    ];
    for args in commands {
        for file in FILES {
            // A plan does not read its data.
            if file == "garbage" && args[0] == "plan" {
                continue;
            }
            // Data that is there but cannot be read is a failure. Other paths must be usable.
            let is_data = args[0] == "plan" || args[0] == "convert" || args.ends_with(&["--data"]);
            let is_data = is_data || args.ends_with(&["--data.eval_paths"]);
            let is_there = !["missing", "data.tsv/below"].contains(&file);
            let status = if is_data && is_there { 1 } else { 2 };
            let error = refused(&shop, &[args, &[file]].concat(), status);
            assert!(error.contains(file), "{args:?} {file}: {error}");
            assert!(!shop.path("packed").exists() && !shop.path("new").exists(), "{args:?}");
        }
    }
    assert!(!shop.path("report.json").exists());
}

#[test]
fn settings_are_read_from_files_alone() {
    let shop = workshop();
    for command in ["train", "plan"] {
        for (file, why) in [
            ("pipe", "is a pipe or a device"),
            ("/dev/zero", "is a pipe or a device"),
            ("folder", "is a directory"),
            ("missing", "does not exist"),
            ("garbage", "is not UTF-8 text"),
            ("control", "control:1: "),
            ("data.tsv", "data.tsv:1: "),
        ] {
            let error = refused(&shop, &[command, file], 2);
            assert!(error.contains(file) && error.contains(why), "{error}");
        }
    }
    // An empty settings file is valid.
    shop.ok(&["plan", "empty"]);
    fs::write(shop.path("large"), vec![b'\n'; (16 << 20) + 1]).unwrap();
    let error = refused(&shop, &["plan", "large"], 2);
    assert!(error.contains("large: has 16777217 bytes"), "{error}");
}

#[test]
fn a_report_may_go_into_a_pipe() {
    let shop = workshop();
    let reader = shop.path("pipe");
    let read = thread::spawn(move || fs::read_to_string(reader).unwrap());
    let mut args = vec!["train", "--data", "data.tsv", "--report", "pipe"];
    args.extend(SMALL);
    shop.ok(&args);
    let report: serde_json::Value = serde_json::from_str(&read.join().unwrap()).unwrap();
    assert!(report["model_digest"].is_string());
}
