//! The charts of a page, and the formats of their numbers.

use stepwell_train::Metrics;

use super::chart::{Chart, Format, Series};
use super::shown::{Evaluated, Shown};
use crate::curves::sample::{Recent, Sample};

/// All line charts.
pub(super) fn charts(shown: &Shown) -> Vec<Chart> {
    let samples = shown.samples.points();
    let [loss, auc] = quality(&samples, &shown.evaluations.points());
    let [rate, hits] = speed(&samples);
    let [fill, disk, bytes] = tiers(&samples);
    vec![loss, auc, rate, hits, fill, disk, bytes]
}

/// A chart over time, with a y axis from zero.
fn over_time(id: &'static str, title: &'static str, series: Vec<Series>) -> Chart {
    let x = ("time since the run began", seconds as Format);
    Chart { id, title, x, y: count, least_range: Some((0.0, 0.0)), colour: 1, series }
}

fn line(name: &'static str, points: Vec<(f64, f64)>) -> Series {
    Series { name, points, dots: false }
}

/// Loss and AUC over examples.
fn quality(samples: &[&Sample], evaluations: &[&Evaluated]) -> [Chart; 2] {
    let evaluated = |name, of: fn(&Evaluated) -> Option<f64>| {
        let known = evaluations.iter().filter_map(|one| Some((one.examples as f64, of(one)?)));
        Series { name, points: known.collect(), dots: true }
    };
    let chart = |id, title, series: Vec<Series>| Chart {
        x: ("examples trained on", count),
        y: fraction,
        least_range: None,
        ..over_time(id, title, series.into_iter().filter(|one| !one.points.is_empty()).collect())
    };
    let losses = samples.windows(2).filter_map(|two| {
        let loss = two[1].since(two[0]).loss?;
        Some((two[1].examples as f64, loss))
    });
    let loss = vec![
        line("training", losses.collect()),
        evaluated("evaluation", |one| loss_of(&one.metrics)),
        evaluated("best reachable", |one| one.best.as_ref()?.logloss),
    ];
    let areas = samples.iter().filter_map(|sample| Some((sample.examples as f64, sample.auc?)));
    let auc = vec![
        line("training", areas.collect()),
        evaluated("evaluation", |one| one.metrics.auc),
        evaluated("best reachable", |one| one.best.as_ref()?.auc),
    ];
    let title = match samples.last().is_none_or(|last| last.is_log_loss) {
        true => "Log loss",
        false => "Loss of all labels together",
    };
    [chart("loss", title, loss), chart("auc", "AUC", auc)]
}

/// The loss that training minimizes: log loss, squared error, or the sum over several labels.
fn loss_of(metrics: &Metrics) -> Option<f64> {
    match metrics.labels.as_slice() {
        [] => metrics.logloss.or(metrics.rmse.map(|rmse| rmse * rmse)),
        labels => labels.iter().map(|of| loss_of(&of.metrics)).sum(),
    }
}

/// Examples per second, and the tiers where rows were found.
fn speed(samples: &[&Sample]) -> [Chart; 2] {
    let timed = |name, of: &dyn Fn(&Recent) -> Option<f64>| {
        let pairs = samples.windows(2).map(|two| (two[1].seconds, two[1].since(two[0])));
        line(name, pairs.filter_map(|(at, recent)| Some((at, of(&recent)?))).collect())
    };
    let share = |name, at: usize| timed(name, &|recent| recent.shares.map(|shares| shares[at]));
    let rate = vec![timed("examples/s", &|recent| recent.examples_per_second)];
    let hits = vec![share("in memory", 0), share("from disk", 1), share("new", 2)];
    let hits = Chart {
        y: percent,
        least_range: Some((0.0, 1.0)),
        ..over_time("hits", "Where the keys of coming batches were found", hits)
    };
    [over_time("rate", "Examples per second", rate), hits]
}

/// Contents of the tiers.
fn tiers(samples: &[&Sample]) -> [Chart; 3] {
    let held = |name, of: fn(&Sample) -> u64| {
        line(name, samples.iter().map(|sample| (sample.seconds, of(sample) as f64)).collect())
    };
    let memory = vec![held("slots", |sample| sample.held.slots), held("rows", Sample::memory_rows)];
    let disk = vec![held("rows", |sample| sample.held.disk_rows)];
    let bytes = vec![held("segments", |sample| sample.held.disk_bytes)];
    let bytes = over_time("bytes", "Disk: bytes of segments", bytes);
    [
        over_time("fill", "Memory: rows and slots", memory),
        Chart { colour: 3, ..over_time("disk", "Disk: rows", disk) },
        Chart { colour: 3, y: bytes_of, ..bytes },
    ]
}

/// A count with a decimal unit.
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

/// A time in a suitable unit.
pub(super) fn seconds(value: f64) -> String {
    match value {
        v if v < 120.0 => format!("{} s", short(v)),
        v if v < 7200.0 => format!("{} min", short(v / 60.0)),
        v => format!("{} h", short(v / 3600.0)),
    }
}

/// About three significant digits.
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
