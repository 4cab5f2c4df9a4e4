//! The study's tables beside the paper's figures, and its plots.

use std::fmt::Write;

use super::{CurvePoint, Figures, SettingFigures};
use crate::plot::Plot;

/// Tables for people.
pub fn page(figures: &Figures) -> String {
    let mut page = String::new();
    let target = figures.target_accuracy;
    let _ = writeln!(page, "{} workers, to a test accuracy of {target}", figures.workers);
    figures.settings.iter().for_each(|of| setting(&mut page, of));
    let paper = &figures.paper;
    let _ = writeln!(
        page,
        "\nthe paper, to 10 % of ImageNet22K: ssp_1 {:.0} times, async {:.0} times the examples \
         (figure 15); stalls of {:.2} under bsp (figure 8)",
        paper.ssp_1_examples_over_bsp, paper.async_examples_over_bsp, paper.bsp_stall
    );
    let _ = write!(page, "\nlost updates: {}", figures.lost_updates);
    page
}

fn setting(page: &mut String, of: &SettingFigures) {
    let (model, late) = (of.model, of.lateness);
    let _ = writeln!(
        page,
        "\n{model}, {late:?}; one table for all layers under bsp: stalls {:.3}",
        of.single_table_stall
    );
    let _ = writeln!(
        page,
        "  {:<8}{:>10}{:>8}{:>10}{:>12}{:>10}{:>10}{:>9}{:>9}{:>10}",
        "mode", "s/clock", "stalls", "seconds", "examples", "faster", "x ex.", "missed", "mean",
        "accuracy"
    );
    for (name, of) in &of.modes {
        let or = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let _ = writeln!(
            page,
            "  {name:<8}{:>10.3}{:>8.3}{:>10}{:>12}{:>10}{:>10}{:>9}{:>9.2}{:>10.4}",
            of.seconds_per_clock,
            of.stall,
            or(of.seconds_to_accuracy.map(|seconds| format!("{seconds:.0}"))),
            or(of.examples_to_accuracy.map(|count| count.to_string())),
            or(of.speedup.map(|speedup| format!("{speedup:.2}"))),
            or(of.examples_over_bsp.map(|times| format!("{times:.2}"))),
            of.staleness_max,
            of.staleness_mean,
            of.accuracy
        );
    }
}

/// Accuracy over time and over examples, by setting (figures 14 and 15).
pub fn plots(figures: &Figures) -> Vec<Plot> {
    figures.settings.iter().flat_map(of_setting).collect()
}

fn of_setting(of: &SettingFigures) -> [Plot; 2] {
    let plot = |axis: &'static str, x: fn(&CurvePoint) -> f64| {
        let line = |(name, of): (&&str, &super::ModeFigures)| {
            let points = of.curve.iter().map(|point| (x(point), point.test_accuracy));
            ((*name).to_owned(), points.collect())
        };
        Plot {
            title: format!("{}, {:?}: accuracy by {axis}", of.model, of.lateness),
            axes: [axis, "test accuracy"],
            lines: of.modes.iter().map(line).collect(),
        }
    };
    [plot("seconds", |point| point.seconds), plot("examples", |point| point.examples as f64)]
}
