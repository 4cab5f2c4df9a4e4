//! Bad input: one line that names file, line or key, and the fix.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{SMALL, TINY, Workshop, lines_beside_notes};

fn line(label: &str, first: &str, ids: usize) -> String {
    let dense = ["1"; 12].join("\t");
    let ids = vec!["ab"; ids].join("\t");
    format!("{label}\t{first}\t{dense}\t{ids}\n")
}

fn good() -> String {
    line("0", "7", 26)
}

fn train(shop: &Workshop, data: &str, more: &[&str]) -> String {
    let mut args = vec!["train", "--data", data];
    args.extend(SMALL);
    args.extend(more);
    shop.fails(&args)
}

fn of_text(text: &str) -> String {
    let shop = Workshop::new();
    std::fs::write(shop.path("train.tsv"), text).unwrap();
    train(&shop, "train.tsv", &[])
}

#[test]
fn malformed_lines_name_file_line_column_and_reason() {
    let error = of_text(&(good() + &line("0", "7", 25)));
    assert!(error.contains("train.tsv: line 2") && error.contains("40"), "{error}");
    let error = of_text(&(good() + &good() + &line("yes", "7", 26)));
    assert!(error.contains("train.tsv: line 3, column 1") && error.contains("yes"), "{error}");
    let error = of_text(&line("1", "x7", 26));
    assert!(error.contains("line 1, column 2") && error.contains("x7"), "{error}");
    let error = of_text(good().repeat(3).trim_end());
    assert!(error.contains("line 3") && error.contains("line end"), "{error}");
    let error = of_text("");
    assert!(error.contains("train.tsv") && error.contains("empty"), "{error}");
}

#[test]
fn malformed_lines_may_be_skipped_up_to_a_number() {
    let shop = Workshop::new();
    let text = good().repeat(30) + "nonsense\n" + &good().repeat(30) + "more\n" + &good();
    std::fs::write(shop.path("train.tsv"), text).unwrap();
    let mut args = vec!["train", "--data", "train.tsv", "--report", "report.json"];
    args.extend(SMALL);
    args.extend(["--set", "data.eval_fraction=0", "--set", "data.skip_max=2"]);
    shop.ok(&args);
    assert_eq!(shop.report("report.json")["examples"], 61);
    assert_eq!(shop.report("report.json")["skipped_lines"], 2);
    let last = args.len() - 1;
    args[last] = "data.skip_max=1";
    let error = shop.fails(&args);
    assert!(error.contains("line 62"), "{error}");
}

#[test]
fn shapes_that_make_no_model_are_refused() {
    let shop = Workshop::new();
    for (setting, mend) in [
        ("model.cross_layers=0", "model.cross_layers is 0: give 1 to 64"),
        ("model.bottom=", "model.bottom is []: give one width or more"),
        ("model.bottom=8,0", "model.bottom is [8, 0]: give one width or more, each 1 to 65536"),
    ] {
        let error = shop.fails(&["train", "--set", setting]);
        assert!(error.contains(mend), "{error}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let shop = Workshop::new();
    let error = train(&shop, "nowhere.tsv", &[]);
    assert!(error.contains("nowhere.tsv"), "{error}");
    let error = train(&shop, "*.parquet", &[]);
    assert!(error.contains("*.parquet"), "{error}");
    std::fs::create_dir(shop.path("folder")).unwrap();
    let error = train(&shop, "folder", &[]);
    assert!(error.contains("folder") && error.contains("directory"), "{error}");
}

#[test]
fn a_truncated_gzip_is_told_from_a_whole_one() {
    let shop = Workshop::new();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    for number in 0..3000 {
        encoder.write_all(line("0", &number.to_string(), 26).as_bytes()).unwrap();
    }
    let bytes = encoder.finish().unwrap();
    std::fs::write(shop.path("whole.gz"), &bytes).unwrap();
    let mut args = vec!["train", "--data", "whole.gz"];
    args.extend(SMALL);
    shop.ok(&args);
    std::fs::write(shop.path("cut.gz"), &bytes[..bytes.len() * 2 / 3]).unwrap();
    let error = train(&shop, "cut.gz", &[]);
    assert!(error.contains("cut.gz") && error.contains("ends too early"), "{error}");
}

#[test]
fn settings_that_make_no_sense_are_answered_with_the_mend() {
    let shop = Workshop::new();
    std::fs::write(shop.path("train.tsv"), good().repeat(100)).unwrap();
    let error = |more: &[&str]| train(&shop, "train.tsv", more);
    let unknown = error(&["--set", "tiers.drm=1MiB"]);
    assert!(unknown.contains("tiers.dram"), "{unknown}");
    let small = error(&["--set", "tiers.dram=100"]);
    assert!(small.contains("tiers.dram"), "{small}");
    let small = error(&["--set", "tiers.dram=3800"]);
    assert!(small.contains("distinct rows") && small.contains("tiers.dram"), "{small}");
    let batch = error(&["--set", "data.batch=100"]);
    assert!(batch.contains("data.mini_batch") && batch.contains("128"), "{batch}");
    let batch = error(&["--set", "data.batch=18446744073709551615"]);
    assert!(batch.contains("for example, 64"), "{batch}");
    let known = error(&["--set", "pipeline.lookahead=18446744073709551615"]);
    assert!(known.contains("pipeline.horizon"), "{known}");
    let memory = error(&["--set", "tiers.dram=100TiB"]);
    assert!(memory.contains("this machine has") && memory.contains("lower tiers.dram"), "{memory}");
    let threads = error(&["--set", "threads=1000000"]);
    assert!(threads.contains("threads is 1000000: give 1 to 1024"), "{threads}");
    let nothing = error(&["--set", "data.eval_fraction=0.9999"]);
    assert!(nothing.contains("no example") && nothing.contains("eval_fraction"), "{nothing}");
    let fraction = error(&["--set", "data.eval_fraction=1.5"]);
    assert!(fraction.contains("data.eval_fraction"), "{fraction}");
    for (key, rate) in [("optim.rows.lr", "1e-320"), ("optim.dense.lr", "0.0")] {
        let error = error(&["--set", &format!("{key}={rate}")]);
        assert!(error.contains(&format!("{key} is {rate}: give a number above 0")), "{error}");
    }
    let known = error(&["--set", "pipeline.lookahead=16384"]);
    assert!(known.contains("pipeline.lookahead is 16384: give less than 16384"), "{known}");
    let file = error(&["--set", "tiers.ssd=train.tsv"]);
    assert!(file.contains("tiers.ssd = train.tsv is not a directory"), "{file}");
    let file = error(&["--checkpoint", "train.tsv"]);
    assert!(file.contains("checkpoint.dir = train.tsv is not a directory"), "{file}");
    let lines = error(&["--set", "seed=1\n2"]);
    assert!(lines.contains("seed = 1\\n2: give a whole number"), "{lines}");
    let preset = error(&["--preset", "ctr"]);
    assert!(preset.contains("give one of criteo, adult"), "{preset}");
    std::fs::write(shop.path("run.toml"), "seed = 1\n[tiers]\ndramm = '1MiB'\n").unwrap();
    let file = shop.fails(&["train", "run.toml"]);
    assert!(file.contains("run.toml:3") && file.contains("tiers.dram"), "{file}");
    let file = shop.fails(&["train", "missing.toml"]);
    assert!(file.contains("missing.toml"), "{file}");
}

#[test]
fn directories_that_cannot_be_written_are_named() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    std::fs::write(shop.path("file"), "in the way").unwrap();
    let error = train(&shop, &data, &["--checkpoint", "file/saved"]);
    assert!(error.contains("file/saved"), "{error}");
    let error = train(&shop, &data, &["--set", "tiers.ssd=file/rows"]);
    assert!(error.contains("file/rows"), "{error}");
    let error = train(&shop, &data, &["--report", "nowhere/report.json"]);
    assert!(error.contains("nowhere/report.json"), "{error}");
}

#[test]
fn a_directory_without_permission_is_named() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1500);
    std::fs::create_dir(shop.path("locked")).unwrap();
    std::fs::set_permissions(shop.path("locked"), Permissions::from_mode(0o555)).unwrap();
    std::fs::set_permissions(shop.path(""), Permissions::from_mode(0o755)).unwrap();
    let mut args = vec!["train", "--data", &data, "--checkpoint", "locked/saved"];
    args.extend(SMALL);
    // Permissions do not bind root, so the program runs as user nobody if possible.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_stepwell")]).args(&args);
    let as_nobody = command.current_dir(shop.path("")).output();
    let output = match as_nobody {
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("stepwell:") => output,
        _ if std::fs::write(shop.path("locked/probe"), b"").is_err() => shop.run(&args),
        _ => return stepwell_skip::skipped("root cannot run the program as nobody"),
    };
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert_eq!(lines_beside_notes(&error), 1, "{error}");
    assert!(error.contains("locked/saved") && error.contains("ermission"), "{error}");
}

