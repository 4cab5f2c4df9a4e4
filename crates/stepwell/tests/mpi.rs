//! Ranks that are processes, launched by `mpirun`, from outside.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

#[path = "it/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{SMALL, Workshop, read_json};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_stepwell");

/// `mpirun` with this number of processes, without its program.
fn mpirun(shop: &Workshop, ranks: &str) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", ranks]).current_dir(shop.path(""));
    // For tests that run as root, or without sockets between processes.
    let allow = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    command.envs(allow.map(|name| (name, "1"))).env("TMPDIR", shop.path(""));
    command
}

/// `stepwell train` of a small model.
fn train<'a>(data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![env!("CARGO_BIN_EXE_stepwell"), "train", "--data", data, "--threads", "1"];
    args.extend(SMALL);
    args.extend(["--set", "tiers.dram=160KiB", "--set", "tiers.segment=64KiB"]);
    args.extend(more);
    args
}

fn launch(shop: &Workshop, ranks: &str, args: &[&str]) -> Output {
    mpirun(shop, ranks).args(args).output().unwrap()
}

/// The program's last message, which must be printed only once.
fn said(output: &Output) -> String {
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
    let lines: Vec<&str> = error.lines().filter(|line| line.starts_with("stepwell: ")).collect();
    assert_eq!(lines.len(), 1, "{error}");
    lines[0].to_owned()
}

/// Trains with this number of processes, which must succeed; returns the digest.
fn digest(shop: &Workshop, ranks: &str, data: &str, more: &[&str]) -> String {
    let more = [&["--report", "report.json"], more].concat();
    let output = launch(shop, ranks, &train(data, &more));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{ranks} processes: {error}");
    let report = read_json(&shop.path("report.json"));
    let by_rank = report["by_rank"].as_array().map_or(1, Vec::len);
    assert_eq!(by_rank.to_string(), ranks);
    report["model_digest"].to_string()
}

#[test]
fn processes_train_the_model_of_one() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let oracle = digest(&shop, "1", &data, &["--data.epochs", "2"]);
    for ranks in ["2", "4"] {
        assert_eq!(digest(&shop, ranks, &data, &["--data.epochs", "2"]), oracle, "{ranks}");
    }
    // With lent rows.
    let lends = ["--ranks.exchange", "working_set", "--set", "data.batch=1024"];
    let lends = [&lends[..], &["--data.epochs", "2"]].concat();
    assert_eq!(digest(&shop, "3", &data, &lends), oracle);
    let report = read_json(&shop.path("report.json"));
    let lent = report["by_rank"].as_array().unwrap().iter();
    let lent = lent.map(|rank| rank["ranks"]["rows_borrowed"].as_u64().unwrap());
    assert!(lent.sum::<u64>() > 0, "{report}");
    // A checkpoint of two processes, and four that resume from it.
    let keeps = ["--checkpoint", "saved", "--tiers.ssd", "rows"];
    digest(&shop, "2", &data, &[&keeps[..], &["--data.epochs", "1"]].concat());
    let goes_on = [&keeps[..], &["--data.epochs", "2", "--resume"]].concat();
    assert_eq!(digest(&shop, "4", &data, &goes_on), oracle);
}

#[test]
fn processes_begin_with_the_model_of_a_checkpoint() {
    let shop = Workshop::new();
    let all = shop.examples("all.tsv", 1280);
    let text = std::fs::read_to_string(&all).unwrap();
    // Full mini-batches of 64 examples.
    let lines: Vec<&str> = text.lines().collect();
    let days: Vec<String> = lines.chunks(640).map(|lines| lines.join("\n") + "\n").collect();
    let paths = [shop.text("day_1.tsv"), shop.text("day_2.tsv")];
    paths.iter().zip(days).for_each(|(path, day)| std::fs::write(path, day).unwrap());
    let whole = ["--set", "data.eval_fraction=0"];
    let oracle = digest(&shop, "1", &all, &whole);
    let keeps = [&whole[..], &["--checkpoint", "saved", "--tiers.ssd", "rows"]].concat();
    digest(&shop, "2", &paths[0], &keeps);
    let from = [&keeps[..], &["--from", "saved"]].concat();
    assert_eq!(digest(&shop, "3", &paths[1], &from), oracle);
    // All processes know that nothing is left to do.
    let output = launch(&shop, "3", &train(&paths[1], &from));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("trained before"), "{said}");
}

