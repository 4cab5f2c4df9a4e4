//! `stepwell study`: what people and scripts get of it.

mod common;

use std::path::PathBuf;

use common::Workshop;

#[test]
fn geeps_says_its_figures_beside_the_papers() {
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
