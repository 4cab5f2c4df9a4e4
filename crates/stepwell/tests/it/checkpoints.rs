//! When checkpoints are written, and that no bit of the model depends on it.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;

use crate::common::{SMALL, TINY, Workshop};

fn train<'a>(data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--data", data, "--data.epochs", "2", "--report", "report.json"];
    args.extend(SMALL);
    args.extend(TINY);
    args.extend(more);
    args
}

fn steps(shop: &Workshop, directory: &str) -> Vec<u64> {
    let entries = fs::read_dir(shop.path(directory)).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let step = |name: String| name.strip_prefix("step-")?.parse().ok();
    let mut steps: Vec<u64> = names.filter_map(step).collect();
    steps.sort_unstable();
    steps
}

#[test]
fn time_decides_when_and_nothing_else() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 6000);
    shop.ok(&train(&data, &[]));
    let whole = shop.report("report.json");
    let last = whole["steps"].as_u64().unwrap();
    let often = ["--checkpoint.minutes", "1e-5", "--checkpoint.keep", "1000"];
    let mut args = train(&data, &["--checkpoint", "often"]);
    args.extend(often);
    let said = shop.ok(&args);
    let report = shop.report("report.json");
    for field in ["model_digest", "rows", "eval", "progressive_by_epoch", "steps"] {
        assert_eq!(report[field], whole[field], "{field}");
    }
    let written = steps(&shop, "often");
    assert!(written.len() > 5 && written.last() == Some(&last), "{written:?}");
    // One line for each, and no step twice.
    assert_eq!(said.matches("checkpoint of step").count(), written.len(), "{said}");
    // Resumed in the middle of a batch, the run gives the same model.
    let middle = written[written.len() / 2];
    for step in written.iter().filter(|step| **step > middle) {
        fs::remove_dir_all(shop.path(&format!("often/step-{step:012}"))).unwrap();
    }
    args.push("--resume");
    shop.ok(&args);
    assert_eq!(shop.report("report.json")["model_digest"], whole["model_digest"]);
    let off = ["--checkpoint", "off", "--checkpoint.minutes", "0", "--checkpoint.keep", "1000"];
    shop.ok(&train(&data, &off));
    assert_eq!(steps(&shop, "off"), [last]);
    let error = shop.fails(&train(&data, &["--checkpoint.minutes", "-1"]));
    assert!(error.contains("checkpoint.minutes is -1: give a number from 0 (off)"), "{error}");
}

#[test]
fn a_checkpoint_of_step_0_is_the_model_before_the_first_step() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let args = train(&data, &["--checkpoint", "saved", "--checkpoint.initial", "true"]);
    shop.ok(&args);
    let whole = shop.report("report.json");
    let last = whole["steps"].as_u64().unwrap();
    assert_eq!(steps(&shop, "saved"), [0, last]);
    let first = "saved/step-000000000000";
    shop.ok(&["eval", first, "--digest", "--report", "first.json"]);
    let before = shop.report("first.json");
    assert_eq!((&before["rows"], &before["steps"]), (&0.into(), &0.into()));
    assert!(before["eval"]["auc"].as_f64() < whole["eval"]["auc"].as_f64());
    let shown = shop.ok(&["inspect", first, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["step"], &shown["tables"][0]["rows"]), (&0.into(), &0.into()));
    // A run resumed after it does not write it again.
    let mut resumed = args.clone();
    resumed.push("--resume");
    let said = shop.notes(&resumed);
    let note = format!("checkpoint.initial has no effect: the run continues after step {last}");
    assert!(said.contains(&note), "{said}");
    // Resumed from it, the run gives the same model.
    fs::remove_dir_all(shop.path(&format!("saved/step-{last:012}"))).unwrap();
    shop.ok(&resumed);
    let again = shop.report("report.json");
    assert_eq!(again["model_digest"], whole["model_digest"]);
    assert_eq!(again["examples"], whole["examples"]);
}

