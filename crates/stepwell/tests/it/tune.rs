//! `stepwell tune`: trials, successive halving, and searches that go on.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{SMALL, Workshop};

const RATES: [&str; 2] = ["--set", "optim.rows.lr=log(0.001,0.3)"];

/// Arguments of a search on `data.tsv`.
fn args<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let whole = ["tune", "--data", "data.tsv", "--out", out];
    [&whole[..], &SMALL, &RATES, more].concat()
}

fn workshop(examples: u64) -> Workshop {
    let shop = Workshop::new();
    shop.examples("data.tsv", examples);
    shop
}

/// The trials of a search, without what depends on time.
fn trials(shop: &Workshop, out: &str) -> Vec<Value> {
    let mut report = shop.report(&format!("{out}/tune.json"));
    let trials = report["trials"].as_array_mut().unwrap();
    trials.iter_mut().for_each(|trial| trial["seconds"] = Value::Null);
    trials.clone()
}

/// The trials whose checkpoints are there.
fn kept(shop: &Workshop, out: &str) -> Vec<u64> {
    let is_kept = |trial: &u64| shop.path(&format!("{out}/trial-{trial:03}/saved")).exists();
    (1..100).filter(is_kept).collect()
}

/// Trains as a trial did, without a search; the checkpoints are in `alone`.
fn alone(shop: &Workshop, trial: &Value, more: &[&str]) -> Value {
    let set: Vec<String> = trial["settings"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap()))
        .collect();
    let set: Vec<&str> = set.iter().flat_map(|pair| ["--set", pair]).collect();
    let _ = fs::remove_dir_all(shop.path("alone"));
    let whole = ["train", "--data", "data.tsv", "--checkpoint", "alone", "--report", "alone.json"];
    shop.ok(&[&whole[..], &SMALL, &set, more].concat());
    shop.report("alone.json")
}

/// The newest checkpoint of a trial, and that of the run `alone`, are equal.
fn same_as_alone(shop: &Workshop, saved: &str) {
    let newest = |of: &str| {
        let names = fs::read_dir(shop.path(of)).unwrap().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        format!("{of}/{}", names.filter(|name| name.starts_with("step-")).max().unwrap())
    };
    shop.ok(&["diff", &newest(saved), &newest("alone")]);
}

#[test]
fn trials_are_trainings_and_the_best_is_kept() {
    let shop = workshop(1500);
    // The third setting is refused in a few trials; the fourth is in vain.
    let more = ["--set", "model.hidden=choice([16],[8,4])", "--trials", "4", "--json"];
    let out = shop.run(&args("tune", &more));
    let (said, error) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{error}");
    let printed: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(printed, shop.report("tune/tune.json"));
    assert!(error.contains("data cache of 1500 examples"), "{error}");
    let (all, best) = (trials(&shop, "tune"), printed["best"].as_u64().unwrap());
    assert_eq!(all.len(), 4);
    let loss = |trial: &Value| trial["value"].as_f64().unwrap();
    let least = all.iter().map(loss).fold(f64::INFINITY, f64::min);
    assert_eq!(loss(&all[best as usize - 1]), least);
    assert_eq!(kept(&shop, "tune"), [best]);
    let report = alone(&shop, &all[best as usize - 1], &[]);
    assert_eq!(report["eval"]["logloss"], least);
    same_as_alone(&shop, &format!("tune/trial-{best:03}/saved"));
    // The file with the best settings trains the same model.
    let digest = report["model_digest"].clone();
    shop.ok(&["train", "tune/best.toml", "--report", "best.json"]);
    assert_eq!(shop.report("best.json")["model_digest"], digest);
    // More trials go on with those that are there; other settings and ranges are another search.
    let trial = fs::read(shop.path("tune/trial-001/trial.json")).unwrap();
    let more = [&more[..2], &["--trials", "5"]].concat();
    let said = shop.ok(&args("tune", &more));
    assert!(said.contains("trial 5 of 5") && !said.contains("trial 4 of 5"), "{said}");
    assert_eq!(trials(&shop, "tune")[..4], all);
    assert_eq!(fs::read(shop.path("tune/trial-001/trial.json")).unwrap(), trial);
    for (other, says) in [
        (&["--set", "model.hidden=choice([16],[8])"][..], "other ranges"),
        (&[more[0], more[1], "--optim.dense.lr", "0.5"], "other settings (optim.dense.lr)"),
        (&[more[0], more[1], "--by", "auc"], "other --by"),
        (&["--set", "model.kind=choice(dcn)", "--model", "lr"], "model.kind has a range and a"),
    ] {
        let error = shop.fails(&args("tune", other));
        assert!(error.contains(says), "{error}");
    }
    let error = shop.fails(&[&args("data.tsv", &[])[..], &["--trials", "2"]].concat());
    assert!(error.contains("is not a directory"), "{error}");
}

