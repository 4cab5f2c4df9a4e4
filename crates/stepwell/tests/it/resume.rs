//! Checkpoints: a run that was stopped, killed or moved resumes as if it had never stopped.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{SMALL, TINY, Workshop};

fn train<'a>(data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--data", data, "--set", "data.epochs=2"];
    args.extend(SMALL);
    args.extend(more);
    args
}

#[test]
fn a_killed_run_goes_on_bit_for_bit() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    let whole = shop.text("whole.json");
    shop.ok(&train(&data, &["--report", &whole]));
    let expected = shop.report("whole.json")["model_digest"].clone();

    let mut args = train(&data, &["--checkpoint", "saved", "--set", "checkpoint.every=7"]);
    args.extend(TINY);
    args.extend(["--tiers.ssd", "rows", "--resume=auto", "--report", "resumed.json"]);
    let mut kills = 0;
    // Each process is killed a little after it has written its own checkpoint.
    for life in 0..40u64 {
        let before = shop.newest();
        let mut child = shop.command(&args).stdout(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        let killed = loop {
            if child.try_wait().unwrap().is_some() {
                break false;
            }
            let saved = shop.newest() > before;
            if life < 4 && (saved || begun.elapsed() > Duration::from_secs(60)) {
                std::thread::sleep(Duration::from_millis(life * 9));
                child.kill().unwrap();
                child.wait().unwrap();
                break true;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if !killed {
            break;
        }
        kills += 1;
        shop.ok(&["inspect", "saved"]);
    }
    assert!(kills > 0, "the run was never killed");
    let report = shop.report("resumed.json");
    assert_eq!(report["model_digest"], expected);
    assert_eq!(report["steps"], shop.report("whole.json")["steps"]);
    assert_eq!(report["eval"], shop.report("whole.json")["eval"]);
}

#[test]
fn existing_checkpoints_are_not_overwritten_unasked() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let args = train(&data, &["--checkpoint", "saved"]);
    shop.ok(&args);
    let refused = shop.fails(&args);
    assert!(refused.contains("--resume") && refused.contains("--force"), "{refused}");
    let mut forced = args.clone();
    forced.push("--force");
    shop.ok(&forced);
    assert!(shop.path("saved/set-aside-1").is_dir());
    // A finished run that is resumed has nothing left to train and evaluates again.
    let mut resumed = args.clone();
    resumed.extend(["--resume", "--report", "again.json"]);
    let table = shop.ok(&resumed);
    let report = shop.report("again.json");
    assert!(report["steps"].as_u64() > Some(0) && report["steps_before"] == report["steps"]);
    assert!(table.contains(&format!("from step {} on", report["steps"])), "{table}");
    assert_eq!(shop.report("again.json")["examples"], 0);
    assert!(shop.report("again.json")["eval"]["auc"].is_number());
}

#[test]
fn evaluation_and_inspection_work_from_a_checkpoint() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let mut args = train(&data, &["--checkpoint", "saved", "--report", "trained.json"]);
    args.extend(TINY);
    shop.ok(&args);
    let trained = shop.report("trained.json");
    shop.ok(&["eval", "saved", "--digest", "--report", "eval.json"]);
    let evaluated = shop.report("eval.json");
    assert_eq!(evaluated["eval"], trained["eval"]);
    assert_eq!(evaluated["model_digest"], trained["model_digest"]);
    shop.ok(&["eval", "saved", "--data", &data, "--report", "all.json"]);
    assert_eq!(shop.report("all.json")["eval"]["examples"], 2000);

    let text = shop.ok(&["inspect", "saved"]);
    assert!(text.contains("live") && text.contains("share a key"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&shop.ok(&["inspect", "saved", "--json", "--top", "3"])).unwrap();
    assert_eq!(json["tables"][0]["rows"], trained["rows"]);
    assert_eq!(json["tables"][0]["top"].as_array().unwrap().len(), 3);
}

#[test]
fn inspection_says_what_a_row_means() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let expiring = ["--rows.expire_after", "9", "--rows.admit_probability", "0.7"];
    let shown = |name: &str, more: &[&str]| {
        let mut args = vec!["--checkpoint", name, "--seed", "18446744073709551615"];
        args.extend(more);
        shop.ok(&train(&data, &args));
        shop.ok(&["inspect", name])
    };
    let text = shown("saved", &expiring);
    for part in [
        "initial values: splitmix64 from",
        "weights 5 (f32), sum 5 (f32), used 1 (u32), examples 1 (u32), importance 1 (f32)",
        "table 0, seed 18446744073709551615, 4 weights in ±0.0",
        "changes: adagrad, eps 1e-10, initial 0.0, lr 0.0",
        "admitted chance, probability 0.7; expires after 9 steps without use",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&shop.ok(&["inspect", "saved", "--json"])).unwrap();
    let table = &json["tables"][0];
    assert_eq!(table["life"]["admission"]["probability"], 0.7);
    assert_eq!((&table["seed"], &table["wide"]), (&u64::MAX.into(), &1.into()));
    assert_eq!(table["optimizer"]["name"], "adagrad");

    let text = shown("other", &["--optim.rows.kind", "adam", "--rows.storage", "f16"]);
    let lanes = "weights 3 (f16), exp_avg 5 (f32), exp_avg_sq 5 (f32), step 1 (u32)";
    assert!(text.contains(lanes) && text.contains("exists: from its first use"), "{text}");
}