#[test]
fn settings_that_change_nothing_are_told_where_they_were_given() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let notes = |args: &[&str]| {
        let output = shop.run(args);
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(notes(&train(&data, &[])), "");
    let given = ["--checkpoint.every", "5", "--set", "synth.examples=7", "--force"];
    let said = notes(&train(&data, &given));
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "synth.examples has no effect, because data is given instead of the built-in stream",
        "checkpoint.every has no effect, because no --checkpoint is given",
        "--force has no effect, because neither --checkpoint nor tiers.ssd is given",
    ];
    assert_eq!(lines, expected.map(|line| format!("stepwell: note: {line}")));
    fs::write(shop.path("run.toml"), "[checkpoint]\nminutes = 3\ninitial = true\n").unwrap();
    let mut args = train(&data, &[]);
    args.insert(1, "run.toml");
    assert_eq!(notes(&args).lines().count(), 2);
    args.extend(["--checkpoint", "saved"]);
    assert_eq!(notes(&args), "");
    // Settings without effect on an evaluation.
    let said = notes(&["eval", "saved", "--set", "data.epochs=3", "--set", "tiers.ssd=x"]);
    assert!(said.contains("data.epochs has no effect, because"), "{said}");
    assert!(said.contains("tiers.ssd has no effect, because"), "{said}");
    let given = ["--tiers.space", "2", "--set", "data.eval_fraction=0.3"];
    let said = notes(&[&["eval", "saved", "--data", &data][..], &given].concat());
    assert!(
        said.contains("tiers.space has no effect, because nothing is trained or kept"),
        "{said}"
    );
    let named = "data.eval_fraction has no effect, because data.eval_paths names the data";
    assert!(said.contains(named) && said.lines().count() == 2, "{said}");
}

#[test]
fn a_run_that_is_over_says_that_nothing_is_left() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let run = |epochs: &str, more: &[&str]| {
        let given = ["--checkpoint", "saved", "--data.epochs", epochs];
        shop.notes(&train(&data, &[&given[..], more].concat()))
    };
    let over = "nothing was left to train: the run with data.epochs = ";
    assert!(!run("2", &[]).contains(over));
    let whole = shop.report("report.json");
    assert_eq!(whole["config"]["checkpoint.minutes"], 10.0, "where nothing else is asked for");
    for epochs in ["2", "1"] {
        let said = run(epochs, &["--resume"]);
        assert!(said.contains(&format!("{over}{epochs} ended at step")), "{said}");
        assert_eq!(shop.report("report.json")["model_digest"], whole["model_digest"]);
    }
    assert!(!run("3", &["--resume"]).contains(over));
}