/// The settings of ranks that are out of step.
fn apart<'a>(dense: &'a str, staleness: &'a str) -> [&'a str; 6] {
    ["--sync.dense", dense, "--sync.rows", "bounded", "--sync.staleness", staleness]
}

#[test]
fn processes_out_of_step_train_every_step() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let twice = ["--data.epochs", "2"];
    let oracle = digest(&shop, "1", &data, &twice);
    let steps = read_json(&shop.path("report.json"))["steps"].clone();
    for ranks in ["2", "4"] {
        let nothing_lacks = [&apart("bsp", "0")[..], &twice].concat();
        assert_eq!(digest(&shop, ranks, &data, &nothing_lacks), oracle, "{ranks}");
    }
    let all = ["bsp", "sync_dsgd", "eager_majority", "ad_psgd", "rdma_wild", "rna", "geeps"];
    for dense in all {
        digest(&shop, "3", &data, &[&apart(dense, "2")[..], &twice].concat());
        let report = read_json(&shop.path("report.json"));
        assert_eq!(report["steps"], steps, "{dense}");
        for rank in report["by_rank"].as_array().unwrap() {
            let most = rank["ranks"]["apart"]["staleness_max"].as_u64().unwrap();
            assert!(most <= 2, "{dense}: {report}");
        }
    }
}

#[test]
fn what_ends_all_is_said_once() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let fails = |more: &[&str]| said(&launch(&shop, "3", &train(&data, more)));
    assert!(fails(&["--data.batch", "7x"]).contains("data.batch = 7x"));
    assert!(fails(&["--ranks", "2"]).contains("ranks = 2, and 3 processes were launched"));
    let long = fails(&["--ranks.count", "2"]);
    assert!(
        long.contains("ranks.count = 2, and 3 processes") && long.contains("leave out ranks.count")
    );
    let report = fails(&["--report", "no/where.json"]);
    assert!(report.contains("there is no directory no: create it"), "{report}");
    assert!(fails(&["--checkpoint", "saved", "--resume"]).contains("no directory saved"));
    let mut text = std::fs::read_to_string(&data).unwrap();
    text.insert_str(text.match_indices('\n').nth(999).unwrap().0 + 1, "bad\n");
    std::fs::write(&data, text).unwrap();
    assert!(fails(&[]).contains("line 1001"));
    // An error of only one rank is also printed.
    std::fs::create_dir(shop.path("rows")).unwrap();
    std::fs::write(shop.path("rows/rank-2"), "in the way").unwrap();
    let one = fails(&["--tiers.ssd", "rows"]);
    assert!(one.contains("rank 2 failed: tiers.ssd") && one.contains("not a directory"), "{one}");
}

#[test]
fn data_that_differ_are_refused() {
    let shop = Workshop::new();
    for (place, count) in [("here", 1500), ("there", 1501)] {
        std::fs::create_dir(shop.path(place)).unwrap();
        shop.examples(&format!("{place}/data.tsv"), count);
    }
    let mut command = mpirun(&shop, "1");
    let place = |place: &str| shop.text(place);
    command.args(["-wdir", &place("here")]).args(train("data.tsv", &[]));
    command.args([":", "-n", "1", "-wdir", &place("there")]).args(train("data.tsv", &[]));
    let why = said(&command.output().unwrap());
    assert!(why.contains("rank 1 has other content in 'data.tsv'"), "{why}");
}