#[test]
fn inspection_counts_rows_that_expired() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let expiring = ["--checkpoint", "saved", "--rows.expire_after", "2", "--report", "run.json"];
    shop.ok(&train(&data, &expiring));
    let json: serde_json::Value =
        serde_json::from_str(&shop.ok(&["inspect", "saved", "--json"])).unwrap();
    let table = &json["tables"][0];
    assert_eq!(table["rows"], shop.report("run.json")["rows"]);
    assert!(table["rows_expired"].as_u64() > table["rows"].as_u64(), "{table}");
    let text = shop.ok(&["inspect", "saved"]);
    assert!(text.contains(&format!("{} of them expired", table["rows_expired"])), "{text}");
}

#[test]
fn an_evaluation_keeps_the_model() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, &["--checkpoint", "saved", "--rows.admit_after", "2"]));
    for setting in ["pipeline.staleness=9", "model.dim=16", "rows.sketch=1MiB", "seed=2"] {
        let error = shop.fails(&["eval", "saved", "--set", setting]);
        let key = setting.split('=').next().unwrap();
        assert!(error.contains(&format!("trained with {key} = ")), "{error}");
    }
    shop.ok(&["eval", "saved", "--set", "data.mini_batch=32", "--set", "tiers.dram=1MiB"]);
}

#[test]
fn a_resumed_run_must_be_the_same_run() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let other = shop.examples("other.tsv", 1000);
    shop.ok(&train(&data, &["--checkpoint", "saved"]));
    let error = shop.fails(&train(&data, &["--checkpoint", "saved", "--resume", "--seed", "9"]));
    assert!(error.contains("seed = 1"), "{error}");
    let more = ["--checkpoint", "saved", "--resume", "--rows.storage", "bf16"];
    let error = shop.fails(&train(&data, &more));
    assert!(error.contains("rows.storage = f32, this run has bf16"), "{error}");
    let more = ["--checkpoint", "saved", "--resume", "--rows.history", "true"];
    let error = shop.fails(&train(&data, &more));
    assert!(error.contains("rows.history = false, this run has true"), "{error}");
    let error = shop.fails(&train(&other, &["--checkpoint", "saved", "--resume"]));
    assert!(error.contains("data.tsv") && error.contains("other.tsv"), "{error}");
    std::fs::create_dir(shop.path("elsewhere")).unwrap();
    let namesake = shop.examples("elsewhere/data.tsv", 1200);
    let error = shop.fails(&train(&namesake, &["--checkpoint", "saved", "--resume"]));
    assert!(error.contains("bytes"), "{error}");
    let more = ["--checkpoint", "saved", "--resume", "--data.eval_paths", &other];
    let error = shop.fails(&train(&data, &more));
    assert!(error.contains("data.eval_paths"), "{error}");
    let error = shop.fails(&train(&data, &["--resume"]));
    assert!(error.contains("--checkpoint"), "{error}");
}

