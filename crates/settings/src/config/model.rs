//! Kind and shape of the model.

use stepwell_nn::Precision;

use super::LayerConfig;

/// Kind of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// Logistic regression.
    Lr,
    /// Factorization machine.
    Fm,
    /// Wide & Deep.
    WideDeep,
    /// DeepFM.
    DeepFm,
    /// DCN-V2.
    Dcn,
    /// DLRM.
    Dlrm,
    /// FinalMLP.
    FinalMlp,
    /// DCN, whose cross layers have a vector each.
    DcnV1,
    /// MaskNet.
    MaskNet,
    /// Multi-gate Mixture-of-Experts.
    Mmoe,
    /// Progressive Layered Extraction.
    Ple,
    /// Deep Interest Network.
    Din,
    /// Towers of users and of items.
    TwoTower,
    /// Layers given one by one.
    Graph,
}

impl ModelKind {
    /// Kinds that take any data without further settings; the others need the names of columns, or
    /// layers.
    pub const OF_ANY_DATA: [Self; 11] = [
        Self::Lr,
        Self::Fm,
        Self::WideDeep,
        Self::DeepFm,
        Self::Dcn,
        Self::DcnV1,
        Self::Dlrm,
        Self::FinalMlp,
        Self::MaskNet,
        Self::Mmoe,
        Self::Ple,
    ];

    /// All kinds.
    pub const ALL: [Self; 14] = {
        let [a, b, c, d, e, f, g, h, i, j, k] = Self::OF_ANY_DATA;
        [a, b, c, d, e, f, g, h, i, j, k, Self::Din, Self::TwoTower, Self::Graph]
    };

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lr => "lr",
            Self::Fm => "fm",
            Self::WideDeep => "wide_deep",
            Self::DeepFm => "deepfm",
            Self::Dcn => "dcn",
            Self::Dlrm => "dlrm",
            Self::FinalMlp => "final_mlp",
            Self::DcnV1 => "dcn_v1",
            Self::MaskNet => "mask_net",
            Self::Mmoe => "mmoe",
            Self::Ple => "ple",
            Self::Din => "din",
            Self::TwoTower => "two_tower",
            Self::Graph => "graph",
        }
    }

    /// Whether ids have a first-order weight besides their embedding.
    pub const fn has_first_order(self) -> bool {
        matches!(self, Self::Lr | Self::Fm | Self::WideDeep | Self::DeepFm)
    }

    /// Whether it has hidden layers whose widths are given as `model.hidden`.
    pub const fn has_hidden_layers(self) -> bool {
        !matches!(self, Self::Lr | Self::Fm | Self::Graph)
    }

    /// Whether it adds up the products of all pairs of embeddings.
    pub const fn has_pairs(self) -> bool {
        matches!(self, Self::Fm | Self::DeepFm)
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
    /// Widths of the hidden layers of `final_mlp`'s second stream.
    pub second: Vec<usize>,
    /// Cross layers of `dcn` and `dcn_v1`.
    pub cross_layers: usize,
    /// Widths of the layers of `dlrm`'s bottom part, without the last one, of width `dim`.
    pub bottom: Vec<usize>,
    /// Blocks of `mask_net`.
    pub mask_blocks: usize,
    /// Width of each of them.
    pub mask_dim: usize,
    /// Width of the layer below each mask, as a multiple of the mask's.
    pub mask_ratio: f64,
    /// Experts of `mmoe`, or those of a level of `ple` that labels share.
    pub experts: usize,
    /// Experts of each label in a level of `ple`.
    pub label_experts: usize,
    /// Levels of experts of `ple`.
    pub levels: usize,
    /// Widths of the hidden layers of each label over the experts of `mmoe` and `ple`.
    pub tower: Vec<usize>,
    /// Columns of the items that `din` scores.
    pub target: Vec<String>,
    /// Columns of the items before, in the order of `target`.
    pub sequences: Vec<String>,
    /// Width of the hidden layer of `din`'s attention.
    pub attention: usize,
    /// Columns of the items that `two_tower` ranks; users have the others.
    pub item: Vec<String>,
    /// Width of `two_tower`'s vectors.
    pub vector: usize,
    /// Divisor of `two_tower`'s scores.
    pub temperature: f64,
    /// Whether `two_tower` corrects scores in training for how often items are drawn.
    pub log_q: bool,
    /// Whether the sums of hidden layers are normalized over a block of examples.
    pub batch_norm: bool,
    /// Share of the values of each hidden layer that training drops.
    pub dropout: f64,
    /// Layers of `graph` in the order in which they are computed; the last one has the logits.
    pub layers: Vec<LayerConfig>,
    /// Initial embedding weights are uniform in [-range, range).
    pub init_range: f64,
    /// Initial embedding weights are normal with this standard deviation instead.
    pub init_std: Option<f64>,
    /// All initial embedding weights are this instead.
    pub init_value: Option<f64>,
    /// Rounding of the operands of matrix products.
    pub precision: Precision,
}