#[test]
fn builds_that_differ_are_refused() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let ours = train(&data, &[]);
    let mut bytes = std::fs::read(ours[0]).unwrap();
    bytes.push(0);
    let other = shop.text("another-build");
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).unwrap();
    let theirs = [&[other.as_str()], &ours[1..]].concat();
    let mut command = mpirun(&shop, "1");
    command.args(&ours).args([":", "-n", "1"]).args(&theirs);
    let why = said(&command.output().unwrap());
    assert!(why.contains("rank 1 runs another build of stepwell"), "{why}");
    assert!(why.ends_with("launch the same build everywhere"), "{why}");
}

/// The processes of ranks that train on `data`, without their launcher.
fn processes(data: &str, launcher: u32) -> Vec<String> {
    let mine = format!("train --data {data}");
    let found = Command::new("pgrep").args(["-f", &mine]).output().unwrap().stdout;
    let found = String::from_utf8(found).unwrap();
    found.lines().filter(|id| **id != launcher.to_string()).map(str::to_owned).collect()
}

#[test]
fn a_rank_that_hangs_is_named_after_the_time_that_was_given() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let mut command = mpirun(&shop, "2");
    let more = ["--data.epochs", "3000", "--ranks.timeout", "3"];
    command.args(train(&data, &more)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut launcher = command.spawn().unwrap();
    // Headline and plan are printed when all ranks have the settings.
    let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("for each of 2 ranks")).unwrap().unwrap();
    let ranks = processes(&data, launcher.id());
    let begun = Instant::now();
    let stopped = Command::new("kill").args(["-STOP", &ranks[1]]).status().unwrap();
    assert!(stopped.success() && ranks.len() == 2, "{ranks:?}");
    let rest = std::thread::spawn(move || lines.for_each(drop));
    let output = launcher.wait_with_output().unwrap();
    rest.join().unwrap();
    let why = said(&output);
    assert!(why.contains("is lost: nothing was heard of it for 3 s (ranks.timeout)"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Trains with three processes and kills one after the first checkpoint; all must end soon.
fn kill_one(shop: &Workshop, data: &str, more: &[&str]) {
    let mut command = mpirun(shop, "3");
    command.args(train(data, more)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut launcher = command.spawn().unwrap();
    let begun = Instant::now();
    let kept = || {
        shop.path("saved").read_dir().is_ok_and(|mut listed| {
            listed.any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("step-"))
        })
    };
    while !kept() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ranks = processes(data, launcher.id());
    let killed = Command::new("kill").args(["-9", &ranks[ranks.len() / 2]]).status().unwrap();
    let begun = Instant::now();
    assert!(killed.success() && !launcher.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_killed_process_ends_all_and_others_go_on() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let keeps = ["--data.epochs", "40", "--checkpoint", "saved", "--checkpoint.every", "5"];
    kill_one(&shop, &data, &keeps);
    // With fewer processes, for the first epochs.
    let oracle = digest(&shop, "1", &data, &["--data.epochs", "40"]);
    let resume = [&keeps[..], &["--resume"]].concat();
    assert_eq!(digest(&shop, "2", &data, &resume), oracle);
}

#[test]
fn a_killed_process_ends_all_that_are_out_of_step_and_others_go_on() {
    for (dense, staleness) in [("rna", "3"), ("rdma_wild", "3")] {
        let shop = Workshop::new();
        let data = shop.examples("data.tsv", 3000);
        let keeps = ["--data.epochs", "20", "--checkpoint", "saved", "--checkpoint.every", "5"];
        let keeps = [&keeps[..], &apart(dense, staleness)].concat();
        kill_one(&shop, &data, &keeps);
        let resumed = digest(&shop, "2", &data, &[&keeps[..], &["--resume"]].concat());
        let steps = read_json(&shop.path("report.json"))["steps"].clone();
        let oracle = digest(&shop, "1", &data, &["--data.epochs", "20"]);
        assert_eq!(steps, read_json(&shop.path("report.json"))["steps"], "{dense}");
        // With three ranks, sums have varying orders, so there is no oracle for these bits.
        assert_ne!((dense, resumed), ("rna", oracle));
    }
}
