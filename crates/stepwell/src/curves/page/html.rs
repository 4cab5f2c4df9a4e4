//! The page itself, with its tables, charts, style and script.
//!
//! The page is also well-formed XML, so that any parser can read it.

use std::fmt::Write;

use serde_json::Value;
use stepwell_base::counted;

use super::bars;
use super::chart::Chart;
use super::escape::text;
use super::figures::{charts, count, seconds};
use super::shown::{Shown, State};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("hover.js");

/// Seconds after which the page of an unfinished run reloads itself.
const RELOAD_SECONDS: u32 = 15;

/// The whole page.
pub(super) fn page(shown: &Shown) -> String {
    let title = text(&shown.title);
    let reload = match shown.state {
        State::Running => format!("<meta http-equiv=\"refresh\" content=\"{RELOAD_SECONDS}\"/>\n"),
        _ => String::new(),
    };
    let charts: String = charts(shown).iter().map(Chart::draw).collect();
    [
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n",
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
        "<meta name=\"color-scheme\" content=\"light dark\"/>\n",
        &reload,
        &format!("<title>stepwell: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"),
        &format!("<header><h1>{title}</h1>\n<p>{}</p></header>\n", state(shown)),
        &tiles(shown),
        "<main>\n",
        &charts,
        &bars::timeline(shown),
        &bars::stages(shown),
        &bars::memory(shown),
        "</main>\n",
        &table("figures", "Figures at the end", figures(shown)),
        &table("settings", "Settings", settings(shown)),
        &format!("<script>\n{SCRIPT}</script>\n</body>\n</html>\n"),
    ]
    .concat()
}

fn state(shown: &Shown) -> String {
    let (name, rest) = match &shown.state {
        State::Running => ("running", String::new()),
        State::Ended => ("ended", String::new()),
        State::Interrupted => ("interrupted", String::new()),
        State::Failed(why) => ("failed", format!(": {}", text(why))),
    };
    let saved = shown.saved.as_ref().map_or_else(String::new, |(step, path)| {
        let checkpoints = counted(shown.checkpoints, "checkpoint");
        format!("; {checkpoints}, the last of step {step} in {}", text(path))
    });
    let at = seconds(shown.seconds);
    format!("<b class=\"{name}\">{name}</b>{rest}, step {} after {at}{saved}", shown.step)
}

/// The most important figures.
fn tiles(shown: &Shown) -> String {
    let last = shown.samples.last();
    let four = |value: Option<f64>| value.map(|value| format!("{value:.4}"));
    let rate = last.filter(|last| last.training_seconds > 0.0);
    let rate = rate.map(|last| count(last.examples as f64 / last.training_seconds));
    let evaluated = shown.evaluations.last().map(|one| &one.metrics);
    let loss = last.and_then(|last| last.loss);
    let name = match last.is_none_or(|last| last.is_log_loss) {
        true => "log loss of the epoch",
        false => "loss of the epoch",
    };
    let peak = last.and_then(|last| last.peak_bytes);
    let tiles = [
        ("examples", last.map(|last| count(last.examples as f64))),
        ("examples/s", rate),
        (name, four(loss)),
        ("log loss, evaluated", four(evaluated.and_then(|metrics| metrics.logloss))),
        ("AUC, evaluated", four(evaluated.and_then(|metrics| metrics.auc))),
        ("RMSE, evaluated", four(evaluated.and_then(|metrics| metrics.rmse))),
        ("calibration", four(evaluated.and_then(|metrics| metrics.calibration))),
        ("peak memory", peak.map(|bytes| stepwell_base::ByteCount(bytes).to_string())),
    ];
    let tiles = tiles.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let tiles = tiles.fold(String::new(), |mut all, (name, value)| {
        let _ = write!(all, "<div><b>{}</b><span>{name}</span></div>", text(&value));
        all
    });
    format!("<section id=\"tiles\">{tiles}</section>\n")
}

fn figures(shown: &Shown) -> Vec<(String, String)> {
    let figures = shown.figures.iter();
    figures.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn settings(shown: &Shown) -> Vec<(String, String)> {
    let settings = shown.settings.as_object().into_iter().flatten();
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    settings.map(|(key, value)| (key.clone(), shown(value))).collect()
}

/// A table that can be folded; empty without rows.
fn table(id: &str, title: &str, rows: Vec<(String, String)>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let rows = rows.iter().fold(String::new(), |mut all, (name, value)| {
        let _ = writeln!(all, "<tr><th>{}</th><td>{}</td></tr>", text(name), text(value));
        all
    });
    let open = if id == "figures" { " open=\"open\"" } else { "" };
    format!(
        "<details id=\"{id}\"{open}><summary>{title}</summary><table><tbody>\n{rows}\
         </tbody></table></details>\n"
    )
}
