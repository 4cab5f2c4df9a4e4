//! The settings of an optimizer other than kind and rate, all with usual defaults.

use crate::check::{Outcome, Plain, right};
use crate::config::{Config, RowOptimizerKind};

/// One such setting.
pub(crate) struct Tuning {
    pub(crate) help: &'static str,
    /// The usual value, in words.
    pub(crate) usual: &'static str,
    check: fn(f64) -> Outcome,
    /// The kinds that have the setting, and why it has no effect for others.
    kinds: &'static [RowOptimizerKind],
    others: &'static str,
}

impl Tuning {
    pub(crate) fn check(&self, value: Option<f64>) -> Outcome {
        value.map_or(Ok(()), self.check)
    }

    /// Why it has no effect with these optimizers.
    pub(crate) fn idle(&self, kinds: &[RowOptimizerKind]) -> Option<&'static str> {
        (!kinds.iter().any(|kind| self.kinds.contains(kind))).then_some(self.others)
    }
}

/// The settings, named like their fields.
#[expect(non_upper_case_globals, reason = "they are found by the names of fields")]
pub(crate) mod tunings {
    use super::RowOptimizerKind::{
        Adagrad, Adam, CfSgd, Ftrl, Momentum, RowWiseAdagrad, RowWiseAdam, Sgd,
    };
    use super::{Tuning, beta_of, bound_of, decay_of, eps_of, initial_of};

    pub(crate) const eps: Tuning = Tuning {
        help: "term added to the root that divides a step; sgd, cf_sgd, momentum and ftrl have \
               none",
        usual: "1e-8 for adam and row_wise_adam, 1e-10 for others",
        check: eps_of,
        kinds: &[Adagrad, RowWiseAdagrad, Adam, RowWiseAdam],
        others: "only adagrad, adam and their row-wise forms use it",
    };
    pub(crate) const initial: Tuning = Tuning {
        help: "initial value of the sums of squares of adagrad, row_wise_adagrad and ftrl",
        usual: "0",
        check: initial_of,
        kinds: &[Adagrad, RowWiseAdagrad, Ftrl],
        others: "only adagrad, row_wise_adagrad and ftrl have sums of squares",
    };
    pub(crate) const beta1: Tuning = Tuning {
        help: "decay of adam's first moment, the mean of gradients",
        usual: "0.9",
        check: beta_of,
        kinds: &[Adam, RowWiseAdam],
        others: "only adam and row_wise_adam have moments",
    };
    pub(crate) const beta2: Tuning = Tuning {
        help: "decay of adam's second moment, the mean of their squares",
        usual: "0.999",
        ..beta1
    };
    pub(crate) const momentum: Tuning = Tuning {
        help: "part of the velocity that a step with momentum keeps",
        usual: "0.9",
        check: beta_of,
        kinds: &[Momentum],
        others: "only momentum has a velocity",
    };
    pub(crate) const beta: Tuning = Tuning {
        help: "term added to the root that divides ftrl's rate",
        usual: "1",
        check: bound_of,
        kinds: &[Ftrl],
        others: "only ftrl uses it",
    };
    pub(crate) const l1: Tuning = Tuning {
        help: "ftrl's penalty on the absolute values of weights; larger values make more weights \
               exactly zero",
        usual: "0",
        check: decay_of,
        ..beta
    };
    pub(crate) const l2: Tuning = Tuning {
        help: "weights times this are added to their gradient; of rows, only those being trained",
        usual: "0",
        check: decay_of,
        kinds: &[Sgd, CfSgd, Momentum, Adagrad, RowWiseAdagrad, Adam, RowWiseAdam, Ftrl],
        others: "frozen rows don't change",
    };
    pub(crate) const weight_decay: Tuning = Tuning {
        help: "weights times this and the rate are subtracted before an update, as in AdamW",
        ..l2
    };
    pub(crate) const clip_norm: Tuning = Tuning {
        help: "greatest norm of the gradient of a row, or of all dense parameters together; \
               longer gradients are scaled down",
        usual: "none",
        check: bound_of,
        ..l2
    };
    pub(crate) const max_norm: Tuning = Tuning {
        help: "greatest norm of an embedding, without its first-order weight; one that an update \
               makes longer is scaled down to it",
        ..clip_norm
    };
    pub(crate) const ema: Tuning = Tuning {
        help: "decay of the running mean of dense parameters, such as 0.999; evaluations and \
               predictions use the mean instead of the parameters",
        usual: "none",
        check: beta_of,
        ..l2
    };
}

/// An entry of the table of settings, from its key and field.
macro_rules! of_optimizer {
    ($key:literal, optim.$part:ident.$field:ident) => {
        setting!(
            $key,
            optim.$part.$field = None,
            BeyondDefault,
            crate::optimizer::tunings::$field.help
        )
        .default_name(crate::optimizer::tunings::$field.usual)
        .check(|config| crate::optimizer::tunings::$field.check(config.optim.$part.$field))
        .idle(|config| crate::optimizer::tunings::$field.idle(&config.kinds_of(stringify!($part))))
    };
}
pub(crate) use of_optimizer;

impl Config {
    /// Kinds of the optimizers that use settings of `optim.rows` or `optim.dense`.
    pub(crate) fn kinds_of(&self, part: &str) -> Vec<RowOptimizerKind> {
        match part {
            "rows" => {
                let of_tables = self.tables.iter().filter_map(|table| table.optimizer);
                [self.optim.rows.kind].into_iter().chain(of_tables).collect()
            }
            _ => vec![self.optim.dense.kind.into()],
        }
    }
}

fn eps_of(value: f64) -> Outcome {
    let is_right = value as f32 > 0.0 && value <= 1.0;
    let give = format_args!("a number above 0 (in f32, at least 1e-45) and at most 1");
    right(is_right, Plain(value), give)
}

fn initial_of(sum: f64) -> Outcome {
    right((0.0..=1e6).contains(&sum), Plain(sum), format_args!("a number from 0 to 1e6"))
}

fn decay_of(part: f64) -> Outcome {
    right((0.0..=1e6).contains(&part), Plain(part), format_args!("a number from 0 to 1e6"))
}

fn bound_of(value: f64) -> Outcome {
    let is_right = value as f32 > 0.0 && value <= 1e6;
    right(is_right, Plain(value), format_args!("a number above 0 (in f32) and at most 1e6"))
}

fn beta_of(part: f64) -> Outcome {
    let is_right = (0.0..1.0).contains(&part) && (part as f32) < 1.0;
    right(is_right, Plain(part), format_args!("a number from 0 to less than 1 (in f32)"))
}
