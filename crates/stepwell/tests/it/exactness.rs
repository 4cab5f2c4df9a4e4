//! On real clicks: tiny tiers, any lookahead, batch and thread count, and a kill in the middle give
//! the digest of the run in memory, and the same evaluation to the last digit.
//!
//! With `STEPWELL_LONG` set it trains the full model on all clicks; without, a small one on some.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::Workshop;
use serde_json::Value;

/// Clicks of the small model.
const CLICKS: usize = 24_000;

fn long() -> bool {
    std::env::var_os("STEPWELL_LONG").is_some()
}

fn base(data: &str, model: &str) -> Vec<String> {
    let mut args = vec!["train", "--data", data, "--model", model, "--data.mini_batch", "256"];
    args.extend(["--data.eval_fraction", "0.2", "--tiers.index", "32MiB"]);
    if !long() {
        args.extend(["--model.dim", "4", "--model.hidden", "16,8", "--model.bottom", "8"]);
    }
    args.into_iter().map(str::to_owned).collect()
}

#[derive(Clone)]
struct Case<'a> {
    shop: &'a Workshop,
    data: String,
    model: &'static str,
}

impl Case<'_> {
    fn args<'b>(&'b self, base: &'b [String], more: &[&'b str]) -> Vec<&'b str> {
        base.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }

    fn run(&self, more: &[&str]) -> Value {
        let base = base(&self.data, self.model);
        let mut args = self.args(&base, more);
        args.extend(["--report", "report.json"]);
        self.shop.ok(&args);
        let report = self.shop.report("report.json");
        let (peak, bound) = (report["peak_rss_bytes"].as_u64(), report["budget_bytes"].as_u64());
        assert!(peak <= bound, "{more:?}: {peak:?} bytes of memory, {bound:?} were planned");
        report
    }

    /// 2 % of the rows' bytes, or the least that fits every mini-batch, with the longest horizon of
    /// all cases, because known keys take a few bytes, too.
    fn least_memory(&self, rows: u64, row_bytes: u64) -> String {
        let mut bytes = rows * row_bytes / 50;
        let base = base(&self.data, self.model);
        loop {
            let dram = bytes.to_string();
            let tiny = ["--tiers.dram", &dram, "--tiers.segment", "256KiB"];
            let mut args = self.args(&base, &tiny);
            args.extend(["--pipeline.lookahead", "8", "--data.batch", "2048"]);
            let output = self.shop.run(&args);
            if output.status.success() {
                return dram;
            }
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let needed = error.split("at least ").nth(1).and_then(|rest| rest.split(';').next());
            bytes = needed.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{error}"));
        }
    }
}

fn same(case: &str, report: &Value, oracle: &Value) {
    for field in ["model_digest", "rows", "eval"] {
        assert_eq!(report[field], oracle[field], "{case}: {field}");
    }
}

/// The first clicks of a file.
fn some(data: &Path, shop: &Workshop) -> String {
    let text = BufReader::new(zstd::Decoder::new(File::open(data).unwrap()).unwrap());
    let lines = text.lines().take(CLICKS).map(|line| line.unwrap() + "\n");
    let path = shop.path("clicks.tsv");
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    path.display().to_string()
}

