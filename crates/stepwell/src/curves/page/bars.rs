//! Stages over time and in total, and memory against its plan, as SVG.

use std::fmt::Write;

use stepwell_base::ByteCount;

use super::chart::{RIGHT, WIDTH};
use super::escape::text;
use super::figures::seconds;
use super::shown::Shown;
use crate::curves::sample::Sample;

/// Width for names, left of the bars.
const NAMES: f64 = 150.0;
/// Width for figures, right of the bars.
const FIGURES: f64 = 70.0;
const ROW: f64 = 24.0;
const BAR: f64 = 16.0;
/// Most bounds with their own bars; the others share one.
const BOUNDS_MAX: usize = 12;

/// How busy each stage was over time, in a row for each.
pub(super) fn timeline(shown: &Shown) -> String {
    let title = "Stages over time: seconds of work per second";
    let samples = shown.samples.points();
    let stages: Vec<&str> = samples
        .last()
        .map(|sample| sample.busy.iter().map(|(name, _)| *name).collect())
        .unwrap_or_default();
    let end = samples.last().map_or(0.0, |sample| sample.seconds);
    let begin = samples.first().map_or(0.0, |sample| sample.seconds);
    let pairs: Vec<_> = samples.windows(2).map(|two| (two[0], two[1])).collect();
    if pairs.is_empty() || end <= begin {
        return none("stages", title);
    }
    let (left, width) = (NAMES * 0.6, WIDTH - NAMES * 0.6 - FIGURES);
    let at = |seconds: f64| left + (seconds - begin) / (end - begin) * width;
    let height = ROW * stages.len() as f64 + 20.0;
    let mut out = head("stages", title, height);
    for (row, stage) in stages.iter().enumerate() {
        let shares: Vec<(f64, f64, f64)> = pairs
            .iter()
            .map(|(before, now)| (before.seconds, now.seconds, busy_of(stage, before, now)))
            .collect();
        let most = shares.iter().fold(1.0, |most: f64, (_, _, share)| most.max(*share));
        let base = ROW * (row + 1) as f64 - 3.0;
        let mut points = vec![format!("{:.1},{base:.1}", at(begin))];
        for (from, to, share) in &shares {
            let y = base - share / most * (ROW - 6.0);
            points.push(format!("{:.1},{y:.1} {:.1},{y:.1}", at(*from), at(*to)));
        }
        points.push(format!("{:.1},{base:.1}", at(end)));
        let mean = shares.iter().map(|(from, to, share)| (to - from) * share).sum::<f64>();
        let _ = write!(
            out,
            "<text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">{}</text><line class=\"grid\" \
             x1=\"{left}\" x2=\"{:.1}\" y1=\"{base:.1}\" y2=\"{base:.1}\"/><polygon class=\"fill \
             f1\" data-name=\"{}\" points=\"{}\"/><text class=\"right\" x=\"{:.1}\" \
             y=\"{:.1}\">{:.0} %</text>",
            left - 6.0,
            base - 4.0,
            text(stage),
            left + width,
            text(stage),
            points.join(" "),
            left + width + 8.0,
            base - 4.0,
            100.0 * mean / (end - begin),
        );
    }
    let _ = write!(
        out,
        "<text class=\"under first\" x=\"{left}\" y=\"{:.1}\">{}</text><text class=\"under last\" \
         x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        height - 4.0,
        seconds(begin),
        left + width,
        height - 4.0,
        seconds(end),
    );
    out + "</svg></figure>\n"
}

fn busy_of(stage: &str, before: &Sample, now: &Sample) -> f64 {
    let of = |sample: &Sample| {
        let found = sample.busy.iter().find(|(name, _)| *name == stage);
        found.map_or(0.0, |(_, seconds)| *seconds)
    };
    let elapsed = now.seconds - before.seconds;
    if elapsed > 0.0 { ((of(now) - of(before)) / elapsed).max(0.0) } else { 0.0 }
}