#[test]
fn a_model_without_hidden_layers_is_taken_in_every_form() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 300);
    let mut digests = Vec::new();
    fs::write(shop.path("run.toml"), "[model]\nhidden = []\n").unwrap();
    let mut file: Vec<&str> = train(&data, &[]);
    file.retain(|arg| *arg != "model.hidden=16,8");
    // The `--set` before it is removed, too.
    let place = file.windows(2).position(|two| two == ["--set", "--set"]).unwrap();
    file.remove(place);
    file.insert(1, "run.toml");
    for args in
        [file, train(&data, &["--model.hidden", ""]), train(&data, &["--set", "model.hidden=[]"])]
    {
        shop.ok(&args);
        digests.push(shop.report("report.json")["model_digest"].clone());
        assert_eq!(shop.report("report.json")["config"]["model.hidden"], serde_json::json!([]));
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

/// The figure of each epoch's evaluation, and what `eval saved` measures.
fn evaluated(shop: &Workshop, figure: &str) -> (Vec<f64>, f64) {
    let epochs = shop.report("report.json")["eval_by_epoch"].clone();
    let epochs = epochs.as_array().unwrap().iter().map(|of| of[figure].as_f64().unwrap()).collect();
    let found: serde_json::Value =
        serde_json::from_str(&shop.ok(&["eval", "saved", "--json", "-q"])).unwrap();
    (epochs, found["eval"][figure].as_f64().unwrap())
}

#[test]
fn the_best_evaluated_checkpoint_stays_and_is_what_is_evaluated() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 800);
    let run = |epochs: &str, best: &str, more: &[&str]| {
        // A rate that overfits soon.
        let own = ["--optim.rows.lr=0.5", "--checkpoint=saved", "--checkpoint.keep=1"];
        let all = ["--data.epochs", epochs, "--checkpoint.best", best, "--report", "report.json"];
        let args = [&["train", "--data", &data, "-q"][..], &SMALL, &own, &all, more].concat();
        shop.ok(&args);
        shop.report("report.json")
    };
    let better: [fn(f64, f64) -> f64; 2] = [f64::min, f64::max];
    let mut digests = Vec::new();
    for ((figure, ranks), better) in [("logloss", "1"), ("auc", "2")].into_iter().zip(better) {
        let report = run("4", figure, &["--ranks", ranks, "--force"]);
        let (epochs, found) = evaluated(&shop, figure);
        let best = epochs.iter().copied().reduce(better).unwrap();
        assert!((found - best).abs() < 1e-7, "{figure}: {epochs:?}, {found}");
        let at = epochs.iter().position(|of| *of == best).unwrap();
        let last = report["steps"].as_u64().unwrap();
        let mut kept = vec![last / 4 * (at as u64 + 1), last];
        kept.dedup();
        assert_eq!(steps(&shop, "saved"), kept, "{figure} {epochs:?}");
        digests.push(report["model_digest"].clone());
    }
    assert_eq!(digests[0], digests[1]);
    // A resumed run knows the best checkpoint so far.
    run("2", "logloss", &["--force"]);
    let (mut epochs, _) = evaluated(&shop, "logloss");
    assert_eq!(run("4", "logloss", &["--resume"])["model_digest"], digests[0]);
    let (later, found) = evaluated(&shop, "logloss");
    epochs.extend(later);
    let best = epochs.iter().copied().reduce(f64::min).unwrap();
    assert!((found - best).abs() < 1e-7, "{epochs:?}, {found}");
    let said = shop.ok(&["eval", "saved"]);
    assert!(said.contains("is the best evaluated one (logloss "), "{said}");
    // Without the setting, the newest is used again.
    run("5", "none", &["--resume"]);
    let (later, found) = evaluated(&shop, "logloss");
    assert!((found - later.last().unwrap()).abs() < 1e-7, "{later:?} {found}");
    let output = shop.run(&train(&data, &["--checkpoint.best=auc"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("checkpoint.best has no effect"), "{said}");
}

/// An existing directory with the checkpoint's name is set aside, not replaced.
#[test]
fn what_lies_in_the_place_of_a_checkpoint_is_set_aside() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 600);
    let args = train(&data, &["--checkpoint", "saved", "--checkpoint.keep", "9"]);
    shop.ok(&args);
    let whole = shop.report("report.json");
    let last = whole["steps"].as_u64().unwrap();
    let name = format!("step-{last:012}");
    fs::remove_file(shop.path(&format!("saved/{name}/checkpoint.json"))).unwrap();
    let said = shop.notes(&[&args[..], &["--resume=auto"]].concat());
    let passed_over =
        format!("saved/{name} is not a complete checkpoint of that step and is ignored");
    assert!(said.contains(&passed_over), "{said}");
    assert!(said.contains("it was set aside into saved/set-aside-1"), "{said}");
    assert_eq!(shop.report("report.json")["model_digest"], whole["model_digest"]);
    assert!(shop.path(&format!("saved/set-aside-1/{name}/dense.bin")).exists());
    assert_eq!(steps(&shop, "saved"), [last]);
    shop.ok(&["inspect", "saved"]);
}

