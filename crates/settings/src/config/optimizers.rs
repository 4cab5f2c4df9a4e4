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
    /// Gradient descent with momentum.
    Momentum,
    /// Adagrad.
    Adagrad,
    /// Adam.
    Adam,
}

impl OptimizerKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Sgd, Self::Momentum, Self::Adagrad, Self::Adam];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Momentum => "momentum",
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
    /// Gradient descent with a rate that falls with the number of a row's updates.
    CfSgd,
    /// Gradient descent with momentum.
    Momentum,
    /// Adagrad.
    Adagrad,
    /// Adagrad with one sum for each row.
    RowWiseAdagrad,
    /// Adam.
    Adam,
    /// Adam with one mean of squares for each row.
    RowWiseAdam,
    /// FTRL-Proximal.
    Ftrl,
    /// None: rows keep their values.
    Frozen,
}

impl RowOptimizerKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Sgd,
        Self::CfSgd,
        Self::Momentum,
        Self::Adagrad,
        Self::RowWiseAdagrad,
        Self::Adam,
        Self::RowWiseAdam,
        Self::Ftrl,
        Self::Frozen,
    ];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => OptimizerKind::Sgd.name(),
            Self::Momentum => OptimizerKind::Momentum.name(),
            Self::Adagrad => OptimizerKind::Adagrad.name(),
            Self::CfSgd => "cf_sgd",
            Self::RowWiseAdagrad => "row_wise_adagrad",
            Self::Adam => OptimizerKind::Adam.name(),
            Self::RowWiseAdam => "row_wise_adam",
            Self::Ftrl => "ftrl",
            Self::Frozen => "frozen",
        }
    }
}

impl From<OptimizerKind> for RowOptimizerKind {
    fn from(kind: OptimizerKind) -> Self {
        match kind {
            OptimizerKind::Sgd => Self::Sgd,
            OptimizerKind::Momentum => Self::Momentum,
            OptimizerKind::Adagrad => Self::Adagrad,
            OptimizerKind::Adam => Self::Adam,
        }
    }
}

/// How a learning rate changes over the steps of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleKind {
    /// It stays the same.
    Constant,
    /// It falls in a line.
    Linear,
    /// It falls in half a period of a cosine.
    Cosine,
    /// It falls by a factor after each period.
    Step,
    /// It falls with the root of the steps.
    InverseSqrt,
    /// It falls by a factor when evaluations no longer improve.
    Plateau,
}

impl ScheduleKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Constant, Self::Linear, Self::Cosine, Self::Step, Self::InverseSqrt, Self::Plateau];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Cosine => "cosine",
            Self::Step => "step",
            Self::InverseSqrt => "inverse_sqrt",
            Self::Plateau => "plateau",
        }
    }
}

/// An optimizer of rows.
pub type RowOptimizerConfig = OptimizerConfig<RowOptimizerKind>;

/// An optimizer, by default of dense parameters. Which kinds have a setting is in
/// `optimizer::tunings`.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerConfig<K = OptimizerKind> {
    /// Kind of the optimizer.
    pub kind: K,
    /// Learning rate; the usual one of the model if it is `None`.
    pub lr: Option<f64>,
    /// Term added to the root that divides a step.
    pub eps: Option<f64>,
    /// Initial value of sums of squares.
    pub initial: Option<f64>,
    /// Decay of the mean of gradients.
    pub beta1: Option<f64>,
    /// Decay of the mean of their squares.
    pub beta2: Option<f64>,
    /// Part of the velocity that a step keeps.
    pub momentum: Option<f64>,
    /// For FTRL-Proximal: term added to the root that divides the rate.
    pub beta: Option<f64>,
    /// For FTRL-Proximal: penalty on the absolute values of weights.
    pub l1: Option<f64>,
    /// The weights times this are added to their gradient.
    pub l2: Option<f64>,
    /// The weights times this and the learning rate are subtracted before an update.
    pub weight_decay: Option<f64>,
    /// Greatest norm of a gradient.
    pub clip_norm: Option<f64>,
    /// For rows: greatest norm of an embedding.
    pub max_norm: Option<f64>,
    /// For dense parameters: decay of their average.
    pub ema: Option<f64>,
    /// Course of the learning rate after a warm-up.
    pub schedule: ScheduleKind,
    /// Steps in which the learning rate rises linearly to `lr`.
    pub warmup_steps: u64,
    /// Steps of the schedule; required by all kinds but `Constant` and `Plateau`.
    pub decay_steps: Option<u64>,
    /// Part of the learning rate that is left at the end of `Linear` and `Cosine`, and after each
    /// period of `Step`; factor of each fall of `Plateau`.
    pub decay_factor: Option<f64>,
    /// For `Plateau`: evaluations without improvement until the rate falls.
    pub plateau_patience: u64,
}

impl<K: Copy> OptimizerConfig<K> {
    /// An optimizer of this kind and rate, with the usual values otherwise.
    pub const fn new(kind: K, lr: f64) -> Self {
        Self {
            kind,
            lr: Some(lr),
            eps: None,
            initial: None,
            beta1: None,
            beta2: None,
            momentum: None,
            beta: None,
            l1: None,
            l2: None,
            weight_decay: None,
            clip_norm: None,
            max_norm: None,
            ema: None,
            schedule: ScheduleKind::Constant,
            warmup_steps: 0,
            decay_steps: None,
            decay_factor: None,
            plateau_patience: 2,
        }
    }
}
