//! Studies with a small part of the real data, or with drawn data: properties that hold at any
//! size.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod mnist;

use std::fs::File;
use std::path::{Path, PathBuf};

use stepwell_data::SynthOptions;
use stepwell_data::synth::write_tsv;
use stepwell_study::{Costs, Effort, draw, hash, rdma_wild, rna};

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

/// A quick run of the study of hashed ids, and what holds for any data.
fn quick_hash(file: &Path, part: usize, seeds: usize) -> hash::Figures {
    let options = hash::StudyOptions { effort: Effort::Quick, part, seed: 1, seeds };
    let figures = hash::run(file, &options, &mut |_| {}).unwrap();
    let names: Vec<&str> = figures.rows.iter().map(|row| row.model).collect();
    assert_eq!(names, ["lr", "dnn", "hash_dnn", "hash_dnn", "hash_dnn", "hash_dnn"]);
    assert_eq!(figures.rows[0].nonzero_weights, figures.distinct_ids as u64);
    let hashed = &figures.rows[2..];
    for row in hashed {
        let (bins, modulo) = (row.bins.unwrap(), row.modulo.as_ref().unwrap());
        for weights in [row.nonzero_weights, modulo.nonzero_weights_modulo] {
            assert!(weights <= 2 * bins && weights <= figures.distinct_ids as u64, "{row:?}");
        }
        // Opposite signs cancel, but ids with the same output don't.
        assert!(row.ids_per_example <= modulo.ids_per_example_modulo, "{row:?}");
        assert_eq!((row.aucs.len(), modulo.aucs_modulo.len()), (seeds, seeds));
    }
    // With many more bins than ids of an example, next to nothing is lost.
    let last = hashed.last().unwrap();
    assert!(last.ids_per_example > 0.99 * figures.ids_per_example as f64, "{last:?}");
    let sizes = hashed.windows(2).map(|pair| [pair[0].nonzero_weights, pair[1].nonzero_weights]);
    sizes.for_each(|[fewer, more]| assert!(fewer < more, "{fewer} {more}"));
    figures
}

#[test]
fn hashed_clicks_have_fewer_weights_and_figures_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clicks.tsv");
    let options = SynthOptions { examples: 12_000, vocab_scale: 0.2, ..SynthOptions::default() };
    write_tsv(&options, &mut File::create(&file).unwrap()).unwrap();
    let figures = quick_hash(&file, 1, 2);
    assert_eq!((figures.train_examples, figures.test_examples), (2400, 2400));
    assert!(figures.auc_lr > 0.55, "{}", figures.auc_lr);
    assert!(figures.findings.auc_over_modulo_error.is_some());
    let (page, svg) = (hash::page(&figures), draw(&hash::plots(&figures)).unwrap());
    assert!(page.contains("AUC lost per halving of k") && page.contains("3005012154"), "{page}");
    assert!(svg.contains("test AUC by k, the paper") && svg.contains("modulo 2 k"));
    // Seeds are independent, and figures repeat.
    let first = quick_hash(&file, 1, 1);
    let aucs = |rows: &[hash::Row]| rows.iter().map(|row| row.aucs[0]).collect::<Vec<_>>();
    assert_eq!(aucs(&first.rows), aucs(&figures.rows));
}

#[test]
fn real_clicks_are_learned_whatever_their_ids_are_hashed_to() {
    let Some(data) = std::env::var_os("STEPWELL_DATA") else {
        return stepwell_skip::skipped("STEPWELL_DATA is not set");
    };
    let figures = quick_hash(&PathBuf::from(data).join("criteo_tb_80k.tsv.zst"), 2, 1);
    let aucs = figures.rows.iter().flat_map(|row| {
        let modulo = row.modulo.as_ref().map(|modulo| modulo.auc_modulo);
        std::iter::once(row.auc).chain(modulo)
    });
    aucs.for_each(|auc| assert!(auc > 0.6, "{:?}", figures.rows));
    assert_eq!(figures.findings.auc_over_modulo_error, None, "one seed has no spread");
}
