//! Which model, and its shape.

use stepwell_nn::Precision;

/// Which model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// Logistic regression.
    Lr,
    /// Wide & Deep.
    WideDeep,
    /// DeepFM.
    DeepFm,
    /// DCN-V2.
    Dcn,
    /// DLRM.
    Dlrm,
}

impl ModelKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Lr, Self::WideDeep, Self::DeepFm, Self::Dcn, Self::Dlrm];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lr => "lr",
            Self::WideDeep => "wide_deep",
            Self::DeepFm => "deepfm",
            Self::Dcn => "dcn",
            Self::Dlrm => "dlrm",
        }
    }
}

/// What is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Which model.
    pub kind: ModelKind,
    /// Lanes of an embedding.
    pub dim: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Cross layers of `dcn`.
    pub cross_layers: usize,
    /// Widths of the layers under the interaction of `dlrm`, before the one of width `dim`.
    pub bottom: Vec<usize>,
    /// Embeddings begin uniform in [-range, range).
    pub init_range: f64,
    /// What the operands of matrix products are rounded to.
    pub precision: Precision,
    /// Blocks that every mini-batch is cut into, the unit of summation.
    pub blocks: usize,
}
