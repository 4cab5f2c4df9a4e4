//! The settings of a learning rate over time.

use crate::check::{Outcome, Plain, positive, right};
use crate::config::{OptimizerConfig, ScheduleKind};

/// An entry of the table of settings, from its key and field.
macro_rules! of_schedule {
    ($key:literal, optim.$part:ident.schedule) => {
        setting!(
            $key,
            optim.$part.schedule = ScheduleKind::Constant,
            BeyondDefault,
            "constant, linear, cosine, step or inverse_sqrt: the learning rate over the steps of \
             the model, after a warm-up"
        )
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
        .default_name("required, unless constant")
        .check(|config| crate::schedule::check_steps(config.optim.$part.decay_steps))
        .idle(|config| crate::schedule::without_decay(config.optim.$part.schedule))
    };
    ($key:literal, optim.$part:ident.decay_factor) => {
        setting!(
            $key,
            optim.$part.decay_factor = None,
            BeyondDefault,
            "linear, cosine: final learning rate, as a part of lr; step: factor of each fall"
        )
        .default_name("0.1 for step, 0 for others")
        .check(|config| crate::schedule::check_factor(config.optim.$part.decay_factor))
        .idle(|config| crate::schedule::without_factor(config.optim.$part.schedule))
    };
}
pub(crate) use of_schedule;

pub(crate) fn check_steps(steps: Option<u64>) -> Outcome {
    steps.map_or(Ok(()), positive)
}

pub(crate) fn check_factor(factor: Option<f64>) -> Outcome {
    let give = format_args!("a number from 0 to 1");
    factor.map_or(Ok(()), |factor| right((0.0..=1.0).contains(&factor), Plain(factor), give))
}

pub(crate) fn without_decay(kind: ScheduleKind) -> Option<&'static str> {
    (kind == ScheduleKind::Constant).then_some("the schedule is constant")
}

pub(crate) fn without_factor(kind: ScheduleKind) -> Option<&'static str> {
    let is_without = kind == ScheduleKind::InverseSqrt;
    is_without.then_some("inverse_sqrt has none").or_else(|| without_decay(kind))
}

/// Refuses a schedule that lacks its steps; `part` is `rows` or `dense`.
pub(crate) fn check_whole<K>(part: &str, optimizer: &OptimizerConfig<K>) -> Outcome {
    let kind = optimizer.schedule;
    if kind == ScheduleKind::Constant || optimizer.decay_steps.is_some() {
        return Ok(());
    }
    let name = kind.name();
    Err(format!(
        "optim.{part}.schedule = {name} needs a number of steps: give optim.{part}.decay_steps"
    ))
}
