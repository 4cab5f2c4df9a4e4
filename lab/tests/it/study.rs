//! `stepwell-lab study`, as people and scripts run it.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs::File;
use std::path::PathBuf;

use stepwell_data::SynthOptions;
use stepwell_data::synth::write_tsv;

use crate::common::Workshop;

/// Writes a file of examples of the built-in stream, and returns its path.
pub(crate) fn clicks(shop: &Workshop, name: &str, examples: u64) -> String {
    let options = SynthOptions { examples, vocab_scale: 0.1, ..SynthOptions::default() };
    write_tsv(&options, &mut File::create(shop.path(name)).unwrap()).unwrap();
    shop.text(name)
}

#[test]
fn clicks_repeat_to_the_bit_whatever_memory_rows_have() {
    let shop = Workshop::new();
    clicks(&shop, "clicks.tsv", 1600);
    let study = ["study", "ctr", "--data", "clicks.tsv", "--seeds", "1", "--json"];
    let page = shop.ok(&[&study[..], &["one.json"]].concat());
    assert!(page.contains("deepfm") && page.contains("lost gradients of the dense part: 0"));
    shop.ok(&[&study[..], &["two.json", "--dram", "256KiB"]].concat());
    let (one, two) = (shop.report("one.json"), shop.report("two.json"));
    assert_eq!(one, two);
    let model = &one["models"][0];
    assert!(model["speedup"]["rna"].as_f64().unwrap() > 1.3, "{}", model["speedup"]);
    for (name, runs) in model["runs"].as_object().unwrap() {
        assert_eq!(runs.as_array().unwrap().len(), 1, "{name}");
    }
    // Costs of this machine change times, and never what `bsp` learns.
    shop.ok(&["study", "costs", "--json", "costs.json"]);
    shop.ok(&[&study[..], &["three.json", "--costs", "costs.json"]].concat());
    let three = shop.report("three.json");
    let bsp =
        |figures: &serde_json::Value| figures["models"][0]["runs"]["bsp"][0]["digest"].clone();
    assert_eq!(bsp(&one), bsp(&three));
}

#[test]
fn hashed_clicks_have_a_row_for_each_number_of_bins() {
    let shop = Workshop::new();
    clicks(&shop, "clicks.tsv", 4000);
    let study = ["study", "hash", "--data", "clicks.tsv", "--quick", "--svg", "out.svg"];
    let page = shop.ok(&[&study[..], &["--json", "out.json"]].concat());
    assert!(page.contains("one seed does not tell") && page.contains("the paper"), "{page}");
    let figures = shop.report("out.json");
    let rows = figures["rows"].as_array().unwrap();
    let models: Vec<_> = rows.iter().map(|row| row["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["lr", "dnn", "hash_dnn", "hash_dnn", "hash_dnn", "hash_dnn"]);
    for row in &rows[2..] {
        let bins = row["bins"].as_u64().unwrap();
        assert!(row["nonzero_weights"].as_u64().unwrap() <= 2 * bins, "{row}");
        assert!(row["auc"].is_f64() && row["auc_modulo"].is_f64(), "{row}");
    }
    assert!(std::fs::read_to_string(shop.path("out.svg")).unwrap().contains("test AUC by k"));
}

#[test]
fn what_a_study_cannot_use_is_refused_in_a_line() {
    let shop = Workshop::new();
    clicks(&shop, "clicks.tsv", 300);
    std::fs::write(shop.path("costs.json"), "{}").unwrap();
    let cases: [(&[&str], &str); 9] = [
        (&["ctr", "--data", "nothing.tsv"], "nothing.tsv"),
        (&["ctr", "--data", "clicks.tsv"], "give at least 320 lines"),
        (&["ctr", "--data", "clicks.tsv", "--dram", "1KiB"], "at least 64.0 KiB"),
        (&["ctr", "--data", "cli*.tsv", "--json", "clicks.tsv"], "this run reads that file"),
        (
            &["ctr", "--data", "clicks.tsv", "--costs", "costs.json"],
            "`stepwell-lab study costs --json FILE`",
        ),
        (&["rna", "--data", "clicks.tsv"], "give the folder"),
        (&["hash", "--data", "nothing.tsv"], "nothing.tsv"),
        (&["hash", "--data", "clicks.tsv", "--part", "9"], "or lower --part"),
        (&["hash", "--data", "cli*.tsv", "--svg", "clicks.tsv"], "this run reads that file"),
    ];
    for (arguments, says) in cases {
        let line = shop.fails(&[&["study"], arguments].concat());
        assert!(line.contains(says), "{arguments:?}: {line}");
        assert_eq!(line.trim_end().lines().count(), 1, "{arguments:?}: {line}");
    }
}

/// Runs only with `STEPWELL_LONG`, as the study sleeps; `lab/study/tests/geeps.rs` runs it without
/// the program.
#[test]
fn geeps_says_its_figures_beside_the_papers() {
    if std::env::var_os("STEPWELL_LONG").is_none() {
        return stepwell_skip::skipped("STEPWELL_LONG is not set");
    }
    let Some(data) = std::env::var_os("STEPWELL_DATA") else {
        return stepwell_skip::skipped("STEPWELL_DATA is not set");
    };
    let shop = Workshop::new();
    let data = PathBuf::from(data).join("mnist").display().to_string();
    let args = ["study", "geeps", "--data", &data, "--quick", "--part", "60", "--seed", "3"];
    let page = shop.ok(&[&args[..], &["--json", "out.json", "--svg", "out.svg"]].concat());
    assert!(page.contains("the paper: 0.73 with 0.35 (figure 12)"), "{page}");
    let figures = shop.report("out.json");
    assert_eq!(figures["lost_updates"], 0);
    assert!(figures["throughput_over_full"]["0.35"].as_f64().unwrap() > 0.5, "{figures}");
    for model in figures["models"].as_array().unwrap() {
        assert!(model["name"].is_string() && model["speedup"].is_object(), "{model}");
        assert!(model["accuracy"]["async"].as_f64().unwrap() > 0.0, "{model}");
        for (mode, most) in [("bsp", 0), ("ssp_1", 1), ("ssp_3", 3)] {
            assert!(model["staleness_max"][mode].as_u64().unwrap() <= most, "{model}");
        }
    }
    assert!(
        std::fs::read_to_string(shop.path("out.svg")).unwrap().contains("throughput by memory")
    );
}

#[test]
fn data_that_is_not_there_is_one_line() {
    let shop = Workshop::new();
    for study in ["rdma-wild", "rna", "geeps"] {
        let said = shop.fails(&["study", study, "--data", "nowhere"]);
        assert!(said.contains("nowhere/train-images-idx3-ubyte"), "{said}");
    }
}
