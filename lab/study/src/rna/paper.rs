//! The thesis's measurements. Source: Yang's thesis, chapter 5.6: figures 5.3 and 5.7, tables 5.3
//! and 5.4.

use serde::Serialize;

/// Speedups over Horovod, the blocking sum, with delays of 0 to 50 ms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PaperSpeedups {
    /// Name of the model.
    pub model: &'static str,
    /// Speedup of RNA.
    pub rna: f64,
    /// Top-1 validation accuracy of the blocking sum, in percent.
    pub bsp_accuracy: f64,
    /// Top-1 validation accuracy of RNA, in percent.
    pub rna_accuracy: f64,
}

/// Results by model.
pub(super) const SPEEDUPS: [PaperSpeedups; 3] = [
    PaperSpeedups { model: "ResNet50", rna: 1.7, bsp_accuracy: 76.2, rna_accuracy: 75.9 },
    PaperSpeedups { model: "VGG16", rna: 1.4, bsp_accuracy: 92.5, rna_accuracy: 92.2 },
    PaperSpeedups { model: "LSTM", rna: 1.6, bsp_accuracy: 68.2, rna_accuracy: 66.5 },
];

/// Median response in milliseconds with 1 and 2 probes among 100 nodes.
pub(super) const RESPONSE: [(usize, f64); 2] = [(1, 28.0), (2, 12.0)];
