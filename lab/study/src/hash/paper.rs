//! The paper's measurements: table 2, on sponsored ads of a web search. Source: Zhao et al.,
//! "Distributed hierarchical GPU parameter server for massive scale deep learning ads systems",
//! MLSys 2020.

use serde::Serialize;

/// A row of the paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PaperRow {
    /// `lr`, `dnn` or `hash_dnn`.
    pub model: &'static str,
    /// Logarithm of k, to the base of 2.
    pub log2_k: Option<u32>,
    /// Weights that aren't 0, if the paper gives them.
    pub nonzero_weights: Option<u64>,
    /// Test AUC.
    pub auc: f64,
}

/// All rows of the table.
pub(super) const TABLE_2: [PaperRow; 11] = [
    PaperRow { model: "lr", log2_k: None, nonzero_weights: Some(199_359_034_971), auc: 0.7458 },
    PaperRow { model: "dnn", log2_k: None, nonzero_weights: None, auc: 0.7670 },
    hashed(32, 3_005_012_154, 0.7556),
    hashed(31, 1_599_247_184, 0.7547),
    hashed(30, 838_120_432, 0.7538),
    hashed(29, 433_267_303, 0.7528),
    hashed(28, 222_780_993, 0.7515),
    hashed(27, 114_222_607, 0.7501),
    hashed(26, 58_517_936, 0.7487),
    hashed(24, 15_410_799, 0.7453),
    hashed(22, 4_125_016, 0.7408),
];

const fn hashed(log2_k: u32, nonzero_weights: u64, auc: f64) -> PaperRow {
    let (log2_k, nonzero_weights) = (Some(log2_k), Some(nonzero_weights));
    PaperRow { model: "hash_dnn", log2_k, nonzero_weights, auc }
}
