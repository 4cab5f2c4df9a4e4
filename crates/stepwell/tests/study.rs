//! `stepwell study`, as somebody runs it: clicks from a file, on the virtual clock.

mod common;

use common::Workshop;

#[test]
fn clicks_repeat_to_the_bit_whatever_memory_rows_have() {
    let shop = Workshop::new();
    shop.ok(&["synth", "--out", "clicks.tsv", "--examples", "1600", "--vocab-scale", "0.1"]);
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
fn what_a_study_cannot_use_is_refused_in_a_line() {
    let shop = Workshop::new();
    shop.ok(&["synth", "--out", "clicks.tsv", "--examples", "300", "--vocab-scale", "0.1"]);
    std::fs::write(shop.path("costs.json"), "{}").unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["ctr", "--data", "nothing.tsv"], "nothing.tsv"),
        (&["ctr", "--data", "clicks.tsv"], "give at least 320 lines"),
        (&["ctr", "--data", "clicks.tsv", "--dram", "1KiB"], "at least 64.0 KiB"),
        (&["ctr", "--data", "cli*.tsv", "--json", "clicks.tsv"], "this run reads that file"),
        (&["ctr", "--data", "clicks.tsv", "--costs", "costs.json"], "`stepwell study costs`"),
        (&["rna", "--data", "clicks.tsv"], "name the folder"),
    ];
    for (arguments, says) in cases {
        let line = shop.fails(&[&["study"], arguments].concat());
        assert!(line.contains(says), "{arguments:?}: {line}");
        assert_eq!(line.trim_end().lines().count(), 1, "{arguments:?}: {line}");
    }
}
