//! Which model, and its shape.

use stepwell_nn::Precision;

/// Most cross layers; each has the square of the input's columns as parameters.
const CROSS_LAYERS_MAX: usize = 64;
/// Greatest embedding dimension.
const DIM_MAX: usize = 4096;
/// Widest hidden layer.
const WIDTH_MAX: usize = 65_536;

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

impl ModelConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        let fit = |widths: &[usize]| widths.iter().all(|width| (1..=WIDTH_MAX).contains(width));
        if self.dim > DIM_MAX {
            return Err(format!("model.dim is {}: give at most {DIM_MAX}", self.dim));
        }
        if !fit(&self.hidden) {
            return Err(format!(
                "model.hidden is {:?}: give each layer 1 to {WIDTH_MAX}",
                self.hidden
            ));
        }
        if !(1..=CROSS_LAYERS_MAX).contains(&self.cross_layers) {
            return Err(format!(
                "model.cross_layers is {}: give 1 to {CROSS_LAYERS_MAX}",
                self.cross_layers
            ));
        }
        if self.bottom.is_empty() || !fit(&self.bottom) {
            return Err(format!(
                "model.bottom is {:?}: give one width or more, each 1 to {WIDTH_MAX}",
                self.bottom
            ));
        }
        Ok(())
    }
}
