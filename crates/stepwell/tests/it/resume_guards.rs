//! Errors of a resumed run or an evaluation that would otherwise silently use another model.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::path::Path;
use std::process::Stdio;

use crate::common::{SMALL, TINY, Workshop};

/// Trains on `data` into the checkpoints in `saved`.
fn train<'a>(data: &'a str, saved: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--data", data, "--checkpoint", saved];
    args.extend(SMALL);
    args.extend(TINY);
    args.extend(more);
    args
}

fn only_checkpoint(saved: &Path) -> std::path::PathBuf {
    let entries = std::fs::read_dir(saved).unwrap().flatten().map(|entry| entry.path());
    let mut steps: Vec<_> = entries.filter(|path| path.join("checkpoint.json").exists()).collect();
    assert_eq!(steps.len(), 1, "{steps:?}");
    steps.remove(0)
}

#[test]
fn rows_of_another_run_are_refused() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 2000);
    let keep = ["--set", "checkpoint.keep=1", "--set", "data.eval_fraction=0.1"];
    let with = |saved, seed| {
        let mut args = train(&data, saved, &keep);
        args.extend(["--seed", seed]);
        args
    };
    shop.ok(&with("one", "1"));
    shop.ok(&with("two", "2"));
    let (one, two) = (only_checkpoint(&shop.path("one")), only_checkpoint(&shop.path("two")));
    let whole = shop.ok(&["eval", "one"]);
    std::fs::rename(one.join("rows-0"), shop.path("own")).unwrap();
    std::fs::rename(two.join("rows-0"), one.join("rows-0")).unwrap();
    let mut resume = with("one", "1");
    resume.extend(["--resume", "--set", "data.epochs=2"]);
    for args in [resume.as_slice(), &["eval", "one"]] {
        let refused = shop.fails(args);
        assert!(refused.contains("not those that were saved with it"), "{refused}");
        assert!(refused.contains("rows-0/manifest.json") && refused.contains("--repaired"));
    }
    // With the flag, it is done with a note.
    let taken = shop.said(&["eval", "one", "--repaired"]);
    assert!(taken.contains("although its rows are not the saved ones"), "{taken}");
    std::fs::remove_dir_all(one.join("rows-0")).unwrap();
    std::fs::rename(shop.path("own"), one.join("rows-0")).unwrap();
    assert_eq!(shop.ok(&["eval", "one"]), whole);
    resume.push("--repaired");
    assert!(!shop.ok(&resume).contains("although"));
}

#[test]
fn data_that_was_changed_in_its_middle_is_refused() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 5000);
    shop.ok(&train(&data, "saved", &[]));
    let mut text = std::fs::read(&data).unwrap();
    assert!(text.len() > 1 << 20);
    let middle = text.len() / 2;
    let lines = text.windows(2).enumerate().skip(middle).filter(|(_, two)| two[0] == b'\n');
    let labels: Vec<usize> = lines.map(|(at, _)| at + 1).take(3).collect();
    labels.into_iter().for_each(|at| text[at] ^= 1);
    std::fs::write(&data, text).unwrap();
    let refused = shop.fails(&train(&data, "saved", &["--resume", "--set", "data.epochs=2"]));
    assert!(refused.contains("'data.tsv', which was changed since: it has other content"));
}

#[test]
fn settings_without_effect_may_change() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let idle = ["--optim.rows.momentum", "0.5", "--optim.rows.eps", "1e-10"];
    for (kind, more) in [("fm", &["--model.hidden", "4,4"][..]), ("deepfm", &idle)] {
        let [whole, saved] = ["whole", "saved"].map(|name| format!("{name}-{kind}"));
        let of = |saved: &str, more: &[&str]| {
            let best = ["--checkpoint.best", "logloss", "--report", "report.json"];
            shop.ok(&train(&data, saved, &[&["--model", kind], &best[..], more].concat()));
            shop.report("report.json")
        };
        let oracle = of(&whole, &["--data.epochs", "2"]);
        of(&saved, &[]);
        let resumed = of(&saved, &[&["--data.epochs", "2", "--resume"], more].concat());
        assert_eq!(resumed["model_digest"], oracle["model_digest"], "{kind}");
        // The best checkpoint so far is still known.
        let best = |saved: &str| shop.report(&format!("{saved}/best.json"))["step"].clone();
        assert_eq!(best(&saved), best(&whole), "{kind}");
        shop.ok(&[&["eval", &saved], more].concat());
    }
}

