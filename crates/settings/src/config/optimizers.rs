//! Optimizers of rows and of dense parameters. Unset values have their usual defaults.

/// Optimizers of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimConfig {
    /// Optimizer of rows.
    pub rows: RowOptimizerConfig,
    /// Optimizer of dense parameters.
    pub dense: OptimizerConfig,
}

/// Kind of an optimizer of dense parameters. Rows may have it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimizerKind {
    /// Gradient descent.
    Sgd,
    /// Adagrad.
    Adagrad,
    /// Adam.
    Adam,
}

impl OptimizerKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Sgd, Self::Adagrad, Self::Adam];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Adagrad => "adagrad",
            Self::Adam => "adam",
        }
    }
}

/// Kind of an optimizer of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOptimizerKind {
    /// Gradient descent.
    Sgd,
    /// Adagrad.
    Adagrad,
    /// Adagrad with one sum for each row.
    RowWiseAdagrad,
    /// Adam.
    Adam,
}

impl RowOptimizerKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Sgd, Self::Adagrad, Self::RowWiseAdagrad, Self::Adam];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => OptimizerKind::Sgd.name(),
            Self::Adagrad => OptimizerKind::Adagrad.name(),
            Self::RowWiseAdagrad => "row_wise_adagrad",
            Self::Adam => OptimizerKind::Adam.name(),
        }
    }
}

impl From<OptimizerKind> for RowOptimizerKind {
    fn from(kind: OptimizerKind) -> Self {
        match kind {
            OptimizerKind::Sgd => Self::Sgd,
            OptimizerKind::Adagrad => Self::Adagrad,
            OptimizerKind::Adam => Self::Adam,
        }
    }
}

/// An optimizer of dense parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerConfig {
    /// Kind of the optimizer.
    pub kind: OptimizerKind,
    /// Learning rate.
    pub lr: f64,
    /// For Adagrad and Adam: term added to the root that divides a step.
    pub eps: Option<f64>,
    /// For Adagrad: initial value of the sum of squares.
    pub initial: Option<f64>,
    /// For Adam: decay of the mean of gradients.
    pub beta1: Option<f64>,
    /// For Adam: decay of the mean of their squares.
    pub beta2: Option<f64>,
}

impl OptimizerConfig {
    /// An optimizer of this kind and rate, with the usual values otherwise.
    pub const fn new(kind: OptimizerKind, lr: f64) -> Self {
        Self { kind, lr, eps: None, initial: None, beta1: None, beta2: None }
    }
}

/// An optimizer of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOptimizerConfig {
    /// Kind of the optimizer.
    pub kind: RowOptimizerKind,
    /// Learning rate.
    pub lr: f64,
    /// For Adagrad, row-wise Adagrad and Adam: term added to the root that divides a step.
    pub eps: Option<f64>,
    /// For Adagrad and row-wise Adagrad: initial value of the sum of squares.
    pub initial: Option<f64>,
    /// For Adam: decay of the mean of gradients.
    pub beta1: Option<f64>,
    /// For Adam: decay of the mean of their squares.
    pub beta2: Option<f64>,
    /// The weights times this are added to their gradient.
    pub l2: Option<f64>,
    /// The weights times this and the learning rate are subtracted before an update.
    pub weight_decay: Option<f64>,
}

impl RowOptimizerConfig {
    /// An optimizer of this kind and rate, with the usual values otherwise.
    pub const fn new(kind: RowOptimizerKind, lr: f64) -> Self {
        let (eps, initial, beta1, beta2, l2, weight_decay) = (None, None, None, None, None, None);
        Self { kind, lr, eps, initial, beta1, beta2, l2, weight_decay }
    }

    /// The optimizer of dense parameters with the same arithmetic, but for `l2` and `weight_decay`;
    /// `None` if there is none.
    pub fn as_dense(&self) -> Option<OptimizerConfig> {
        let kind = match self.kind {
            RowOptimizerKind::Sgd => OptimizerKind::Sgd,
            RowOptimizerKind::Adagrad => OptimizerKind::Adagrad,
            RowOptimizerKind::Adam => OptimizerKind::Adam,
            RowOptimizerKind::RowWiseAdagrad => return None,
        };
        let Self { lr, eps, initial, beta1, beta2, .. } = *self;
        Some(OptimizerConfig { kind, lr, eps, initial, beta1, beta2 })
    }
}
