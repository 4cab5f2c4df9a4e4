//! The settings of a learning rate over time.

use crate::check::{Outcome, Plain, positive, right};
use crate::config::{Config, OptimConfig, OptimizerConfig, ScheduleKind};
use crate::setting_types::Typed as _;

/// An entry of the table of settings, from its key and field.
macro_rules! of_schedule {
    ($key:literal, optim.$part:ident.schedule) => {
        setting!(
            $key,
            optim.$part.schedule = ScheduleKind::Constant,
            BeyondDefault,
            "constant, linear, cosine, step, inverse_sqrt or plateau: the learning rate over the \
             steps of the model, after a warm-up, or when evaluations no longer improve"
        )
        .text(|config| crate::schedule::text(config, config.optim.$part.schedule))
    };
    ($key:literal, optim.$part:ident.warmup_steps) => {
        setting!(
            $key,
            optim.$part.warmup_steps = 0,
            BeyondDefault,
            "first steps of the model, over which the learning rate rises linearly to lr"
        )
    };
    ($key:literal, optim.$part:ident.decay_steps) => {
        setting!(
            $key,
            optim.$part.decay_steps = None,
            BeyondDefault,
            "linear, cosine: steps until the rate stops falling; step: steps between two falls; \
             inverse_sqrt: the rate is half after 3 times as many"
        )
        .default_name("required, unless constant or plateau")
        .check(|config| crate::schedule::check_steps(config.optim.$part.decay_steps))
        .idle(|config| crate::schedule::without_decay(config.optim.$part.schedule))
    };
    ($key:literal, optim.$part:ident.decay_factor) => {
        setting!(
            $key,
            optim.$part.decay_factor = None,
            BeyondDefault,
            "linear, cosine: final learning rate, as a part of lr; step, plateau: factor of each \
             fall"
        )
        .default_name("0.1 for step and plateau, 0 for others")
        .check(|config| crate::schedule::check_factor(config.optim.$part.decay_factor))
        .idle(|config| crate::schedule::without_factor(config.optim.$part.schedule))
    };
    ($key:literal, optim.$part:ident.plateau_patience) => {
        setting!(
            $key,
            optim.$part.plateau_patience = 2,
            BeyondDefault,
            "plateau: evaluations in a row that may be no better than the best one before the \
             rate falls; better as for train.patience"
        )
        .check(|config| crate::check::positive(config.optim.$part.plateau_patience))
        .idle(|config| crate::schedule::without_plateau(config.optim.$part.schedule))
    };
}
pub(crate) use of_schedule;

/// The text of a schedule in checkpoints, with the settings of evaluations if they matter.
pub(crate) fn text(config: &Config, kind: ScheduleKind) -> String {
    let name = kind.text();
    if kind != ScheduleKind::Plateau {
        return name;
    }
    let (every, best) = (config.train.evaluate_every, config.checkpoint.best.name());
    format!("{name} with train.evaluate_every = {every}, checkpoint.best = {best}")
}

pub(crate) fn check_steps(steps: Option<u64>) -> Outcome {
    steps.map_or(Ok(()), positive)
}

pub(crate) fn check_factor(factor: Option<f64>) -> Outcome {
    let give = format_args!("a number from 0 to 1");
    factor.map_or(Ok(()), |factor| right((0.0..=1.0).contains(&factor), Plain(factor), give))
}

pub(crate) fn without_decay(kind: ScheduleKind) -> Option<&'static str> {
    match kind {
        ScheduleKind::Constant => Some("the schedule is constant"),
        ScheduleKind::Plateau => Some("a plateau is no number of steps"),
        _ => None,
    }
}

pub(crate) fn without_plateau(kind: ScheduleKind) -> Option<&'static str> {
    (kind != ScheduleKind::Plateau).then_some("the schedule isn't plateau")
}

pub(crate) fn without_factor(kind: ScheduleKind) -> Option<&'static str> {
    match kind {
        ScheduleKind::Constant => Some("the schedule is constant"),
        ScheduleKind::InverseSqrt => Some("inverse_sqrt has none"),
        _ => None,
    }
}

/// Refuses a schedule that lacks its steps; `part` is `rows` or `dense`.
pub(crate) fn check_whole<K>(part: &str, optimizer: &OptimizerConfig<K>) -> Outcome {
    let kind = optimizer.schedule;
    let needs_steps = !matches!(kind, ScheduleKind::Constant | ScheduleKind::Plateau);
    if !needs_steps || optimizer.decay_steps.is_some() {
        return Ok(());
    }
    let name = kind.name();
    Err(format!(
        "optim.{part}.schedule = {name} needs a number of steps: give optim.{part}.decay_steps"
    ))
}

/// Refuses a rate that falls with evaluations where there are none.
pub(crate) fn check_plateau(config: &Config) -> Outcome {
    let OptimConfig { rows, dense } = &config.optim;
    let schedules = [("rows", rows.schedule), ("dense", dense.schedule)];
    match schedules.iter().find(|(_, kind)| *kind == ScheduleKind::Plateau) {
        Some((part, _)) if !config.evaluates() => Err(format!(
            "optim.{part}.schedule = plateau needs evaluations: give data.eval_fraction or \
             data.eval_paths, or another schedule"
        )),
        _ => Ok(()),
    }
}