#[test]
fn skipped_lines_count_on() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let mut text = std::fs::read_to_string(&data).unwrap();
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    // From the end, so that earlier positions don't change.
    for line in [2600, 2000, 1900, 1200, 700, 100] {
        text.insert_str(starts[line], "bad\n");
    }
    std::fs::write(&data, text).unwrap();
    let keys = |saved| train(&data, saved, &["--checkpoint.every", "3", "--data.epochs", "2"]);
    let with = |saved, more: &[&'static str]| {
        let mut args = keys(saved);
        args.extend(more);
        args
    };
    shop.ok(&with("whole", &["--data.skip_max", "6", "--report", "whole.json"]));
    let whole = shop.report("whole.json");
    assert_eq!(whole["skipped_lines"], 12);

    // A run that may skip four lines stops at the fifth, also when it is resumed.
    let five = shop.fails(&with("saved", &["--data.skip_max", "4"]));
    assert!(five.contains("line 2006"), "{five}");
    assert_eq!(shop.fails(&with("saved", &["--data.skip_max", "4", "--resume"])), five);
    let more = ["--data.skip_max", "6", "--resume", "--report", "resumed.json"];
    shop.ok(&with("saved", &more));
    let resumed = shop.report("resumed.json");
    for field in ["skipped_lines", "model_digest", "steps"] {
        assert_eq!(resumed[field], whole[field], "{field}");
    }
}

#[test]
fn what_was_trained_before_a_bad_line_is_kept() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    let mut text = std::fs::read_to_string(&data).unwrap();
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    text.insert_str(starts[1999], "bad\n");
    std::fs::write(&data, text).unwrap();
    let mini_batch = ["--data.mini_batch", "128", "--set", "checkpoint.every=0"];
    let with = |saved, more: &[&'static str]| {
        let mut args = train(&data, saved, &mini_batch);
        args.extend(more);
        args
    };
    let refused = shop.fails(&with("saved", &[]));
    assert!(refused.contains("line 2001"), "{refused}");
    // With any timing of threads.
    for again in 0..10 {
        let saved = format!("again-{again}");
        let mut args = train(&data, &saved, &mini_batch);
        args.extend(["--data.batch", "512"]);
        assert_eq!(shop.fails(&args), refused);
        only_checkpoint(&shop.path(&saved));
    }
    // All full mini-batches before the block of lines with the error.
    let kept = only_checkpoint(&shop.path("saved"));
    let step: u32 = kept.to_str().unwrap().rsplit('-').next().unwrap().parse().unwrap();
    assert!((2..=15).contains(&step), "{step} of at most 2000 / 128");

    shop.ok(&with("saved", &["--data.skip_max", "1", "--resume", "--report", "on.json"]));
    shop.ok(&with("whole", &["--data.skip_max", "1", "--report", "whole.json"]));
    let (on, whole) = (shop.report("on.json"), shop.report("whole.json"));
    assert_eq!(on["model_digest"], whole["model_digest"]);
    // Without checkpoints, it also fails and leaves nothing.
    let refused_too = shop.fails(&["train", "--data", &data, "--data.mini_batch", "128"]);
    assert_eq!(refused_too, refused);
}

#[test]
fn resuming_from_nothing_is_refused_unless_asked_for() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let refused = shop.fails(&train(&data, "saevd", &["--resume"]));
    assert!(refused.contains("no directory saevd") && refused.contains("=auto"), "{refused}");
    assert!(!shop.path("saevd").exists());
    std::fs::create_dir(shop.path("empty")).unwrap();
    let refused = shop.fails(&train(&data, "empty", &["--resume"]));
    assert!(refused.contains("no checkpoint to resume from"), "{refused}");
    let begun = shop.notes(&train(&data, "saved", &["--resume=auto"]));
    assert!(
        begun.contains("stepwell: note: no checkpoint in saved yet: starting at step 0"),
        "{begun}"
    );
    let more = ["--resume=auto", "--set", "data.epochs=2"];
    let resumed = shop.notes(&train(&data, "saved", &more));
    assert!(resumed.contains("resuming after step"), "{resumed}");
}

