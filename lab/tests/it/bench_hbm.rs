//! `bench hbm` on emulated devices: figures are all there, and of kernels that are right.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use crate::common::Workshop;
use serde_json::Value;

fn figures(devices: &str) -> Value {
    let shop = Workshop::new();
    let args = ["bench", "hbm", "--device", devices, "--bytes", "64KiB", "--rounds", "1", "--json"];
    serde_json::from_str(&shop.ok(&args)).unwrap()
}

fn positive(of: &Value, name: &str) -> f64 {
    let figure = of[name].as_f64().unwrap_or_else(|| panic!("{name}: {of}"));
    assert!(figure > 0.0 && figure.is_finite(), "{name}: {of}");
    figure
}

#[test]
fn every_figure_is_there() {
    let figures = figures("emulated:2");
    assert_eq!(figures["devices"], serde_json::json!(["emulated:0", "emulated:1"]));
    assert_eq!(
        (figures["emulated"].as_bool(), figures["bytes"].as_u64()),
        (Some(true), Some(65536))
    );
    let copy = positive(&figures, "copy_bytes_per_second");
    let rows = figures["rows"].as_array().unwrap();
    let sizes: Vec<u64> = rows.iter().map(|of| of["row_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64, 128, 256, 512]);
    for of in rows {
        let kernels = of["kernels"].as_array().unwrap();
        let names: Vec<&str> = kernels.iter().map(|of| of["kernel"].as_str().unwrap()).collect();
        assert_eq!(names, ["rows_down", "rows_up", "rows_read", "rows_pool", "rows_update"]);
        for kernel in kernels {
            let bytes = positive(kernel, "rows_per_second") * positive(kernel, "bytes_of_row");
            let said = positive(kernel, "bytes_per_second");
            assert!((said / bytes - 1.0).abs() < 1e-9);
            assert!((positive(kernel, "over_copy") * copy / said - 1.0).abs() < 1e-9);
        }
    }
    let lookup = &figures["lookup"];
    let tables = lookup["tables"].as_array().unwrap();
    let loads: Vec<f64> = tables.iter().map(|of| positive(of, "load")).collect();
    assert_eq!(loads, [0.5, 0.75, 0.9, 1.0]);
    for table in tables {
        positive(table, "insert_keys_per_second");
        positive(table, "get_keys_per_second");
    }
    let is_cheaper = positive(lookup, "table_seconds") < positive(lookup, "slots_seconds");
    assert_eq!(lookup["cheaper"], if is_cheaper { "table" } else { "slots" });
    for way in figures["ways"]["host"].as_array().unwrap() {
        assert!(positive(way, "up") > 0.0 && positive(way, "down") > 0.0);
    }
    positive(&figures["ways"], "across");
}

#[test]
fn what_cannot_be_measured_is_said_with_the_mend() {
    let shop = Workshop::new();
    let fails = |more: &[&str]| {
        let mut args = vec!["bench", "hbm"];
        args.extend(more);
        shop.fails(&args)
    };
    let none = fails(&["--device", "host"]);
    assert!(none.contains("choose one, such as --device emulated:1"), "{none}");
    let little = fails(&["--device", "emulated:1", "--bytes", "1KiB"]);
    assert!(little.contains("--bytes 1.0 KiB: give 16.0 KiB to "), "{little}");
    for bytes in ["18446744073709551615", "2305843009213693952"] {
        let much = fails(&["--device", "emulated:1", "--bytes", bytes]);
        assert!(much.contains(": give 16.0 KiB to "), "{much}");
    }
    for rounds in ["0", "1000001", "18446744073709551615"] {
        let said = fails(&["--device", "emulated:1", "--rounds", rounds]);
        assert!(said.contains(&format!("--rounds {rounds}: give 1 to 1000000")), "{said}");
    }
}
