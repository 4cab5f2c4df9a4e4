//! The study's tables, compared with the paper's results, and its plots.

use std::fmt::Write;

use super::{CurvePoint, Figures, MemoryFigures, SettingFigures, ShareFigures, SpeedFigures};
use crate::plot::Plot;

/// Readable tables.
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
    memory(&mut page, figures);
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
        "mode",
        "s/clock",
        "stalls",
        "seconds",
        "examples",
        "faster",
        "x ex.",
        "missed",
        "mean",
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

fn memory(page: &mut String, figures: &Figures) {
    let MemoryFigures { full_bytes, least_share, iteration_seconds, losses, .. } = figures.memory;
    let _ = writeln!(
        page,
        "\na device's memory: all of {full_bytes} bytes, twice the largest layer is \
         {least_share:.3} of them; {iteration_seconds:.3} s of computing an iteration; throughput \
         over that with all memory",
    );
    let _ = writeln!(
        page,
        "  {:<10}{:>8}{:>14}{:>12}{:>14}{:>12}",
        "PCIe GB/s", "memory", "algorithm 2", "predicted", "none pinned", "predicted"
    );
    for of in &figures.memory.speeds {
        let speed = of.bytes_per_second / 1e9;
        for at in &of.shares {
            let _ = writeln!(
                page,
                "  {speed:<10.1}{:>8.2}{:>14.3}{:>12.3}{:>14.3}{:>12.3}",
                at.share, at.over_full, at.predicted, at.unpinned, at.unpinned_predicted
            );
        }
    }
    let paper = &figures.paper;
    let (share, over_full) = (paper.swapped_share, paper.swapped_over_full);
    let _ = writeln!(page, "the paper: {over_full:.2} with {share:.2} (figure 12)");
    let _ = writeln!(page, "\n  {:<24}{:>12}{:>12}{:>12}", "off", "over full", "KB up", "KB down");
    for of in &figures.memory.switches {
        let (up, down) = (of.bytes_up / 1000, of.bytes_down / 1000);
        let _ = writeln!(page, "  {:<24}{:>12.3}{up:>12}{down:>12}", of.off, of.over_full);
    }
    let runs = figures.memory.runs_of_same_bits;
    let [first, last] = losses;
    let _ =
        writeln!(page, "\n{runs} runs, all with the same bits; loss {first:.3}, then {last:.3}");
}

/// Accuracy over time and over examples, by setting (figures 14 and 15).
pub fn plots(figures: &Figures) -> Vec<Plot> {
    let mut plots: Vec<Plot> = figures.settings.iter().flat_map(of_setting).collect();
    plots.extend(figures.memory.speeds.iter().map(of_speed));
    plots
}

/// Throughput by memory (figure 12).
fn of_speed(of: &SpeedFigures) -> Plot {
    let line = |name: &str, value: fn(&ShareFigures) -> f64| {
        (name.to_owned(), of.shares.iter().map(|at| (at.share, value(at))).collect())
    };
    Plot {
        title: format!("throughput by memory, PCIe of {:.1} GB/s", of.bytes_per_second / 1e9),
        axes: ["share of the memory", "over full"],
        lines: vec![
            line("algorithm 2", |at| at.over_full),
            line("predicted", |at| at.predicted),
            line("none pinned", |at| at.unpinned),
            line("none pinned, predicted", |at| at.unpinned_predicted),
        ],
    }
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