#[test]
fn a_checkpoint_is_no_directory_of_checkpoints() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, "saved", &["--set", "checkpoint.keep=1"]));
    let step = only_checkpoint(&shop.path("saved")).display().to_string();
    let below = format!("{step}/below");
    for place in [&step, &below] {
        for more in [&["--resume"][..], &["--resume=auto"], &["--force"], &[]] {
            let refused = shop.fails(&train(&data, place, more));
            assert!(refused.contains("checkpoint.dir") && refused.contains("is a checkpoint"));
        }
    }
    assert!(!Path::new(&below).exists());
}

#[test]
fn an_evaluation_asks_for_data_that_was_not_trained_on() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, "saved", &["--set", "data.eval_fraction=0"]));
    let refused = shop.fails(&["eval", "saved"]);
    assert!(refused.contains("without an evaluation part") && refused.contains("--data"));
    shop.ok(&["eval", "saved", "--data", &data]);
}

#[test]
fn an_evaluation_tells_that_its_data_is_not_what_was_trained_on() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 600);
    shop.ok(&train(&data, "saved", &["--set", "data.eval_fraction=0.1"]));
    let said = |more: &[&str]| {
        let output = shop.run(&[&["eval", "saved"][..], more].concat());
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!said(&[]).contains("warning"));
    let mut text = std::fs::read_to_string(&data).unwrap();
    let line = text.lines().next().unwrap().to_owned();
    text.push_str(&(line + "\n"));
    std::fs::write(&data, text).unwrap();
    let changed = said(&["--quiet"]);
    for part in ["stepwell: warning: checkpoint saved/", "'data.tsv'", "changed since", "--data"] {
        assert!(changed.contains(part), "{changed}");
    }
    // Data that is named gives no warning.
    assert!(!said(&["--data", &data]).contains("warning"));
}

#[test]
fn an_evaluation_chooses_its_own_memory() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    shop.ok(&train(&data, "saved", &["--set", "data.eval_fraction=0.1"]));
    let eval = |more: &[&str]| {
        let args: Vec<&str> = ["eval", "saved", "--report", "eval.json"]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        shop.ok(&args);
        let report = shop.report("eval.json");
        (report["eval"].clone(), report["config"]["tiers.dram"].clone())
    };
    let (metrics, dram) = eval(&[]);
    let (same, other) = eval(&["--tiers.dram", "64MiB", "--threads", "1", "--data.batch", "64"]);
    assert_eq!(metrics, same);
    assert_ne!(dram, other);
}

#[test]
fn an_evaluation_follows_a_run_that_replaces_its_checkpoints() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 12_000);
    let often = ["--checkpoint.every", "1", "--set", "checkpoint.keep=1"];
    let mut run =
        shop.command(&train(&data, "saved", &often)).stdout(Stdio::null()).spawn().unwrap();
    let few = shop.examples("few.tsv", 50);
    let mut scored = 0;
    while run.try_wait().unwrap().is_none() {
        let any = std::fs::read_dir(shop.path("saved")).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("step-"))
        });
        if any {
            shop.ok(&["eval", "saved", "--data", &few]);
            scored += 1;
        }
    }
    assert!(run.wait().unwrap().success());
    assert!(scored > 0, "the run was over before anything was scored");
}

#[test]
fn a_run_that_was_refused_leaves_its_directory_free() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let with = |dram| {
        let mut args = vec!["train", "--data", &data, "--tiers.ssd", "rows", "--tiers.dram", dram];
        args.extend(SMALL);
        args
    };
    let refused = shop.fails(&with("32KiB"));
    assert!(refused.contains("tiers.dram"), "{refused}");
    shop.ok(&with("1MiB"));
    // Rows of a run that started are not overwritten.
    assert!(shop.fails(&with("1MiB")).contains("--force"));
}