#[test]
fn failed_trials_are_listed_and_equal_ones_trained_once() {
    let shop = workshop(400);
    let sets = ["--set", "optim.rows.lr=0.05", "--set", "data.batch=choice(100,64)"];
    let whole = ["tune", "--data", "data.tsv", "--trials", "5", "--seed", "2"];
    let said = shop.ok(&[&whole[..], &SMALL, &sets].concat());
    let all = trials(&shop, "tune");
    let states: Vec<&str> = all.iter().map(|trial| trial["state"].as_str().unwrap()).collect();
    for (state, count) in [("failed", 1), ("done", 1), ("same", 3)] {
        assert_eq!(states.iter().filter(|of| **of == state).count(), count, "{states:?}");
    }
    assert!(said.contains("failed: data.batch is 100, which is not a multiple"), "{said}");
    assert!(said.contains("same as trial"), "{said}");
    let sets = ["--set", "data.batch=choice(100,200)", "--out", "none"];
    let failed = shop.run(&[&whole[..], &SMALL, &sets].concat());
    assert_eq!(failed.status.code(), Some(1));
    let error = String::from_utf8_lossy(&failed.stderr);
    assert!(error.contains("every trial failed; trial 1: data.batch is"), "{error}");
    // The seed of a trial may be drawn, by the seed of the search.
    let sets = ["--set", "seed=choice(5,6,7)", "--out", "seeds"];
    let trial = ["tune", "--data", "data.tsv", "--trials", "2"];
    shop.ok(&[&trial[..], &SMALL, &sets].concat());
    assert_eq!(trials(&shop, "seeds").len(), 2);
    // A training that diverges is a failed trial, too.
    let sets = ["--set", "optim.rows.lr=choice(1e6,0.01)", "--set", "optim.rows.kind=sgd"];
    let said = shop.ok(&[&whole[..], &SMALL, &sets, &["--out", "diverged"]].concat());
    assert!(said.contains("training diverged"), "{said}");
    assert_eq!(kept(&shop, "diverged").len(), 1);
}

#[test]
fn halving_stops_trials_and_goes_on_as_if_it_had_not() {
    let shop = workshop(3000);
    let more = ["--halving", "--trials", "9", "--data.epochs", "3"];
    let schedule = ["--optim.dense.schedule", "cosine", "--optim.dense.decay_steps", "129"];
    shop.ok(&args("halved", &[&more[..], &schedule, &["--keep-all"]].concat()));
    let all = trials(&shop, "halved");
    // 43 steps make an epoch.
    let of = |steps: u64| all.iter().filter(|trial| trial["steps"] == steps).count();
    assert_eq!([15, 43, 129].map(of), [6, 2, 1], "{all:?}");
    let best = all.iter().find(|trial| trial["state"] == "done").unwrap();
    let report = alone(&shop, best, &[&more[3..], &schedule].concat());
    assert_eq!(best["evaluations"].as_array().unwrap().last().unwrap()["step"], 129);
    assert_eq!(best["best"]["logloss"], best["value"]);
    let last = best["evaluations"].as_array().unwrap().last().unwrap();
    assert_eq!(last["logloss"], report["eval"]["logloss"]);
    same_as_alone(&shop, &format!("halved/{}/saved", best["directory"].as_str().unwrap()));
    // The trials that went on were the best.
    let at = |trial: &Value, step: u64| {
        let all = trial["evaluations"].as_array().unwrap();
        all.iter().find(|of| of["step"] == step).map(|of| of["logloss"].as_f64().unwrap())
    };
    for (step, next) in [(15, 43), (43, 129)] {
        let mut ranked: Vec<_> = all.iter().filter_map(|of| Some((at(of, step)?, of))).collect();
        ranked.sort_by(|one, other| one.0.total_cmp(&other.0));
        let gone = ranked.iter().map(|(_, of)| of["steps"].as_u64().unwrap() >= next);
        let gone: Vec<bool> = gone.collect();
        assert!(gone.is_sorted_by(|one, other| one >= other), "{gone:?}");
    }
}

