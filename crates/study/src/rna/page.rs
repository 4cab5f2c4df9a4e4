//! The study's tables beside the thesis's, and its plots.

use std::fmt::Write;

use super::{Figures, SettingFigures};
use crate::plot::Plot;

/// Tables for people.
pub fn page(figures: &Figures) -> String {
    let mut page = String::new();
    let target = figures.target_loss;
    let _ = writeln!(page, "time to a training loss of {target}");
    for of in &figures.settings {
        let setting = &of.setting;
        let (ranks, ms, late) = (setting.ranks, setting.computing_ms, setting.lateness);
        let limit = of.limit;
        let _ = writeln!(
            page,
            "\n{}: {ranks} ranks, {ms} ms a gradient, {late:?}; at most {limit:.2} times as many \
             gradients",
            of.model
        );
        let _ = writeln!(
            page,
            "  {:<18}{:>12}{:>10}{:>12}{:>10}{:>10}",
            "protocol", "seconds", "updates", "ms/update", "faster", "accuracy"
        );
        for (name, of) in &of.protocols {
            let or = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            let _ = writeln!(
                page,
                "  {name:<18}{:>12}{:>10}{:>12.2}{:>10}{:>10.4}",
                or(of.seconds_to_loss.map(|seconds| format!("{seconds:.2}"))),
                or(of.updates_to_loss.map(|updates| updates.to_string())),
                1e3 * of.seconds_per_update,
                or(of.speedup.map(|speedup| format!("{speedup:.2}"))),
                of.accuracy
            );
        }
    }
    let _ = writeln!(page, "\nthe thesis, with delays of 0 to 50 ms (its times are not told):");
    for of in &figures.paper {
        let (bsp, rna) = (of.bsp_accuracy, of.rna_accuracy);
        let _ = writeln!(page, "  {:<12} rna {:.1}, accuracy {bsp} and {rna}", of.model, of.rna);
    }
    let _ = writeln!(page, "\nms between sums of 100 ranks with tasks of 10 to 50 ms");
    let _ = writeln!(page, "  {:<8}{:>8}{:>8}{:>8}{:>10}", "probes", "p5", "p50", "p95", "thesis");
    for (probes, at) in &figures.response_ms {
        let paper = figures.paper_response_ms_p50.get(probes);
        let paper = paper.map_or_else(|| "-".to_owned(), ToString::to_string);
        let _ =
            writeln!(page, "  {probes:<8}{:>8.1}{:>8.1}{:>8.1}{paper:>10}", at.p5, at.p50, at.p95);
    }
    let _ = write!(page, "\nlost gradients: {}", figures.lost_gradients);
    page
}

/// Loss and accuracy over time, by setting (figure 5.4).
pub fn plots(figures: &Figures) -> Vec<Plot> {
    figures.settings.iter().flat_map(of_setting).collect()
}

fn of_setting(of: &SettingFigures) -> [Plot; 2] {
    let setting = &of.setting;
    let (ranks, ms, late) = (setting.ranks, setting.computing_ms, setting.lateness);
    let title = format!("{}, {ranks} ranks, {ms} ms, {late:?}", of.model);
    let lines = |value: fn(&crate::Point) -> f64| {
        let line = |(name, of): (&&str, &super::ProtocolFigures)| {
            let points = of.curve.iter().map(|point| (point.seconds, value(point)));
            ((*name).to_owned(), points.collect())
        };
        of.protocols.iter().map(line).collect()
    };
    let plot = |what: &'static str, lines| Plot {
        title: format!("{title}: {what}"),
        axes: ["seconds", what],
        lines,
    };
    [
        plot("training loss", lines(|point| point.train_loss)),
        plot("test accuracy", lines(|point| point.test_accuracy)),
    ]
}