#[test]
fn a_full_disk_ends_the_run_with_its_name() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 3000);
    // /dev/full is a disk that is always full; a limit on file size acts like one for segments.
    let mut args = vec!["train", "--data", &data, "--tiers.ssd", "rows"];
    args.extend(SMALL);
    args.extend(TINY);
    let program = env!("CARGO_BIN_EXE_stepwell");
    let output = Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 40; exec \"$0\" \"$@\"")
        .arg(program)
        .args(&args)
        .current_dir(shop.path(""))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(lines_beside_notes(&error), 1, "{error}");
    assert!(error.contains("rows") && error.contains("(ulimit -f)"), "{error}");
}

#[test]
fn a_run_that_its_process_may_not_hold_is_refused_with_the_numbers() {
    let shop = Workshop::new();
    let data = shop.examples("data.tsv", 1000);
    let run = |limit: &str, threads: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]);
        command.args([env!("CARGO_BIN_EXE_stepwell"), "train", "--data", &data]).args(SMALL);
        let output = command.args(TINY).args(["--threads", threads]).current_dir(shop.path(""));
        output.output().unwrap()
    };
    let (mut refused, mut passed) = (0, 0);
    for (kind, limits) in [
        ("-v", [100_000, 700_000, 1_000_000, 1_200_000, 1_500_000, 1_800_000, 4_000_000]),
        ("-d", [100_000, 400_000, 700_000, 1_000_000, 1_100_000, 1_300_000, 4_000_000]),
    ] {
        for kib in limits {
            let output = run(&format!("{kind} {kib}"), "2");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => passed += 1,
                // Never a signal, as from an allocation that fails and aborts.
                Some(1 | 2) => {
                    refused += 1;
                    assert_eq!(lines_beside_notes(&error), 1, "{error}");
                    assert!(error.contains(&format!("(ulimit {kind}): raise it")), "{error}");
                    assert!(error.contains("threads needs up to"), "{error}");
                }
                other => panic!("{kind} {kib}: {other:?}, {error}"),
            }
        }
    }
    assert!(refused >= 4 && passed >= 2, "{refused} refused, {passed} passed");
    // Too little for the threads that read the evaluation part before the plan is made.
    for kib in (1_050_000..1_300_000).step_by(10_000) {
        let output = run(&format!("-v {kib}"), "8");
        let error = String::from_utf8_lossy(&output.stderr);
        let told = output.status.success() || error.contains("(ulimit -v): raise it");
        assert!(told, "{kib}: {error}");
    }
}
