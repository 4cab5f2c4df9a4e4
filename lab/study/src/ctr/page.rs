//! The study's table.

use std::fmt::Write;

use super::{Figures, RunFigures};

/// A readable table.
pub fn page(figures: &Figures) -> String {
    let mut page = String::new();
    let (gradients, staleness) = (figures.gradients, figures.staleness);
    let _ = writeln!(
        page,
        "4 ranks, 20 ms a gradient, one rank late by 0 to 50 ms; {gradients} gradients of 64 \
         examples\nrows: exact under bsp; as they arrive under ad_psgd and rna_async; else they \
         miss {staleness} updates\nat most; ranks that never wait would take 1/1.94 of the time of \
         bsp"
    );
    for model in &figures.models {
        let seeds = model.runs.values().next().map_or(0, Vec::len);
        let _ = writeln!(
            page,
            "\n{}, {seeds} seeds: means; AUC from least to most; dropped gradients, and the \
             most\nupdates that rows were behind\n  {:<16}{:>10}{:>9}{:>9}{:>20}{:>9}{:>8}",
            model.name, "protocol", "seconds", "times", "AUC", "", "dropped", "behind"
        );
        for (name, runs) in &model.runs {
            let seconds = runs.iter().map(|run| run.seconds).sum::<f64>() / runs.len() as f64;
            let aucs = || runs.iter().map(|run| run.auc);
            let least = aucs().fold(f64::INFINITY, f64::min);
            let most = aucs().fold(0.0, f64::max);
            let most_of =
                |of: fn(&RunFigures) -> u64| runs.iter().map(of).max().unwrap_or_default();
            let (dropped, behind) = (most_of(|run| run.dropped), most_of(|run| run.staleness_max));
            let (times, auc) = (model.speedup[name], model.auc[name]);
            let range = format!("({least:.4} to {most:.4})");
            let _ = writeln!(
                page,
                "  {name:<16}{seconds:>10.2}{times:>9.2}{auc:>9.4}{range:>20}{dropped:>9}\
                 {behind:>8}"
            );
        }
    }
    let _ = write!(page, "\nlost gradients of the dense part: {}", figures.lost_gradients);
    page
}
