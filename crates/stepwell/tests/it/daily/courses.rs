//! The courses of the daily command: it begins, resumes, has nothing to do, or fails.

use serde_json::Value;

use crate::common::TINY;
use crate::daily::days::{DAY, Days, SETTINGS, checkpoints};

#[test]
fn days_one_by_one_are_all_days_in_one_run() {
    let days = Days::new(3);
    let lives: &[&str] =
        &["--rows.history", "true", "--rows.admit_after", "2", "--rows.expire_after", "12"];
    let ranks: &[&str] = &["--ranks", "2", "--threads", "1"];
    let shuffled: &[&str] = &["--data.shuffle", "200"];
    let stale: &[&str] = &["--pipeline.staleness", "2"];
    let odd: &[&str] =
        &["--optim.rows.kind=adam", "--optim.dense.kind=adam", "--model.batch_norm=true"];
    let falling: &[&str] = &[
        "--optim.rows.schedule=cosine",
        "--optim.rows.decay_steps=40",
        "--optim.dense.schedule=inverse_sqrt",
        "--optim.dense.decay_steps=5",
        "--optim.dense.warmup_steps=12",
    ];
    for (what, more) in [
        ("plain", &[][..]),
        ("tiny tiers", &TINY[..4]),
        ("lives", lives),
        ("ranks", ranks),
        ("shuffled", shuffled),
        ("stale", stale),
        ("adam and a state", odd),
        ("schedules", falling),
    ] {
        let report = days.daily(3, &format!("saved {what}"), more);
        assert_eq!(report["model_digest"], days.whole(more), "{what}");
        assert_eq!(report["steps"], 24, "{what}");
        assert_eq!(report["examples"], DAY, "{what}");
    }
}

/// A day that would learn nothing says so.
#[test]
fn a_schedule_that_has_ended_is_noted() {
    let days = Days::new(2);
    let linear = ["--optim.rows.schedule=linear", "--optim.rows.decay_steps=8"];
    days.train(&[&["--data", "day_1.csv", "--checkpoint", "one"][..], &linear].concat());
    let from = ["train", "--from", "one", "--data", "day_2.csv", "--checkpoint", "two"];
    let notes = days.shop.notes(&from);
    let ended = "the learning rate of optim.rows is 0 from step 8 on";
    assert!(notes.contains(ended) && !notes.contains("optim.dense is 0"), "{notes}");
    let constant = ["--optim.rows.schedule=constant", "--checkpoint", "three"];
    assert!(!days.shop.notes(&[&from[..5], &constant].concat()).contains("learning rate"));
}

#[test]
fn the_number_of_ranks_and_the_format_may_change_from_day_to_day() {
    let days = Days::new(4);
    let expected = days.whole(&[]);
    days.shop.ok(&["convert", "day_3.csv", "--config", "run.toml", "--out", "day_3.packed"]);
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved", "--ranks", "2"]);
    let from = ["--from", "saved", "--checkpoint", "saved"];
    days.train(&[&from[..], &["--data", "day_2.csv", "--ranks", "3", "--threads", "1"]].concat());
    days.train(&[&from[..], &["--data", "day_3.packed"]].concat());
    let report = days.train(&[&from[..], &["--data", "day_4.csv", "--ranks", "2"]].concat());
    assert_eq!(report["model_digest"], expected);
}

#[test]
fn a_checkpoint_says_enough_to_go_on_without_a_file_of_settings() {
    let days = Days::new(2);
    days.train(&["--data", "day_1.csv", "--checkpoint", "one"]);
    let args = ["train", "--from", "one", "--data", "day_2.csv", "--checkpoint", "two"];
    days.shop.ok(&[&args[..], &["--report", "report.json"]].concat());
    let report = days.shop.report("report.json");
    assert_eq!(report["model_digest"], days.whole(&[]));
    assert_eq!(report["config"]["data.mini_batch"], 50);
    // The first directory is unchanged.
    assert_eq!(checkpoints(&days, "one"), ["step-000000000008"]);
}

