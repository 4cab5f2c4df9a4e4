//! Kind and shape of the model.

use stepwell_nn::Precision;

/// Kind of a model.
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
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Lr, Self::WideDeep, Self::DeepFm, Self::Dcn, Self::Dlrm];

    /// Name in settings.
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

/// The model to train.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Kind of the model.
    pub kind: ModelKind,
    /// Lanes of an embedding.
    pub dim: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Cross layers of `dcn`.
    pub cross_layers: usize,
    /// Widths of the layers of `dlrm`'s bottom part, without the last one, of width `dim`.
    pub bottom: Vec<usize>,
    /// Initial embedding weights are uniform in [-range, range).
    pub init_range: f64,
    /// Rounding of the operands of matrix products.
    pub precision: Precision,
}
