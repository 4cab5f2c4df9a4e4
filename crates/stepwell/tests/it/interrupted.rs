//! Signals: the first stops a run after the current step, with a checkpoint of exactly that step;
//! the second ends it.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{SMALL, TINY, Workshop};
use stepwell_skip::skipped;

/// Number of moments at which a run is stopped, alternately by SIGINT and SIGTERM.
const MOMENTS: u64 = 12;
const MOMENTS_LONG: u64 = 100;

/// The program with signals as in a terminal, regardless of the test's own.
fn start(shop: &Workshop, args: &[&str]) -> Child {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM").arg(env!("CARGO_BIN_EXE_stepwell")).args(args);
    command.current_dir(shop.path("")).env("TMPDIR", shop.path(""));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn train<'a>(data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--data", data, "--data.epochs", "2"];
    args.extend(SMALL);
    args.extend(TINY);
    args.extend(more);
    args
}

/// Waits until `path` exists while `child` runs.
fn until(child: &mut Child, path: &std::path::Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before {}", path.display());
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks the status and message of a stopped run; returns its step.
fn check_stopped(shop: &Workshop, output: &Output, status: i32) -> u64 {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}{}", text(&output.stdout));
    let own = said.lines().filter(|line| !line.starts_with("stepwell: note: "));
    let said = own.collect::<Vec<_>>().join("\n");
    assert_eq!(said.lines().count(), 1, "{said}");
    let report = shop.report("report.json");
    assert_eq!(report["interrupted"], true);
    let steps = report["steps"].as_u64().unwrap();
    if steps == 0 {
        assert!(said.contains("before the first step"), "{said}");
        return 0;
    }
    let line = format!("interrupted after step {steps}: continue with --checkpoint saved --resume");
    assert!(said.contains(&line), "{said}");
    assert_eq!(shop.newest(), Some(format!("step-{steps:012}")));
    steps
}

#[test]
fn a_run_that_is_stopped_at_any_moment_loses_nothing() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    let begun = Instant::now();
    shop.ok(&train(&data, &["--report", "whole.json"]));
    let mut took = begun.elapsed();
    let whole = shop.report("whole.json");
    assert_eq!(whole["interrupted"], false);
    let moments = if std::env::var_os("STEPWELL_LONG").is_some() { MOMENTS_LONG } else { MOMENTS };
    let args =
        train(&data, &["--checkpoint", "saved", "--tiers.ssd", "rows", "--report", "report.json"]);
    let (mut stopped, mut among) = (0, 0);
    for moment in 0..moments {
        let _ = fs::remove_dir_all(shop.path("saved"));
        let _ = fs::remove_dir_all(shop.path("rows"));
        let _ = fs::remove_file(shop.path("report.json"));
        let mut child = start(&shop, &args);
        until(&mut child, &shop.path("rows/rows-0"));
        let begun = Instant::now();
        // Spread over the run, at varying places.
        let part = (moment as f64 * 0.618_034).fract();
        std::thread::sleep(took.mul_f64(part * 0.9));
        signal(&child, if moment % 2 == 0 { "INT" } else { "TERM" });
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            // The machine was busier when the first run was measured.
            took = took.min(begun.elapsed());
            continue;
        }
        stopped += 1;
        let steps = check_stopped(&shop, &output, if moment % 2 == 0 { 130 } else { 143 });
        among += u64::from(steps > 0 && steps < whole["steps"].as_u64().unwrap());
        let mut resumed = args.clone();
        // A run stopped before its first step has no checkpoint to resume from.
        resumed.push(if steps > 0 { "--resume" } else { "--resume=auto" });
        shop.ok(&resumed);
        let report = shop.report("report.json");
        assert_eq!(report["interrupted"], false);
        for field in ["model_digest", "rows", "eval", "steps"] {
            assert_eq!(report[field], whole[field], "stopped after step {steps}: {field}");
        }
        let before = steps * 64;
        let trained = report["examples"].as_u64().unwrap();
        assert!(before + trained >= whole["examples"].as_u64().unwrap());
    }
    println!("{stopped} of {moments} runs were stopped, {among} of them among their steps");
    assert!(stopped > moments / 2 && among > moments / 4, "{stopped} {among}");
}

