//! Which lines a page draws, and how numbers are written.

use super::chart::{Chart, Series};
use super::{Evaluated, Sample, Shown};

/// All charts of lines.
pub(super) fn charts(shown: &Shown) -> Vec<Chart> {
    let samples = shown.samples.points();
    let evaluations = shown.evaluations.points();
    let over_examples = ("examples trained on", count as fn(f64) -> String);
    let over_time = ("time since the run began", seconds as fn(f64) -> String);
    let line = |name, points| Series { name, points, dots: false };
    let dots = |name, points| Series { name, points, dots: true };
    let base = Chart {
        id: "",
        title: "",
        x: over_time,
        y: count,
        least_range: Some((0.0, 0.0)),
        colour: 1,
        series: Vec::new(),
    };
    let recent = |of: fn(&super::super::Recent) -> Option<f64>| {
        let pairs = samples.windows(2).map(|two| (two[1].examples, two[1].since(two[0])));
        let known = pairs.filter_map(|(at, recent)| Some((at as f64, of(&recent)?)));
        known.collect::<Vec<_>>()
    };
    let timed = |of: fn(&super::super::Recent) -> Option<f64>| {
        let pairs = samples.windows(2).map(|two| (two[1].seconds, two[1].since(two[0])));
        pairs.filter_map(|(at, recent)| Some((at, of(&recent)?))).collect::<Vec<_>>()
    };
    let evaluated = |of: fn(&Evaluated) -> Option<f64>| {
        let known = evaluations.iter().filter_map(|one| Some((one.examples as f64, of(one)?)));
        known.collect::<Vec<_>>()
    };
    let held = |of: fn(&Sample) -> f64| {
        samples.iter().map(|sample| (sample.seconds, of(sample))).collect::<Vec<_>>()
    };
    let auc = samples.iter().filter_map(|sample| Some((sample.examples as f64, sample.auc?)));
    let loss = vec![
        line("training", recent(|recent| recent.logloss)),
        dots("evaluation", evaluated(|one| one.metrics.logloss)),
        dots("best reachable", evaluated(|one| one.best.as_ref()?.logloss)),
    ];
    let auc = vec![
        line("training", auc.collect()),
        dots("evaluation", evaluated(|one| one.metrics.auc)),
        dots("best reachable", evaluated(|one| one.best.as_ref()?.auc)),
    ];
    let shares = vec![
        line("in memory", timed(|recent| recent.shares.map(|shares| shares[0]))),
        line("from disk", timed(|recent| recent.shares.map(|shares| shares[1]))),
        line("new", timed(|recent| recent.shares.map(|shares| shares[2]))),
    ];
    let memory = vec![
        line("slots", held(|sample| sample.held.slots as f64)),
        line("rows", held(|sample| sample.memory_rows() as f64)),
    ];
    let disk = vec![line("rows", held(|sample| sample.held.disk_rows as f64))];
    let bytes = vec![line("segments", held(|sample| sample.held.disk_bytes as f64))];
    let rate = vec![line("examples/s", timed(|recent| recent.examples_per_second))];
    let free = |id, title, series: Vec<Series>| Chart {
        id,
        title,
        x: over_examples,
        y: fraction,
        least_range: None,
        series: series.into_iter().filter(|one| !one.points.is_empty()).collect(),
        ..base
    };
    vec![
        free("loss", "Log loss", loss),
        free("auc", "AUC", auc),
        Chart { id: "rate", title: "Examples per second", series: rate, ..base },
        Chart {
            id: "hits",
            title: "Where the keys of coming batches were found",
            y: percent,
            least_range: Some((0.0, 1.0)),
            series: shares,
            ..base
        },
        Chart { id: "fill", title: "Memory: rows and slots", series: memory, ..base },
        Chart { id: "disk", title: "Disk: rows", colour: 3, series: disk, ..base },
        Chart {
            id: "bytes",
            title: "Disk: bytes of segments",
            y: bytes_of,
            colour: 3,
            series: bytes,
            ..base
        },
    ]
}

/// A count, in short.
pub(super) fn count(value: f64) -> String {
    let size = value.abs();
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(unit, _)| size >= *unit) {
        Some((unit, name)) => format!("{} {name}", short(value / unit)),
        None => short(value),
    }
}

fn bytes_of(value: f64) -> String {
    let text = count(value);
    if text.contains(' ') { text + "B" } else { text + " B" }
}

fn percent(value: f64) -> String {
    format!("{} %", short(value * 100.0))
}

fn fraction(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time, in the unit that suits it.
pub(super) fn seconds(value: f64) -> String {
    match value {
        v if v < 120.0 => format!("{} s", short(v)),
        v if v < 7200.0 => format!("{} min", short(v / 60.0)),
        v => format!("{} h", short(v / 3600.0)),
    }
}

/// Three figures or so.
fn short(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 100.0 => return format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let counts =
            [(0.0, "0"), (7.25, "7.25"), (999.0, "999"), (1000.0, "1 k"), (25.5e6, "25.5 M")];
        counts.iter().for_each(|(value, expected)| assert_eq!(count(*value), *expected));
        assert_eq!([1.5, 119.0, 120.0, 7200.0].map(seconds), ["1.5 s", "119 s", "2 min", "2 h"]);
        assert_eq!([0.5, 0.45678, 0.0].map(fraction), ["0.5", "0.4568", "0"]);
        assert_eq!([0.005, 1.0].map(percent), ["0.5 %", "100 %"]);
    }
}