/// Starts a search, and ends it with `signal` once `path` is there; returns its status and error.
fn stopped(shop: &Workshop, args: &[&str], path: &Path, signal: &str) -> (Option<i32>, String) {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(crate::PROGRAM).args(args);
    command.current_dir(shop.path("")).env("TMPDIR", shop.path(""));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !path.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before {}", path.display());
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_search_that_was_stopped_goes_on_to_the_same_table() {
    let shop = workshop(2000);
    for more in [&["--trials", "3"][..], &["--trials", "3", "--halving"]] {
        let _ = fs::remove_dir_all(shop.path("whole"));
        let _ = fs::remove_dir_all(shop.path("stopped"));
        shop.ok(&args("whole", more));
        let stopping = args("stopped", more);
        let at = |name: &str| shop.path(&format!("stopped/{name}"));
        let (status, error) = stopped(&shop, &stopping, &at("trial-001/rows"), "INT");
        assert_eq!(status, Some(130), "{error}");
        let line = "interrupted in trial 1 of 3: run the same command again to continue";
        assert!(error.contains(line), "{error}");
        stopped(&shop, &stopping, &at("trial-002/rows"), "KILL");
        stopped(&shop, &stopping, &at("trial-003/saved"), "KILL");
        shop.ok(&stopping);
        assert_eq!(trials(&shop, "stopped"), trials(&shop, "whole"));
        assert_eq!(kept(&shop, "stopped"), kept(&shop, "whole"));
        assert!(!at("trial-003/rows").exists());
        let best = |out: &str| fs::read_to_string(shop.path(&format!("{out}/best.toml"))).unwrap();
        assert_eq!(best("stopped"), best("whole"));
    }
}

#[test]
fn searches_without_sense_are_refused_in_one_line() {
    let shop = workshop(300);
    fs::create_dir(shop.path("full")).unwrap();
    fs::write(shop.path("full/mine"), "").unwrap();
    for (more, says) in [
        (&["--set", "optim.rows.lr=0.1"][..], "none has a range"),
        (&["--set", "optim.dense.lr=LOG(1,2)"], "that is neither a value nor a range: write log("),
        (&["--set", "optim.dense.lr=log(0,1)"], "log(A,B) with 0 < A < B"),
        (&["--set", "model.dimm=int(1,2)"], "did you mean 'model.dim'"),
        (&["--set", "model.dim=int(0,2)"], "model.dim"),
        (&["--set", "model.dim=log(2,9)"], "takes whole numbers: write int(A,B) or logint(A,B)"),
        (&["--set", "data.eval_fraction=uniform(0.1,0.2)"], "the same data"),
        (&["--data.eval_fraction", "0"], "data.eval_fraction is 0"),
        (&["--checkpoint", "saved"], "--out tune"),
        (&["--halving", "--trials", "2"], "give at least 3"),
        (&["--data", "-"], "read only once"),
        (&["--out", "full"], "has other files"),
    ] {
        let range = if says == "none has a range" { &[][..] } else { &RATES };
        let whole = [&["tune", "--data", "data.tsv"], &SMALL[..], range, more].concat();
        let whole = if more[0] == "--data" {
            whole[..1].iter().chain(&whole[3..])
        } else {
            whole[..1].iter().chain(&whole[1..])
        };
        let error = shop.fails(&whole.copied().collect::<Vec<_>>());
        assert!(error.contains(says), "{more:?}: {error}");
        assert!(!shop.path("tune").exists(), "{more:?}");
    }
    let error = shop.fails(&args("tune", &["--halving", "--train.patience", "2"]));
    assert!(error.contains("every trial failed; trial 1: train.patience"), "{error}");
}
