//! Ranks that are out of step, from outside.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{SMALL, Workshop, read_json};

fn stepwell(shop: &Workshop, command: &str, data: &str, more: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_stepwell"));
    program.current_dir(shop.path("")).args([command, "--data", data, "--threads", "1"]);
    program.args(SMALL).args(["--ranks", "4"]).args(more);
    program
}

fn train(shop: &Workshop, data: &str, more: &[&str]) -> Output {
    stepwell(shop, "train", data, &[&["--report", "report.json"], more].concat()).output().unwrap()
}

const RNA: [&str; 4] = ["--sync.dense", "rna", "--sync.rows", "bounded"];
const GEEPS: [&str; 4] = ["--sync.dense", "geeps", "--sync.rows", "bounded"];

#[test]
fn a_run_says_how_far_ranks_were_apart() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    let output = train(&shop, &data, &RNA);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("another run gives another model"), "{said}");
    let report = read_json(&shop.path("report.json"));
    assert_eq!(report["config"]["sync.dense"], "rna");
    for rank in report["by_rank"].as_array().unwrap() {
        let apart = &rank["ranks"]["apart"];
        assert_eq!(apart["gradients"], report["steps"], "{apart}");
        assert!(apart["staleness_mean"].as_f64() <= apart["staleness_max"].as_f64(), "{apart}");
        assert_eq!(apart["depends_on_time"], true, "{apart}");
    }
    let waits = train(&shop, &data, &[&GEEPS[..], &["--sync.staleness", "0"]].concat());
    let report = read_json(&shop.path("report.json"));
    assert_eq!(report["by_rank"][0]["ranks"]["apart"]["depends_on_time"], false, "{report}");
    let said = String::from_utf8_lossy(&waits.stdout);
    assert!(said.contains("rows lacked 0.0 steps") && !said.contains("another run"), "{said}");
    // In step, there are no notes.
    assert!(train(&shop, &data, &[]).status.success());
    let report = read_json(&shop.path("report.json"));
    assert!(report["ranks"].get("apart").is_none(), "{report}");
}

#[test]
fn what_does_not_go_together_is_refused_and_what_has_no_effect_is_said() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let fails = |more: &[&str]| {
        let output = train(&shop, &data, more);
        assert!(!output.status.success(), "{more:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let why = fails(&["--sync.dense", "rna"]);
    assert!(why.contains("give sync.rows = bounded or async, or sync.dense = bsp"), "{why}");
    let why = fails(&["--sync.dense", "geeps"]);
    assert!(why.contains("sync.dense = geeps and sync.rows = exact"), "{why}");
    let why = fails(&[&GEEPS[..], &["--pipeline.staleness", "1"]].concat());
    assert!(why.contains("give pipeline.staleness = 0"), "{why}");
    let why = fails(&[&GEEPS[..], &["--optim.dense.weight_decay", "0.1"]].concat());
    assert!(why.contains("remove optim.dense.weight_decay, or give another"), "{why}");
    let why = fails(&["--sync.dense", "sgd", "--sync.rows", "async"]);
    assert!(why.contains("sync.dense = sgd: give one of bsp, sync_dsgd, eager_majority"), "{why}");
    let why = fails(&[&RNA[..], &["--sync.staleness", "2000"]].concat());
    assert!(why.contains("sync.staleness"), "{why}");
    let why = fails(&[&RNA[..], &["--device", "emulated:1"]].concat());
    assert!(why.contains("give device = host"), "{why}");
    let said = train(&shop, &data, &["--sync.age", "3"]);
    let said = [said.stdout, said.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("sync.age has no effect, because sync.dense is not rna"), "{said}");
    // The reading step counts as one of the steps in flight.
    let staleness = |steps: &'static str| {
        let bound = ["--pipeline.lookahead", "1", "--sync.staleness", steps];
        let output = train(&shop, &data, &[&RNA[..], &bound].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).contains("sync.staleness has no effect")
    };
    assert_eq!(["1", "2"].map(staleness), [false, true]);
    let said = train(&shop, &data, &[&GEEPS[..], &["--sync.probes", "3"]].concat());
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("sync.probes has no effect, because sync.dense is not rna"), "{said}");
    let said = train(&shop, &data, &[&GEEPS[..], &["--ranks", "1"]].concat());
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("sync.dense has no effect, because there is only one rank"), "{said}");
    let said = train(&shop, &data, &[&RNA[..], &["--sync.age", "0"]].concat());
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("sync.age = 0 drops every gradient that any update overtakes"), "{said}");
}

#[test]
fn a_plan_counts_what_being_apart_takes() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 500);
    let plan = |more: &[&str]| {
        let output = stepwell(&shop, "plan", &data, more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (together, apart) = (plan(&[]), plan(&RNA));
    assert!(apart.contains("learning") && !together.contains("learning"), "{apart}");
    let in_tables = plan(&GEEPS);
    assert!(in_tables.contains("learning") && in_tables != apart, "{in_tables}");
}

/// A killed run resumes from its last checkpoint, by any protocol, or in step.
#[test]
fn a_killed_run_goes_on() {
    killed(&RNA);
    if std::env::var_os("STEPWELL_LONG").is_some() {
        killed(&GEEPS);
    }
}

fn killed(agree: &[&str]) {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let long = std::env::var_os("STEPWELL_LONG").is_some();
    let [epochs, more] = if long { ["30", "31"] } else { ["6", "7"] };
    let keeps = ["--data.epochs", epochs, "--checkpoint", "saved", "--checkpoint.every", "3"];
    let keeps = [&keeps[..], agree].concat();
    let mut run = stepwell(&shop, "train", &data, &keeps);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let kept = || {
        shop.path("saved").read_dir().is_ok_and(|mut listed| {
            listed.any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("step-"))
        })
    };
    while !kept() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let resume = |more: &[&str]| train(&shop, &data, &[&keeps[..], &["--resume"], more].concat());
    let output = resume(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let steps = read_json(&shop.path("report.json"))["steps"].as_u64();
    assert!(train(&shop, &data, &["--data.epochs", epochs]).status.success());
    assert_eq!(steps, read_json(&shop.path("report.json"))["steps"].as_u64());
    let more = ["--data.epochs", more, "--checkpoint", "saved", "--resume"];
    let others = ["--sync.dense", "rdma_wild", "--sync.rows", "async"];
    for sync in [&others[..], &GEEPS, &[]] {
        let output = train(&shop, &data, &[&more[..], sync].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