#[test]
fn a_stopped_run_without_checkpoints_says_that_nothing_is_kept() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 20_000);
    let args = train(&data, &["--data.epochs", "200", "--tiers.ssd", "rows", "--report", "r.json"]);
    let mut child = start(&shop, &args);
    until(&mut child, &shop.path("rows/rows-0"));
    std::thread::sleep(Duration::from_millis(400));
    signal(&child, "HUP");
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(129), "{said}");
    assert!(said.contains("nothing is kept") && said.contains("--checkpoint"), "{said}");
    let report = shop.report("r.json");
    assert_eq!((&report["interrupted"], &report["model_digest"]), (&true.into(), &().into()));
}

#[test]
fn the_checkpoint_of_a_stop_is_that_of_a_run_that_never_stopped() {
    never_stopped(&[]);
}

/// Lent rows are back at their owners by then.
#[test]
fn the_checkpoint_of_a_stop_of_ranks_is_too() {
    let lends = ["--ranks.exchange", "working_set", "--set", "data.batch=512"];
    never_stopped(&[&["--ranks", "3"], &lends[..]].concat());
}

/// Stops a run with `more`, and compares its checkpoint with the one of a single rank that was not
/// stopped.
fn never_stopped(more: &[&str]) {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    let keeps = ["--checkpoint", "saved", "--checkpoint.every", "5", "--report", "r"];
    let args = [train(&data, &keeps), more.to_vec()].concat();
    let mut child = start(&shop, &args);
    until(&mut child, &shop.path("saved/step-000000000010"));
    signal(&child, "INT");
    child.wait_with_output().unwrap();
    let step = shop.newest().unwrap();
    let number = step.strip_prefix("step-").unwrap().trim_start_matches('0').to_owned();
    // A run that writes a regular checkpoint at that step and continues.
    let mut other = train(&data, &["--checkpoint", "other", "--checkpoint.every", &number]);
    other.extend(["--checkpoint.keep", "1000000", "--checkpoint.minutes", "0"]);
    shop.ok(&other);
    for report in ["saved", "other"] {
        let path = format!("{report}/{step}");
        shop.ok(&["eval", &path, "--digest", "--report", &format!("{report}.json")]);
    }
    let (saved, other) = (shop.report("saved.json"), shop.report("other.json"));
    for field in ["model_digest", "rows", "eval"] {
        assert_eq!(saved[field], other[field], "{step}: {field}");
    }
    if !more.is_empty() {
        return;
    }
    let dense = |name: &str| fs::read(shop.path(&format!("{name}/{step}/dense.bin"))).unwrap();
    assert!(dense("saved") == dense("other"), "{step}");
}

/// Settings that data from a stream needs.
const ONCE: [&str; 4] = ["--data.epochs", "1", "--data.eval_fraction", "0"];

/// A run on data from standard input that stalls after the first steps.
fn stalled(shop: &Workshop, more: &[&str]) -> (Child, UnixStream) {
    let data = shop.examples("data.tsv", 12_000);
    let (input, mut feed) = UnixStream::pair().unwrap();
    let args = train("-", &[&ONCE[..], more].concat());
    let mut command = shop.command(&args);
    let command = command.stdin(OwnedFd::from(input)).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    feed.write_all(&fs::read(data).unwrap()).unwrap();
    (child, feed)
}

/// Waits until `child` has a checkpoint.
fn until_saved(shop: &Workshop, child: &mut Child) {
    let begun = Instant::now();
    while shop.newest().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before its checkpoint");
        assert!(begun.elapsed() < Duration::from_secs(60), "no checkpoint");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_checkpoint_comes_in_time_and_a_stop_is_heeded_though_data_stalls() {
    let shop = Workshop::new();
    // A tenth of a second.
    let keeps = ["--checkpoint", "saved", "--checkpoint.minutes", "0.0017"];
    let (mut child, feed) = stalled(&shop, &keeps);
    until_saved(&shop, &mut child);
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    drop(feed);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(143), "{said}");
    assert!(said.contains("interrupted after step") && said.contains("--resume"), "{said}");
}