#[test]
fn a_damaged_checkpoint_is_named() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, &["--checkpoint", "saved"]));
    let step = shop.path("saved").join(shop.newest().unwrap());
    let files: Vec<_> = std::fs::read_dir(&step)
        .unwrap()
        .chain(std::fs::read_dir(step.join("rows-0")).unwrap())
        .map(|entry| entry.unwrap().path())
        // `.stepwell` and `ENDED` mark the directory and the end of the run, and have nothing of
        // the model.
        .filter(|path| path.is_file())
        .filter(|path| !path.ends_with(".stepwell") && !path.ends_with("ENDED"))
        .collect();
    assert!(files.len() >= 5, "{files:?}");
    for path in files {
        let intact = std::fs::read(&path).unwrap();
        let mut flipped = intact.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x10;
        std::fs::write(&path, &flipped).unwrap();
        let error = shop.fails(&["eval", "saved"]);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(
            error.contains(&name) || error.contains("CHECKSUMS"),
            "{name} was damaged, and the message is: {error}"
        );
        std::fs::write(&path, &intact).unwrap();
    }
    let meta = step.join("checkpoint.json");
    let text = std::fs::read_to_string(&meta).unwrap();
    std::fs::write(&meta, text.replace("\"version\": 2", "\"version\": 9")).unwrap();
    let error = shop.fails(&["eval", "saved"]);
    assert!(error.contains("version 9") && error.contains("versions 1 to 3"), "{error}");
}

#[test]
fn rows_of_16_bits_are_resumed_evaluated_and_shown() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    for storage in ["f16", "bf16"] {
        let stored = |more: &[&str]| {
            let mut args: Vec<String> = train(&data, more).into_iter().map(str::to_owned).collect();
            args.extend(["--rows.storage", storage].map(str::to_owned));
            args
        };
        let run = |args: &[String]| shop.ok(&args.iter().map(String::as_str).collect::<Vec<_>>());
        run(&stored(&["--report", "whole.json"]));
        let whole = shop.report("whole.json");
        let saved = format!("saved-{storage}");
        let mut half = stored(&["--checkpoint", &saved, "--checkpoint.every", "9"]);
        half.extend(TINY.map(str::to_owned));
        run(&half);
        // The newest is of the last step; without it, the run resumes from the one before.
        let last = std::fs::read_dir(shop.path(&saved)).unwrap().map(|entry| entry.unwrap().path());
        std::fs::remove_dir_all(last.max().unwrap()).unwrap();
        half.extend(["--resume", "--report", "resumed.json"].map(str::to_owned));
        run(&half);
        let resumed = shop.report("resumed.json");
        assert!(resumed["examples"].as_u64() > Some(0));
        for field in ["model_digest", "eval", "rows"] {
            assert_eq!(resumed[field], whole[field], "{storage} {field}");
        }
        shop.ok(&["eval", &saved, "--report", "eval.json"]);
        assert_eq!(shop.report("eval.json")["eval"], whole["eval"]);
        let shown = shop.ok(&["inspect", &saved, "--json", "--top", "1"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let table = &shown["tables"][0];
        // Four and one 16-bit weights in three lanes, and their sums of squares.
        assert_eq!((&table["storage"], &table["row_bytes"]), (&storage.into(), &32.into()));
        let norm = table["top"][0]["norm"].as_f64().unwrap();
        assert!(norm > 0.01 && norm < 10.0, "{norm}");
        let error = shop.fails(&train(&data, &["--checkpoint", &saved, "--resume"]));
        assert!(error.contains(&format!("rows.storage = {storage}, this run has f32")), "{error}");
    }
}

#[test]
fn two_runs_do_not_share_a_directory() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 20_000);
    let args = train(&data, &["--checkpoint", "saved", "--tiers.ssd", "rows"]);
    let mut first = shop.command(&args).stdout(Stdio::null()).spawn().unwrap();
    while !shop.path("rows/rows-0").exists() {
        assert!(first.try_wait().unwrap().is_none(), "the run ended before it began");
        std::thread::sleep(Duration::from_millis(2));
    }
    for directory in [["--checkpoint", "saved"], ["--tiers.ssd", "rows"]] {
        let mut second = train(&data, &directory);
        second.push("--force");
        let error = shop.fails(&second);
        assert!(error.contains("in use by another run"), "{error}");
    }
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn a_model_that_diverged_is_not_saved() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let more = ["--checkpoint", "saved", "--optim.dense.lr", "1e6", "--optim.dense.kind", "sgd"];
    let error = shop.fails(&train(&data, &more));
    assert!(error.contains("diverged") && error.contains("optim.dense.lr"), "{error}");
    assert_eq!(shop.newest(), None);
}