#[test]
fn the_daily_command_may_run_twice() {
    let days = Days::new(3);
    days.daily(2, "saved", &[]);
    let again = ["--data", "day_2.csv", "--from", "saved", "--checkpoint", "saved"];
    let command = [&["train", "run.toml"], &again[..]].concat();
    let said = days.said(&command);
    assert!(said.contains("trained before (step 16)") && said.contains("--again"), "{said}");
    let json: Value =
        serde_json::from_str(&days.shop.ok(&[&command[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["trained_before"], true);
    let report = days.train(&[&again[..], &["--again"]].concat());
    assert_eq!((report["steps"].clone(), report["examples"].clone()), (24.into(), DAY.into()));
    // An earlier day also counts as trained, and so does a moved file.
    let said = days.said(&[&["train", "run.toml", "--data", "day_1.csv"], &again[2..]].concat());
    assert!(said.contains("trained before"), "{said}");
    std::fs::rename(days.shop.path("day_1.csv"), days.shop.path("old.csv")).unwrap();
    let said = days.said(&[&["train", "run.toml", "--data", "old.csv"], &again[2..]].concat());
    assert!(said.contains("trained before"), "{said}");
    assert_eq!(checkpoints(&days, "saved").last().unwrap(), "step-000000000024");
}

#[test]
fn a_pattern_that_finds_one_more_file_trains_on_that_one() {
    let days = Days::new(3);
    std::fs::rename(days.shop.path("day_3.csv"), days.shop.path("later")).unwrap();
    days.train(&["--data", "day_*.csv", "--checkpoint", "saved"]);
    std::fs::rename(days.shop.path("later"), days.shop.path("day_3.csv")).unwrap();
    let args = ["--data", "day_*.csv", "--from", "saved", "--checkpoint", "saved"];
    let said = days.said(&[&["train", "run.toml", "--report", "report.json"], &args[..]].concat());
    assert!(said.contains("2 of 3 files were trained before"), "{said}");
    let report = days.shop.report("report.json");
    assert_eq!(report["model_digest"], days.whole(&[]));
    assert_eq!(report["examples"], DAY);
}

#[test]
fn a_day_that_was_stopped_goes_on_with_the_same_bits() {
    let days = Days::new(2);
    let expected = days.whole(&[]);
    days.train(&["--data", "day_1.csv", "--checkpoint", "first"]);
    for to in ["first", "second"] {
        let args = ["--from", "first", "--data", "day_2.csv", "--checkpoint", to];
        let often = ["--checkpoint.every", "3", "--checkpoint.keep", "100"];
        let first_day = checkpoints(&days, "first");
        days.train(&[&args[..], &often[..]].concat());
        // As after a kill, when the last checkpoints were never written.
        for name in checkpoints(&days, to) {
            if name.as_str() > "step-000000000012" {
                std::fs::remove_dir_all(days.shop.path(&format!("{to}/{name}"))).unwrap();
            }
        }
        let report = days.train(&[&args[..], &often[..]].concat());
        assert_eq!(report["model_digest"], expected, "{to}");
        assert_eq!(report["examples"], 4 * 50, "{to}");
        let said = days.said(&[&["train", "run.toml"], &args[..]].concat());
        assert!(said.contains("trained before"), "{said}");
        if to == "first" {
            // The second round begins with the first day again.
            for name in checkpoints(&days, to) {
                if !first_day.contains(&name) {
                    std::fs::remove_dir_all(days.shop.path(&format!("{to}/{name}"))).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_run_in_the_middle_of_its_data_is_finished_first() {
    let days = Days::new(2);
    days.train(&[
        "--data",
        "day_1.csv",
        "--checkpoint",
        "saved",
        "--checkpoint.every",
        "3",
        "--checkpoint.keep",
        "9",
    ]);
    std::fs::remove_dir_all(days.shop.path("saved/step-000000000008")).unwrap();
    let args = ["train", "run.toml", "--data", "day_2.csv", "--checkpoint", "next", "--from"];
    let why = days.shop.fails(&[&args[..], &["saved"]].concat());
    assert!(why.contains("stopped after line 300 of day_1.csv: train the rest first"), "{why}");
    // If a checkpoint is named itself, the rest of its day is left out, with a note.
    let said = days.said(&[&args[..], &["saved/step-000000000006"]].concat());
    assert!(said.contains("this run does not train the data after that"), "{said}");
}

#[test]
fn what_would_mix_up_runs_or_data_is_refused() {
    let days = Days::new(3);
    days.train(&["--data", "day_1.csv", "--checkpoint", "one"]);
    days.train(&["--data", "day_1.csv", "--checkpoint", "other", "--seed", "9"]);
    let fails = |more: &[&str]| days.shop.fails(&[&["train", "run.toml"], more].concat());
    let why = fails(&["--from", "one", "--data", "day_2.csv", "--checkpoint", "other"]);
    assert!(why.contains("holds checkpoints of another run"), "{why}");
    let why = fails(&["--from", "one", "--checkpoint", "new"]);
    assert!(why.contains("name it with --data"), "{why}");
    let why = fails(&["--from", "nowhere", "--data", "day_2.csv"]);
    assert!(why.contains("nowhere: does not exist"), "{why}");
    let why = fails(&["--from", "one", "--data", "day_2.csv", "--checkpoint", "one", "--force"]);
    assert!(why.contains("leave out --force"), "{why}");
    let why = fails(&["--from", "one", "--data", "day_2.csv", "--model.dim", "2"]);
    assert!(why.contains("are not truncated"), "{why}");
    // A part of a file that grew would be trained twice.
    let mut grown = std::fs::read_to_string(days.shop.path("day_1.csv")).unwrap();
    grown += "1,2,u1,i1,d1\n";
    std::fs::write(days.shop.path("day_1.csv"), grown).unwrap();
    let why = fails(&["--from", "one", "--data", "day_1.csv", "--checkpoint", "one"]);
    assert!(why.contains("was trained when it had") && why.contains("--again"), "{why}");
    // A day without records trains nothing and reports that.
    std::fs::write(days.shop.path("none.csv"), "click,price,user,item,device\n").unwrap();
    let why = fails(&["--from", "one", "--data", "none.csv", "--checkpoint", "one"]);
    assert!(why.contains("no record"), "{why}");
}

#[test]
fn the_model_before_is_evaluated_on_the_day_to_come() {
    let days = Days::new(2);
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    days.shop.ok(&["eval", "saved", "--data", "day_2.csv", "--report", "eval.json"]);
    let args = ["--from", "saved", "--data", "day_2.csv", "--checkpoint", "saved"];
    let report = days.train(&[&args[..], &["--evaluate-first"]].concat());
    assert_eq!(report["before"], days.shop.report("eval.json")["eval"]);
    assert_eq!(report["model_digest"], days.whole(&[]));
}

/// Removes the checkpoints after step `step`, as after a kill.
fn killed_after(days: &Days, saved: &str, step: u64) {
    let last = format!("step-{step:012}");
    for name in checkpoints(days, saved).into_iter().filter(|name| *name > last) {
        std::fs::remove_dir_all(days.shop.path(&format!("{saved}/{name}"))).unwrap();
    }
}

const OFTEN: [&str; 4] = ["--checkpoint.every", "3", "--checkpoint.keep", "100"];

#[test]
fn a_pattern_that_finds_more_after_a_kill_finishes_what_was_begun() {
    let days = Days::new(3);
    let expected = days.whole(&[]);
    std::fs::rename(days.shop.path("day_3.csv"), days.shop.path("later")).unwrap();
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    let daily = ["--data", "day_*.csv", "--from", "saved", "--checkpoint", "saved"];
    days.train(&[&daily[..], &OFTEN].concat());
    killed_after(&days, "saved", 12);
    std::fs::rename(days.shop.path("later"), days.shop.path("day_3.csv")).unwrap();
    let said = days.said(&[&["train", "run.toml"], &daily[..], &OFTEN].concat());
    assert!(said.contains("is finished first; run the command again for day_3.csv"), "{said}");
    assert_eq!(days.train(&[&daily[..], &OFTEN].concat())["model_digest"], expected);
    let said = days.said(&[&["train", "run.toml"], &daily[..]].concat());
    assert!(said.contains("trained before (step 24)"), "{said}");
}

#[test]
fn a_killed_run_in_another_directory_keeps_its_own_evaluation() {
    let days = Days::new(2);
    let evaluated = SETTINGS.replace("eval_fraction = 0.0", "eval_fraction = 0.125");
    std::fs::write(days.shop.path("first.toml"), evaluated).unwrap();
    days.shop.ok(&["train", "first.toml", "--data", "day_1.csv", "--checkpoint", "one"]);
    let next = ["train", "--from", "one", "--data", "day_2.csv", "--checkpoint", "two"];
    let report = ["--report", "report.json"];
    days.shop.ok(&[&next[..], &OFTEN, &report].concat());
    let whole = days.shop.report("report.json");
    assert_eq!(whole["config"]["data.eval_fraction"], 0.0);
    killed_after(&days, "two", 12);
    days.shop.ok(&[&next[..], &OFTEN, &report].concat());
    assert_eq!(days.shop.report("report.json")["model_digest"], whole["model_digest"]);
    // A run with an evaluation part keeps that part when it resumes.
    days.shop.ok(&[
        &["train", "first.toml", "--data", "day_2.csv", "--checkpoint", "three"][..],
        &OFTEN,
    ]
    .concat());
    killed_after(&days, "three", 3);
    let again = ["train", "--from", "three", "--data", "day_2.csv", "--checkpoint", "three"];
    days.shop.ok(&[&again[..], &report].concat());
    assert_eq!(days.shop.report("report.json")["eval"]["examples"], DAY / 8);
}

#[test]
fn what_a_named_checkpoint_leaves_out_is_not_trained_again() {
    let days = Days::new(3);
    let two = ["--data", "day_1.csv", "--data", "day_2.csv", "--checkpoint", "saved"];
    days.train(&[&two[..], &OFTEN].concat());
    killed_after(&days, "saved", 12);
    let next = ["--from", "saved/step-000000000012", "--data", "day_3.csv"];
    let report = days.train(&[&next[..], &["--checkpoint", "next"]].concat());
    assert_eq!((report["steps"].clone(), report["examples"].clone()), (20.into(), DAY.into()));
    let all = ["train", "run.toml", "--from", "next", "--data", "day_*.csv"];
    let said = days.said(&[&all[..], &["--checkpoint", "next"]].concat());
    assert!(said.contains("trained before (step 20)"), "{said}");
}

#[test]
fn an_empty_file_is_trained_when_it_has_records() {
    let days = Days::new(2);
    let second = std::fs::read(days.shop.path("day_2.csv")).unwrap();
    std::fs::write(days.shop.path("day_2.csv"), "").unwrap();
    days.train(&["--data", "day_*.csv", "--checkpoint", "saved"]);
    let daily = ["--data", "day_*.csv", "--from", "saved", "--checkpoint", "saved"];
    let said = days.said(&[&["train", "run.toml"], &daily[..]].concat());
    assert!(said.contains("trained before (step 8)"), "{said}");
    std::fs::write(days.shop.path("day_2.csv"), second).unwrap();
    let report = days.train(&daily);
    assert_eq!(report["model_digest"], days.whole(&[]));
    // If nothing is trained, yesterday's report is replaced.
    let silent = [&["train", "run.toml", "--report", "report.json"], &daily[..]].concat();
    days.shop.ok(&silent);
    assert_eq!(days.shop.report("report.json")["trained_before"], true);
}

/// A run reads no page of rows before it needs it. A damaged page ends the run with an error that
/// names the page's checkpoint.
#[test]
fn a_damaged_row_names_the_checkpoint_that_it_came_with() {
    let days = Days::new(2);
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    let from = ["--from", "saved", "--checkpoint", "other"];
    let rows = days.shop.path("saved/step-000000000008/rows-0");
    let is_segment = |name: &str| name.starts_with("segment");
    let segment = std::fs::read_dir(rows).unwrap().flatten().map(|entry| entry.path());
    let segment = segment.filter(|path| path.file_name().unwrap().to_str().is_some_and(is_segment));
    let segment = segment.min().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4096 + 200] ^= 4;
    std::fs::write(&segment, bytes).unwrap();
    let commands: [&[&str]; 2] = [
        &[&["train", "run.toml", "--data", "day_2.csv"][..], &from].concat(),
        &["eval", "saved", "--data", "day_2.csv"],
    ];
    for command in commands {
        let output = days.shop.run(command);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{error}");
        let line = error.lines().rfind(|line| line.starts_with("stepwell: ")).unwrap();
        let begin = "stepwell: checkpoint saved/step-000000000008: its rows are";
        assert!(line.starts_with(begin), "{command:?}: {line}");
        for part in ["checksum", "repair"] {
            assert!(line.contains(part), "{command:?}: {line}");
        }
    }
}

#[test]
fn the_digest_is_left_out_on_request() {
    let days = Days::new(1);
    let report = days.train(&["--data", "day_1.csv", "--no-digest"]);
    assert_eq!((&report["model_digest"], &report["digest_seconds"]), (&Value::Null, &0.0.into()));
    assert_eq!(report["steps"], 8);
}

#[test]
fn a_file_that_comes_late_waits_for_what_was_begun() {
    let days = Days::new(3);
    let hide = |from: &str, to: &str| {
        std::fs::rename(days.shop.path(from), days.shop.path(to)).unwrap();
    };
    let expected = {
        let args = ["--data", "day_2.csv", "--data", "day_3.csv", "--data", "day_1.csv"];
        days.train(&args)["model_digest"].clone()
    };
    hide("day_1.csv", "late");
    days.train(&[&["--data", "day_*.csv", "--checkpoint", "saved"][..], &OFTEN].concat());
    killed_after(&days, "saved", 12);
    hide("late", "day_1.csv");
    let daily = ["--data", "day_*.csv", "--from", "saved", "--checkpoint", "saved"];
    let said = days.said(&[&["train", "run.toml"], &daily[..], &OFTEN].concat());
    assert!(said.contains("is finished first; run the command again for day_1.csv"), "{said}");
    assert_eq!(days.train(&daily)["model_digest"], expected);
}

#[test]
fn a_record_that_is_mended_is_trained_by_the_same_command() {
    let days = Days::new(3);
    let expected = days.whole(&[]);
    let path = days.shop.path("day_3.csv");
    let good = std::fs::read_to_string(&path).unwrap();
    let head = good.lines().next().unwrap();
    std::fs::write(&path, good.replacen(head, &format!("{head}\n1,x,u1,i1,d1"), 1)).unwrap();
    days.train(&["--data", "day_1.csv", "--checkpoint", "saved"]);
    let daily = ["--data", "day_*.csv", "--from", "saved", "--checkpoint", "saved"];
    let output = days.shop.run(&[&["train", "run.toml"], &daily[..]].concat());
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && why.contains("day_3.csv: line 2"), "{why}");
    assert_eq!(checkpoints(&days, "saved").last().unwrap(), "step-000000000016");
    std::fs::write(&path, &good).unwrap();
    let said = days.said(&[&["train", "run.toml", "--report", "report.json"], &daily[..]].concat());
    assert!(said.contains("files have changed since"), "{said}");
    assert_eq!(days.shop.report("report.json")["model_digest"], expected);
    assert_eq!(days.train(&daily)["trained_before"], true);
}

#[test]
fn a_file_that_changed_behind_its_first_lines_is_refused() {
    let days = Days::new(2);
    days.train(&[&["--data", "day_1.csv", "--checkpoint", "saved"][..], &OFTEN].concat());
    killed_after(&days, "saved", 6);
    let path = days.shop.path("day_1.csv");
    let text = std::fs::read_to_string(&path).unwrap() + "1,2,u1,i1,d1\n";
    std::fs::write(&path, text).unwrap();
    let daily = ["train", "run.toml", "--data", "day_*.csv", "--checkpoint", "saved", "--from"];
    let why = days.shop.fails(&[&daily[..], &["saved"]].concat());
    assert!(why.contains("after line 300 of day_1.csv, which has changed since"), "{why}");
    let named = [&daily[..], &["saved/step-000000000006", "--again"]].concat();
    days.shop.ok(&[&named[..], &["--report", "report.json"]].concat());
    assert_eq!(days.shop.report("report.json")["examples"], 2 * DAY + 1);
}
