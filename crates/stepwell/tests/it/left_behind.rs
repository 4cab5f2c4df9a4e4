//! What commands leave behind when they are killed, fail or run out of space.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Workshop, args};

/// Hidden names in the workshop.
fn hidden(shop: &Workshop) -> Vec<String> {
    let names = fs::read_dir(shop.path("")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

/// Makes a checkpoint and its tensors.
fn trained(shop: &Workshop) {
    let data = shop.examples("data.tsv", 4000);
    shop.ok(&args(&[&data], &["--checkpoint=saved", "--rows.history=true"]));
    shop.ok(&["export", "saved", "--to", "tensors", "--state"]);
}

/// Number of entries in the first hidden directory; `None` without one.
fn begun(shop: &Workshop) -> Option<usize> {
    Some(fs::read_dir(shop.path(hidden(shop).first()?)).ok()?.count())
}

/// Runs a command and kills it when its unfinished directory has so many entries; repeats until it
/// leaves exactly that.
fn leave(shop: &Workshop, args: &[&str], entries: usize) {
    for _ in 0..100 {
        let mut command = shop.command(args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let since = Instant::now();
        while begun(shop).is_none_or(|found| found < entries) && child.try_wait().unwrap().is_none()
        {
            assert!(since.elapsed() < Duration::from_secs(60), "{args:?}");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let _ = fs::remove_dir_all(shop.path("out"));
        if begun(shop).is_some_and(|found| found >= entries) {
            return;
        }
    }
    panic!("{args:?} never left anything");
}

#[test]
fn what_a_kill_leaves_goes_with_the_next_run_and_nothing_else_does() {
    let shop = Workshop::new();
    trained(&shop);
    let export = ["export", "saved", "--to", "out"];
    let import = ["import", "tensors", "--like", "saved", "--to", "out"];
    for args in [&export[..], &import[..]] {
        for entries in [0, 1, 2] {
            leave(&shop, args, entries);
            shop.ok(args);
            assert_eq!(hidden(&shop), Vec::<String>::new(), "{args:?}");
            fs::remove_dir_all(shop.path("out")).unwrap();
        }
    }
    // Similar directories, and copies of a leftover, belong to the user.
    leave(&shop, &export, 2);
    let copy = shop.path(".out.unfinished-1-0");
    let left = shop.path(&hidden(&shop)[0]);
    assert!(Command::new("cp").arg("-r").args([&left, &copy]).status().unwrap().success());
    fs::create_dir(shop.path(".out.unfinished-2-0")).unwrap();
    fs::write(shop.path(".out.unfinished-2-0/mine"), "mine").unwrap();
    shop.ok(&export);
    let mut names = hidden(&shop);
    names.sort();
    assert_eq!(names, [".out.unfinished-1-0", ".out.unfinished-2-0"]);
}

/// Runs a command until it has begun a file, and sends it a signal; returns status and message.
fn signal_once_begun(shop: &Workshop, args: &[&str], signal: &str) -> (Option<i32>, String) {
    let mut command = shop.command(args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    while hidden(shop).is_empty() && child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < Duration::from_secs(60), "{args:?}");
        std::thread::yield_now();
    }
    // The file that checks whether writing is possible is removed at once.
    std::thread::sleep(Duration::from_millis(100));
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The next command that writes a file removes the partial file of a killed command.
#[test]
fn what_a_kill_leaves_of_a_file_goes_with_the_next_run() {
    let shop = Workshop::new();
    trained(&shop);
    let stream = ["synth", "--out", "out.tsv", "--force", "--examples"];
    let score = ["predict", "saved", "--data", "out.tsv", "--out", "scores.csv"];
    let of = |count: &'static str| [&stream[..], &[count]].concat();
    shop.ok(&of("100000"));
    for (args, again) in [(&score[..], &score[..]), (&of("1000000000"), &of("9"))] {
        let (status, said) = signal_once_begun(&shop, args, "-TERM");
        assert_eq!((status, hidden(&shop)), (Some(143), Vec::new()), "{args:?}: {said}");
        let (_, said) = signal_once_begun(&shop, args, "-KILL");
        assert_eq!(hidden(&shop).len(), 1, "{args:?}: {said}");
        // Writing another file does not remove it, and similar names stay.
        shop.ok(&["inspect", "saved", "--svg", "other.svg"]);
        assert_eq!(hidden(&shop).len(), 1, "{args:?}");
        let mine = hidden(&shop)[0].replace("-0-", "-0a-");
        fs::write(shop.path(&mine), "mine").unwrap();
        shop.ok(again);
        assert_eq!(hidden(&shop), std::slice::from_ref(&mine), "{args:?}");
        fs::remove_file(shop.path(&mine)).unwrap();
    }
}

/// A signal ends a command with one line, and nothing is left behind.
#[test]
fn a_command_that_is_asked_to_stop_leaves_nothing() {
    let shop = Workshop::new();
    trained(&shop);
    let export = ["export", "saved", "--to", "out", "--state", "--format", "parquet"];
    let import = ["import", "tensors", "--like", "saved", "--to", "out"];
    for args in [&export[..], &import[..]] {
        let was_stopped = (0..200).any(|_| {
            let mut command = shop.command(args);
            let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            while begun(&shop).is_none() && !shop.path("out").exists() {
                std::thread::yield_now();
            }
            let id = child.id().to_string();
            Command::new("kill").args(["-TERM", &id]).stderr(Stdio::null()).status().unwrap();
            let output = child.wait_with_output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(hidden(&shop).is_empty(), "{args:?}: {error}");
            let was_stopped = output.status.code() == Some(143);
            match was_stopped {
                true => assert_eq!(error, "stepwell: interrupted: nothing is left of out\n"),
                false => assert!(output.status.success(), "{args:?}: {error}"),
            }
            assert_eq!(shop.path("out").exists(), !was_stopped, "{args:?}");
            let _ = fs::remove_dir_all(shop.path("out"));
            was_stopped
        });
        assert!(was_stopped, "{args:?}");
    }
}

/// Runs the program with a limit of open files.
fn with_files(shop: &Workshop, files: u64, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
    command.arg(env!("CARGO_BIN_EXE_stepwell")).args(args).current_dir(shop.path(""));
    command.env("TMPDIR", shop.path("")).output().unwrap()
}

#[test]
fn few_open_files_are_enough_or_leave_nothing() {
    let shop = Workshop::new();
    trained(&shop);
    let export = |format| ["export", "saved", "--to", "out", "--state", "--format", format];
    let commands: [&[&str]; 5] = [
        &export("safetensors"),
        &export("npy"),
        &export("parquet"),
        &["import", "tensors", "--like", "saved", "--to", "out"],
        &["diff", "saved", "saved"],
    ];
    for args in commands {
        for files in [64, 32, 14, 12, 11, 10, 9, 8] {
            let output = with_files(&shop, files, args);
            let error = String::from_utf8_lossy(&output.stderr);
            if files >= 32 {
                assert!(output.status.success(), "{files}, {args:?}: {error}");
            }
            if !output.status.success() {
                assert_eq!(error.trim_end().lines().count(), 1, "{files}, {args:?}: {error}");
                assert!(!shop.path("out").exists() && error.contains("ulimit -n"), "{error}");
            }
            assert_eq!(hidden(&shop), Vec::<String>::new(), "{files}, {args:?}: {error}");
            let _ = fs::remove_dir_all(shop.path("out"));
        }
    }
}

/// With any number of tables.
#[test]
fn tables_take_no_open_file_each() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let tables = (1..=26).flat_map(|number| {
        [
            format!("--tables.t{number}.dim=4"),
            format!("--features.{number}.columns=C{number}"),
            format!("--features.{number}.table=t{number}"),
        ]
    });
    let tables: Vec<String> = tables.collect();
    let more: Vec<&str> = tables.iter().map(String::as_str).collect();
    shop.ok(&args(&[&data], &[&["--checkpoint=saved"], &more[..]].concat()));
    let commands: [&[&str]; 3] = [
        &["export", "saved", "--to", "tensors", "--state"],
        &["import", "tensors", "--like", "saved", "--to", "out"],
        &["diff", "saved", "out"],
    ];
    for args in commands {
        let output = with_files(&shop, 32, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn files_that_may_not_grow_end_with_one_line_and_leave_nothing() {
    let shop = Workshop::new();
    trained(&shop);
    let export = |format| ["export", "saved", "--to", "out", "--state", "--format", format];
    let import = ["import", "tensors", "--like", "saved", "--to", "out"];
    for args in [&export("safetensors")[..], &export("npy"), &export("parquet"), &import] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 60; exec \"$0\" \"$@\""]);
        command.arg(env!("CARGO_BIN_EXE_stepwell")).args(args).current_dir(shop.path(""));
        let output = command.env("TMPDIR", shop.path("")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("(ulimit -f)"), "{args:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: {error}");
        assert!(hidden(&shop).is_empty() && !shop.path("out").exists(), "{args:?}");
    }
}

/// A small table takes little disk space during its import.
#[test]
fn an_import_takes_little_more_room_than_its_rows() {
    let shop = Workshop::new();
    trained(&shop);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 8000; exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_stepwell"));
    command.args(["import", "tensors", "--like", "saved", "--to", "out"]);
    let output = command.current_dir(shop.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    shop.ok(&["diff", "saved", "out"]);
}

/// Too little memory is an error before anything begins, never an abort.
#[test]
fn too_few_addresses_are_one_line() {
    let shop = Workshop::new();
    trained(&shop);
    let commands: [&[&str]; 4] = [
        &["export", "saved", "--to", "out"],
        &["import", "tensors", "--like", "saved", "--to", "out"],
        &["diff", "saved", "saved"],
        &["inspect", "saved"],
    ];
    for args in commands {
        for kib in [90_000, 130_000, 200_000, 300_000, 1_000_000, 4_000_000] {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -v {kib} && exec \"$0\" \"$@\"")]);
            command.arg(env!("CARGO_BIN_EXE_stepwell")).args(args).current_dir(shop.path(""));
            let output = command.output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                assert_eq!(output.status.code(), Some(1), "{kib}, {args:?}: {error}");
                assert_eq!(error.trim_end().lines().count(), 1, "{kib}, {args:?}: {error}");
                assert!(error.contains("(ulimit -v)") && kib < 4_000_000, "{kib}: {error}");
            }
            assert!(hidden(&shop).is_empty(), "{kib}, {args:?}");
            let _ = fs::remove_dir_all(shop.path("out"));
        }
    }
}