/// A command that waits for the first bytes of a pipe or a server ends on a signal.
#[test]
fn a_stop_is_heeded_before_the_first_byte() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, &["--checkpoint", "saved"]));
    // A server that accepts connections and never answers.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/data.tsv", server.local_addr().unwrap());
    let is_remote = cfg!(feature = "remote");
    for source in ["-", &url].into_iter().filter(|source| is_remote || *source == "-") {
        let commands = [
            train(source, &[&ONCE[..], &["--checkpoint", "new"]].concat()),
            vec!["eval", "saved", "--data", source],
            vec!["predict", "saved", "--data", source, "--out", "scores.csv"],
            vec!["convert", source, "--out", "data.packed"],
        ];
        for args in commands {
            let (input, feed) = UnixStream::pair().unwrap();
            let mut command = shop.command(&args);
            let command = command.stdin(OwnedFd::from(input)).stdout(Stdio::null());
            let child = command.stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(300));
            signal(&child, "TERM");
            let asked = Instant::now();
            let output = child.wait_with_output().unwrap();
            drop(feed);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(143), "{args:?}: {said}");
            assert!(asked.elapsed() < Duration::from_secs(5), "{args:?}: {:?}", asked.elapsed());
            assert!(said.contains("interrupted"), "{args:?}: {said}");
        }
    }
    assert!(!shop.path("scores.csv").exists() && !shop.path("data.packed").exists());
}

/// Rows on another file system than checkpoints are copied, and a stop does not cut that short.
#[test]
fn the_checkpoint_of_a_stop_is_written_to_another_file_system() {
    let shop = Workshop::new();
    let other = std::path::Path::new("/dev/shm");
    let device = |path: &std::path::Path| fs::metadata(path).map(|about| about.dev()).ok();
    let Some(_) = device(other).filter(|other| Some(*other) != device(&shop.path(""))) else {
        return skipped("one file system");
    };
    let rows = tempfile::tempdir_in(other).unwrap();
    let rows = rows.path().to_str().unwrap().to_owned();
    let data = shop.examples("data.tsv", 6000);
    for ranks in ["1", "2"] {
        let _ = fs::remove_dir_all(shop.path("saved"));
        let keeps = ["--checkpoint", "saved", "--checkpoint.every", "5", "--report", "report.json"];
        let more = [&keeps[..], &["--tiers.ssd", &rows, "--ranks", ranks, "--force"]].concat();
        let args = train(&data, &[&more[..], &["--data.epochs", "1000"]].concat());
        let mut child = start(&shop, &args);
        until_saved(&shop, &mut child);
        signal(&child, "TERM");
        let steps = check_stopped(&shop, &child.wait_with_output().unwrap(), 143);
        assert!(steps > 0, "{ranks} ranks");
    }
}

#[test]
fn evaluations_are_stopped_too() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, &["--checkpoint", "saved"]));
    let more = shop.examples("more.tsv", 100_000);
    let many = vec![more.as_str(); 40].join(",");
    // Counting the lines of the evaluation part takes a while, too.
    let paths = format!("data.eval_paths={many}");
    let child = start(&shop, &["eval", "saved", "--data", &more, "--set", &paths]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&child, "INT");
    let asked = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    // A full output blocks the run until somebody reads.
    let (mut output, _reader) = UnixStream::pair().unwrap();
    output.set_nonblocking(true).unwrap();
    while output.write(&[b'.'; 4096]).is_ok() {}
    output.set_nonblocking(false).unwrap();
    let mut command = shop.command(&train(&data, &[]));
    let mut child = command.stdout(OwnedFd::from(output)).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "TERM");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it did not wait for its reader");
    signal(&child, "TERM");
    let begun = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!((output.status.code(), output.status.signal()), (Some(143), None));
}

#[test]
fn signals_that_are_ignored_stay_ignored() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    let mut command = Command::new("env");
    command.args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_stepwell")]);
    command.args(train(&data, &["--tiers.ssd", "rows"])).current_dir(shop.path(""));
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    until(&mut child, &shop.path("rows/rows-0"));
    signal(&child, "HUP");
    assert!(child.wait().unwrap().success());
}

#[test]
fn files_that_are_being_written_go_with_a_signal() {
    let shop = Workshop::new();
    for args in [
        &["synth", "--out", "some.tsv", "--examples", "1000000000"][..],
        &["convert", "--synth", "--out", "some.packed", "--examples", "1000000000"],
    ] {
        let child = start(&shop, args);
        let begun = Instant::now();
        while fs::read_dir(shop.path("")).unwrap().count() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{args:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(&child, "INT");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("nothing is left"), "{}", text(&output.stderr));
        assert_eq!(fs::read_dir(shop.path("")).unwrap().count(), 0, "{args:?}");
    }
}
