//! The profile in the report, compared with limits.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use crate::common::{SMALL, Workshop};
use serde_json::{Value, json};

/// Trains on a few examples with `more` options; returns the report.
fn train(shop: &Workshop, more: &[&str]) -> Value {
    shop.ok(&args(more));
    shop.report("report.json")
}

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--data", "data.tsv", "--report", "report.json"];
    args.extend(SMALL);
    args.extend(more);
    args
}

fn workshop() -> Workshop {
    let shop = Workshop::new();
    shop.examples("data.tsv", 300);
    shop
}

/// Figures as `bench cpu` would write them on this machine.
fn figures() -> Value {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let cpu = model.and_then(|line| line.split_once(": ")).map_or("", |(_, name)| name.trim());
    let limits = |threads: usize| {
        json!({
            "threads": threads,
            "fma_flops_per_second": 8e10,
            "gemm_flops_per_second": 4e10,
            "bf16_gemm_flops_per_second": 9e10,
            "memcpy_bytes_per_second": 6e9,
            "gather_bytes_per_second": 4e9,
        })
    };
    json!({
        "options": { "steps": 8 },
        "machine": { "cpu": cpu, "cores": 2, "kernel": "6", "io_engine": "none" },
        "limits": [limits(1), limits(2)],
        "runs": [],
    })
}

fn write(shop: &Workshop, name: &str, figures: &Value) {
    std::fs::write(shop.path(name), figures.to_string()).unwrap();
}

fn kernel<'a>(report: &'a Value, name: &str) -> &'a Value {
    let kernels = report["profile"].as_array().unwrap();
    kernels.iter().find(|kernel| kernel["name"] == name).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn processor_time_covers_stages_and_kernels() {
    let report = train(&workshop(), &[]);
    let sum = |of: &str, field: &str| {
        report[of].as_array().unwrap().iter().map(|part| number(&part[field])).sum::<f64>()
    };
    let (compute, kernels) = (number(&report["compute_seconds"]), sum("profile", "seconds"));
    assert!(kernels > 0.0 && compute >= kernels, "{compute} of {kernels}");
    let processor = &report["processor"];
    let (all, stages) = (number(&processor["seconds"]), sum("stages", "cpu_seconds"));
    assert!(all >= kernels + stages, "{all} of {kernels} and {stages}");
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(processor["cores"], json!(cores));
}

#[test]
fn a_report_has_layers() {
    let report = train(&workshop(), &[]);
    let layers = report["layers"].as_array().unwrap();
    let names: Vec<_> = layers.iter().map(|layer| layer["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["linear", "mlp1", "mlp2", "mlp_out", "fm", "logit"]);
    for pass in ["forward", "backward"] {
        let kernel = kernel(&report, pass);
        let sum = |field: &str| layers.iter().map(|layer| number(&layer[pass][field])).sum::<f64>();
        assert_eq!(sum("flops"), number(&kernel["flops"]), "{pass}");
        let seconds = sum("seconds");
        assert!(seconds > 0.0 && seconds <= number(&kernel["seconds"]), "{pass}: {seconds}");
        assert!(layers.iter().all(|layer| layer[pass]["limit"].is_null()));
    }
}

#[test]
fn limits_of_this_machine_are_beside_kernels_and_layers() {
    let shop = workshop();
    write(&shop, "limits.json", &figures());
    let report = train(&shop, &["--limits", "limits.json"]);
    let is = |of: &Value, name: &str, rate: &str, per_second: f64| {
        let limit = &of["limit"];
        assert_eq!((&limit["name"], number(&limit["per_second"])), (&json!(name), per_second));
        let achieved = number(&of[rate]) / per_second;
        assert!((number(&limit["achieved"]) - achieved).abs() < 1e-9, "{of}");
    };
    for name in ["forward", "backward"] {
        is(kernel(&report, name), "gemm", "flops_per_second", 4e10);
    }
    for name in ["gather", "rows"] {
        is(kernel(&report, name), "gather", "bytes_per_second", 4e9);
    }
    is(kernel(&report, "dense"), "memcpy", "bytes_per_second", 2.0 * 6e9);
    assert!(kernel(&report, "loss")["limit"].is_null());
    for layer in report["layers"].as_array().unwrap() {
        is(&layer["forward"], "gemm", "flops_per_second", 4e10);
        is(&layer["backward"], "gemm", "flops_per_second", 4e10);
    }
    let bf16 = ["--limits", "limits.json", "--set", "model.precision=bf16"];
    let report = train(&shop, &bf16);
    is(kernel(&report, "forward"), "gemm", "flops_per_second", 9e10);
    is(kernel(&report, "rows"), "gather", "bytes_per_second", 4e9);
}

#[test]
fn limits_that_are_not_this_machines_are_refused_before_training() {
    let shop = workshop();
    let refused = |figures: &Value, why: &str| {
        write(&shop, "other.json", figures);
        let error = shop.fails(&args(&["--limits", "other.json"]));
        assert!(error.contains("limits other.json: ") && error.contains(why), "{error}");
        assert!(error.contains("stepwell-lab bench cpu --json"), "{error}");
    };
    let mut other = figures();
    other["machine"]["cpu"] = json!("Abacus 3");
    refused(&other, "machine.cpu is 'Abacus 3'");
    let mut other = figures();
    other["limits"] = json!([]);
    refused(&other, "no entry for 1 thread");
    let mut other = figures();
    other["limits"][0]["gemm_flops_per_second"] = json!(0);
    refused(&other, "limits.gemm_flops_per_second for 1 thread is 0");
    refused(&json!({ "limits": [] }), "missing field `machine`");
    refused(&json!("limits"), "not what `stepwell-lab bench cpu` writes");
    let error = shop.fails(&args(&["--limits", "nowhere.json"]));
    assert!(error.contains("nowhere.json: does not exist"), "{error}");
    assert!(!shop.path("report.json").exists(), "nothing was trained");
}

#[test]
fn limits_go_with_a_report_of_another_name() {
    let shop = workshop();
    let output = shop.run(&["train", "--data", "data.tsv", "--limits", "limits.json"]);
    assert!(
        !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("--report")
    );
    write(&shop, "report.json", &figures());
    let error = shop.fails(&args(&["--limits", "report.json"]));
    assert!(error.contains("this run reads that file"), "{error}");
    assert_eq!(shop.report("report.json"), figures());
}