/// Total work and waiting of each stage, stacked.
pub(super) fn stages(shown: &Shown) -> String {
    let title = "Stages in total: work (coloured) and waiting";
    let rows: Vec<(String, [f64; 2])> = match shown.stages.as_slice() {
        [] => {
            let last = shown.samples.last();
            let busy = last.map_or(&[][..], |sample| &sample.busy);
            busy.iter().map(|(name, seconds)| ((*name).to_owned(), [*seconds, 0.0])).collect()
        }
        stages => stages
            .iter()
            .map(|stage| (stage.name.clone(), [stage.busy_seconds, stage.wait_seconds]))
            .collect(),
    };
    let most = rows.iter().map(|(_, [busy, wait])| busy + wait).fold(0.0, f64::max);
    if most <= 0.0 {
        return none("stage-times", title);
    }
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|(name, parts)| {
            let figure = format!("{} + {}", seconds(parts[0]), seconds(parts[1]));
            Row { name, parts: vec![(parts[0], "f1"), (parts[1], "f5")], figure }
        })
        .collect();
    bars("stage-times", title, &rows, most)
}

/// The plan's bounds, their sum, and the process's peak.
pub(super) fn memory(shown: &Shown) -> String {
    let title = "Memory: planned and peak";
    let total = shown.budget.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    if total == 0 {
        return none("memory", title);
    }
    let mut bounds = shown.budget.clone();
    bounds.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let others = bounds.split_off(bounds.len().min(BOUNDS_MAX));
    if !others.is_empty() {
        let bytes = others.iter().map(|(_, bytes)| *bytes).sum();
        bounds.push((format!("{} others", others.len()), bytes));
    }
    let row = |name: &str, bytes: u64, fill: &'static str| Row {
        name: name.to_owned(),
        parts: vec![(bytes as f64, fill)],
        figure: ByteCount(bytes).to_string(),
    };
    let peak = shown.samples.last().and_then(|sample| sample.peak_bytes);
    let mut rows = vec![row("planned in total", total, "f1")];
    rows.extend(peak.map(|bytes| row("peak memory", bytes, "f2")));
    rows.extend(bounds.iter().map(|(name, bytes)| row(name, *bytes, "f5")));
    bars("memory", title, &rows, total.max(peak.unwrap_or(0)) as f64)
}

/// A stacked bar.
struct Row {
    name: String,
    parts: Vec<(f64, &'static str)>,
    figure: String,
}

fn bars(id: &str, title: &str, rows: &[Row], most: f64) -> String {
    let mut out = head(id, title, ROW * rows.len() as f64 + 4.0);
    let figures = FIGURES * 1.5;
    let width = WIDTH - NAMES - figures - 6.0;
    for (number, row) in rows.iter().enumerate() {
        let top = ROW * number as f64 + 4.0;
        let _ = write!(
            out,
            "<text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 6.0,
            top + 12.0,
            text(&row.name)
        );
        let mut left = NAMES;
        for (value, fill) in &row.parts {
            let length = value / most * width;
            let _ = write!(
                out,
                "<rect class=\"{fill}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{length:.1}\" \
                 height=\"{BAR}\"/>"
            );
            left += length;
        }
        let _ = write!(
            out,
            "<text class=\"right\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT - figures + 14.0,
            top + 12.0,
            text(&row.figure)
        );
    }
    out + "</svg></figure>\n"
}

fn head(id: &str, title: &str, height: f64) -> String {
    let title = text(title);
    format!(
        "<figure id=\"{id}\"><figcaption><b>{title}</b></figcaption>\n<svg viewBox=\"0 0 {WIDTH} \
         {height}\" role=\"img\" aria-label=\"{title}\">"
    )
}

fn none(id: &str, title: &str) -> String {
    let title = text(title);
    format!(
        "<figure id=\"{id}\"><figcaption><b>{title}</b></figcaption>\n<p class=\"none\">nothing \
         measured yet</p></figure>\n"
    )
}