#[test]
fn tiny_tiers_give_the_model_of_the_run_in_memory() {
    let Some(folder) = std::env::var_os("STEPWELL_DATA") else {
        stepwell_skip::skipped("STEPWELL_DATA is not set");
        return;
    };
    let data = Path::new(&folder).join("criteo_tb_80k.tsv.zst");
    let shop = Workshop::new();
    let data = if long() { data.display().to_string() } else { some(&data, &shop) };
    let case = Case { shop: &shop, data, model: "deepfm" };
    let lanes: u64 = if long() { 17 } else { 5 };
    let oracle = case.run(&["--pipeline.lookahead", "0", "--tiers.dram", "256MiB"]);
    assert_eq!(oracle["tiers"]["host"]["evictions"], 0);
    let rows = oracle["rows"].as_u64().unwrap();
    let dram = case.least_memory(rows, lanes * 8);
    println!("{rows} rows of {} bytes, {dram} bytes for them", lanes * 8);

    let tiny = ["--tiers.dram", &dram, "--tiers.segment", "256KiB"];
    let mut forwarded = 0;
    for (lookahead, batch, threads) in
        [("1", "256", "1"), ("2", "2048", "2"), ("8", "256", "2"), ("8", "2048", "1")]
    {
        let name = format!("lookahead {lookahead}, batch {batch}, threads {threads}");
        let mut more = tiny.to_vec();
        more.extend(["--pipeline.lookahead", lookahead, "--data.batch", batch]);
        more.extend(["--threads", threads]);
        let report = case.run(&more);
        same(&name, &report, &oracle);
        let (host, disk) = (&report["tiers"]["host"], &report["tiers"]["disk"]);
        println!(
            "{name}: evictions {}, forwarded {}, refilled {}, compactions {}",
            host["evictions"], host["forwarded"], host["refilled"], disk["compactions"]
        );
        forwarded += host["forwarded"].as_u64().unwrap();
        for field in ["evictions", "refilled"] {
            assert!(host[field].as_u64() > Some(0), "{name}: {field}");
        }
        assert!(disk["compactions"].as_u64() > Some(0), "{name}");
    }
    assert!(forwarded > 0, "no row was served on its way down");
    every_storage(&case, &tiny);
    let evictions = every_policy(&case, &tiny, &oracle);
    println!("evictions by policy: {evictions:?}");
    killed_and_resumed(&case, &tiny, &oracle);
    for model in ["dcn", "dlrm"] {
        other_model(&Case { model, ..case.clone() }, &tiny);
    }
}

/// Rows without a wide weight are smaller, so a mini-batch of them fits the same memory.
fn other_model(case: &Case<'_>, tiny: &[&str]) {
    let oracle = case.run(&["--pipeline.lookahead", "0", "--tiers.dram", "256MiB"]);
    let mut more = tiny.to_vec();
    more.extend(["--pipeline.lookahead", "2", "--data.batch", "2048"]);
    let report = case.run(&more);
    same(case.model, &report, &oracle);
    assert!(report["tiers"]["host"]["evictions"].as_u64() > Some(0), "{}", case.model);
}

/// 16-bit weights give another model, which is the same through tiny tiers.
fn every_storage(case: &Case<'_>, tiny: &[&str]) {
    for storage in ["f16", "bf16"] {
        let with = |more: &[&str]| {
            let mut args = vec!["--rows.storage", storage];
            args.extend(more);
            case.run(&args)
        };
        let oracle = with(&["--pipeline.lookahead", "0", "--tiers.dram", "256MiB"]);
        let mut more = tiny.to_vec();
        more.extend(["--pipeline.lookahead", "8", "--data.batch", "2048", "--threads", "2"]);
        let report = with(&more);
        same(storage, &report, &oracle);
        assert!(report["tiers"]["host"]["evictions"].as_u64() > Some(0), "{storage}");
    }
}

/// The eviction policy affects only the speed of a run.
fn every_policy(case: &Case<'_>, tiny: &[&str], oracle: &Value) -> Vec<u64> {
    let mut evictions = Vec::new();
    for policy in ["lru-lfu", "sven"] {
        let mut more = tiny.to_vec();
        // A policy's lists take memory, too.
        let dram = (tiny[1].parse::<u64>().unwrap() * 5 / 4).to_string();
        more[1] = &dram;
        more.extend(["--tiers.policy", policy, "--pipeline.horizon", "1"]);
        more.extend(["--pipeline.lookahead", "1"]);
        let report = case.run(&more);
        same(policy, &report, oracle);
        evictions.push(report["tiers"]["host"]["evictions"].as_u64().unwrap());
    }
    let differing: std::collections::HashSet<u64> = evictions.iter().copied().collect();
    assert!(differing.len() > 1, "the policies were not told apart: {evictions:?}");
    evictions
}

fn killed_and_resumed(case: &Case<'_>, tiny: &[&str], oracle: &Value) {
    let mut more = tiny.to_vec();
    more.extend(["--checkpoint", "saved", "--checkpoint.every", "15", "--resume=auto"]);
    let base = base(&case.data, case.model);
    let args = case.args(&base, &more);
    let mut child = case.shop.command(&args).stdout(Stdio::null()).spawn().unwrap();
    while !case.shop.path("saved/step-000000000030").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before its second checkpoint");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let report = case.run(&more);
    assert!(report["examples"].as_u64() < oracle["examples"].as_u64(), "nothing was resumed");
    same("killed and resumed", &report, oracle);
}