/// The run ends as with a signal: the trained model is kept, and the same command continues with a
/// larger index.
#[test]
fn a_full_index_keeps_what_was_trained() {
    let shop = Workshop::new();
    let data = shop.text("data.tsv");
    shop.ok(&["synth", "--out", &data, "--examples", "5000", "--vocab-scale", "20"]);
    shop.ok(&train(&data, &[]));
    let whole = shop.report("report.json");
    let given = ["--checkpoint", "saved", "--checkpoint.minutes", "0", "--resume=auto"];
    let mut index = (328 << 10).to_string();
    let mut ends = 0;
    loop {
        let args = train(&data, &[&given[..], &["--tiers.index", &index]].concat());
        let output = shop.run(&args);
        let noted = String::from_utf8(output.stderr).unwrap();
        let said = noted.lines().last().unwrap_or_default();
        if output.status.success() {
            break;
        }
        ends += 1;
        assert!(output.status.code() == Some(1) && ends < 5, "{said}");
        let note = "the index of table 'embedding' is nine tenths full, and the run ends once it";
        assert!(noted.contains(note), "{noted}");
        let (begin, kept) = said.split_once(" or more (").unwrap();
        assert!(begin.contains("is full: ") && begin.contains(" rows on disk take "), "{said}");
        let step = kept.split_once("the model after step ").unwrap().1;
        let step: u64 = step.split_once(" is saved: continue with ").unwrap().0.parse().unwrap();
        assert_eq!(shop.newest(), Some(format!("step-{step:012}")), "{said}");
        index = begin.rsplit_once("raise tiers.index to ").unwrap().1.to_owned();
    }
    assert!(ends > 0);
    assert_eq!(shop.report("report.json")["model_digest"], whole["model_digest"]);
    // Without checkpoints, the message says that nothing is kept.
    let error = shop.run(&train(&data, &["--tiers.index", "328KiB"]));
    let said = String::from_utf8(error.stderr).unwrap();
    assert!(!error.status.success(), "{said}");
    assert!(said.contains("nothing was saved, because checkpoint.dir is not set"), "{said}");
}

#[test]
fn training_that_ends_early_says_so_and_continues_with_other_data() {
    let shop = Workshop::new();
    let (data, next) = (shop.examples("data.tsv", 800), shop.examples("next.tsv", 400));
    let run = |data: &str, more: &[&str]| {
        let own = ["--optim.rows.lr=0.5", "--data.epochs=6", "--checkpoint.best=logloss"];
        let early = ["--train.evaluate_every=2", "--train.patience=2", "--report=report.json"];
        let args = [&["train", "--data", data][..], &SMALL, &own, &early, more].concat();
        let output = shop.run(&args);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{said}");
        (said, shop.report("report.json"))
    };
    let (said, report) = run(&data, &["--checkpoint=saved"]);
    let (last, early) = (report["steps"].as_u64().unwrap(), &report["stopped_early"]);
    assert!(early["step"] == last && early["by"] == "logloss", "{early}");
    let best = early["best_step"].as_u64().unwrap();
    assert_eq!(steps(&shop, "saved").first(), Some(&best));
    let note = format!("training ended early after step {last}: 2 evaluations no better than");
    assert!(said.contains(&note) && said.contains(", evaluation"), "{said}");
    let evaluations = report["evaluations"].as_array().unwrap();
    assert_eq!(evaluations.last().unwrap()["step"], last);
    assert_eq!(report["eval"]["logloss"], evaluations.last().unwrap()["logloss"]);
    // There is nothing left to train of this data, but other data continues.
    let (said, again) = run(&data, &["--checkpoint=saved", "--resume"]);
    assert!(said.contains(&note) && again["examples"] == 0, "{said}");
    assert_eq!(again["model_digest"], report["model_digest"]);
    let other = ["--checkpoint=day2", "--from=saved", "--tiers.dram=4MiB", "--train.patience=0"];
    let (said, day) = run(&next, &other);
    assert!(day["steps_before"] == last && day["examples"].as_u64() > Some(0), "{said}");
}
