//! Trials as text and as JSON.

use serde_json::{Value, json};
use stepwell_settings::BestKind;

use super::directory::name;
use super::trial::{Figures, State, Trial};
use crate::say::{Page, put};

/// The table of all trials: the best first, then those that failed.
pub(super) fn page<'a>(trials: impl Iterator<Item = &'a Trial>, by: BestKind) -> Page {
    let mut trials: Vec<&Trial> = trials.collect();
    let rank = |trial: &Trial| trial.rank(by).unwrap_or(f64::INFINITY);
    trials.sort_by(|one, other| rank(one).total_cmp(&rank(other)));
    let has_numbers = trials.iter().flat_map(|of| &of.evaluations).any(|of| of.rmse.is_some());
    let loss = if has_numbers { "RMSE" } else { "log loss" };
    let mut page = Page::default();
    put!(page);
    put!(
        page,
        "{:>5}  {loss:>8}  {:>7}  {:>16}  {:>6}  {:>7}  settings",
        "trial",
        "AUC",
        "95 % interval",
        "step",
        "seconds"
    );
    for trial in trials {
        let settings = trial.pairs().join(" ");
        let Some(best) = trial.best(by, None).filter(|_| trial.rank(by).is_some()) else {
            put!(page, "{:>5}  {}: {settings}", trial.trial, state(trial));
            continue;
        };
        let stopped = if trial.state == State::Done { String::new() } else { state(trial) + ": " };
        put!(
            page,
            "{:>5}  {:>8}  {:>7}  {:>16}  {:>6}  {:>7.1}  {stopped}{settings}",
            trial.trial,
            figure(best.logloss.or(best.rmse)),
            figure(best.auc),
            interval(best),
            best.step,
            trial.seconds
        );
    }
    page
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.5}"))
}

fn interval(of: &Figures) -> String {
    let text = |[low, high]: [f64; 2]| format!("{low:.5}..{high:.5}");
    of.auc_interval.map_or_else(|| "-".to_owned(), text)
}

fn state(trial: &Trial) -> String {
    match &trial.state {
        State::Open if trial.rungs > 0 => format!("stopped at rung {}", trial.rungs),
        State::Open => "not trained to its end".to_owned(),
        State::Done => "done".to_owned(),
        State::Failed { reason } => format!("failed: {reason}"),
        State::Same { same_as } => format!("same as trial {same_as}"),
    }
}

/// What became of a trial, in a line.
pub(super) fn outcome(trial: &Trial, by: BestKind) -> String {
    match trial.best(by, None).filter(|_| trial.rank(by).is_some()) {
        None => state(trial),
        Some(best) => {
            let loss = if best.rmse.is_some() { "RMSE" } else { "log loss" };
            let stopped = if trial.state == State::Done { String::new() } else { state(trial) };
            let stopped = if stopped.is_empty() { stopped } else { format!(", {stopped}") };
            format!(
                "{loss} {}, AUC {} after step {}, the best evaluation of {}; {:.1} s{stopped}",
                figure(best.logloss.or(best.rmse)),
                figure(best.auc),
                best.step,
                trial.evaluations.len(),
                trial.seconds
            )
        }
    }
}

/// The settings of a trial as arguments for a shell.
pub(super) fn flags(trial: &Trial) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._,=+-/:".contains(c);
    let quoted = |pair: String| match pair.chars().all(is_plain) {
        true => format!("--set {pair}"),
        false => format!("--set '{}'", pair.replace('\'', r"'\''")),
    };
    trial.pairs().into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A trial for scripts.
pub(super) fn to_json(trial: &Trial, by: BestKind) -> Value {
    let settings = trial.settings.iter().map(|of| (of.key.clone(), json!(of.value)));
    let best = trial.best(by, None);
    let (state, reason, same_as) = match &trial.state {
        State::Open => ("open", None, None),
        State::Done => ("done", None, None),
        State::Failed { reason } => ("failed", Some(reason), None),
        State::Same { same_as } => ("same", None, Some(same_as)),
    };
    json!({
        "trial": trial.trial,
        "directory": name(trial.trial),
        "settings": settings.collect::<serde_json::Map<_, _>>(),
        "state": state,
        "reason": reason,
        "same_as": same_as,
        "rungs": trial.rungs,
        "value": best.and_then(|best| best.value(by)),
        "best": best,
        "evaluations": trial.evaluations,
        "steps": trial.steps,
        "seconds": trial.seconds,
    })
}
