//! Studies with a small part of the real data: properties that hold at any size.

mod mnist;

use stepwell_study::{Costs, Effort, draw, rdma_wild, rna};

#[test]
fn rdma_wild_is_sooner_and_learns_as_well() {
    let Some(folder) = mnist::folder() else { return };
    let options = rdma_wild::StudyOptions { effort: Effort::Quick, part: 60, seed: 1 };
    let figures = rdma_wild::run(folder.path(), &options, &mut |_| {}).unwrap();
    assert_eq!(figures.lost_gradients, 0);
    for model in &figures.models {
        let (faster, paper) = (model.speedup["rdma_wild"], model.paper.speedup);
        assert!(faster > 1.0, "{}: {faster} for the paper's {paper}", model.name);
        // Algorithm 1: a server of N workers uses one gradient of each before it uses a worker's
        // next one.
        assert!(model.age_max["rdma_wild"] > 0 && model.age_max["rdma_wild"] < 30);
        let [sync, wild] = ["sync_dsgd", "rdma_wild"].map(|kind| model.accuracy[kind]);
        assert!(sync > 0.7 && (sync - wild).abs() < 0.04, "{}: {sync} {wild}", model.name);
        if let Some(optimum) = &model.optimum {
            let distances = &optimum.by_epoch["rdma_wild"];
            let [first, last] =
                [distances.first(), distances.last()].map(|at| at.unwrap().loss_gap);
            assert!(last < first, "{}: {first} {last}", model.name);
        }
    }
    assert!(rdma_wild::page(&figures).contains("lost gradients: 0"));
    assert!(draw(&rdma_wild::plots(&figures)).unwrap().contains("lr_rff: distance to the best"));
}

#[test]
fn rna_is_as_soon_as_more_gradients_make_it() {
    let Some(folder) = mnist::folder() else { return };
    let options = rna::StudyOptions {
        effort: Effort::Quick,
        part: 60,
        seed: 1,
        seeds: 2,
        costs: Costs::GIVEN,
    };
    let figures = rna::run(folder.path(), &options, &mut |_| {}).unwrap();
    assert_eq!((figures.lost_gradients, &figures.seeds[..]), (0, &[1, 2][..]));
    for of in &figures.settings {
        // Gradients per second, relative to the blocking sum.
        let more = |name: &str| {
            let rate = |of: &rna::ProtocolFigures| of.gradients_per_update / of.seconds_per_update;
            rate(&of.protocols[name]) / rate(&of.protocols["bsp"])
        };
        let (rna, eager) = (more("rna"), more("eager_majority"));
        let limit = of.limit;
        assert!(rna > eager && eager > 1.2 && limit < 2.5, "{}: {rna} {eager}", of.model);
        assert!((rna / limit - 1.0).abs() < 0.1, "{}: {rna} of {limit}", of.model);
        assert_eq!(of.protocols["rna"].dropped, 0, "{}", of.model);
    }
    let names: Vec<&str> = figures.models.iter().map(|model| model.name).collect();
    assert_eq!(names, ["fcnn", "conv", "lstm"]);
    for model in &figures.models {
        let [bsp, rna] = ["bsp", "rna"].map(|name| model.accuracy_spread[name]);
        assert!(rna.least <= rna.mean && rna.mean <= rna.most, "{rna:?}");
        assert!((bsp.mean - rna.mean).abs() < 0.1, "{}: {bsp:?} {rna:?}", model.name);
    }
    assert!(rna::page(&figures).contains("means over seeds (2)"));
    assert!(draw(&rna::plots(&figures)).unwrap().contains("16 ranks, 5 ms, Mixed"));
}
