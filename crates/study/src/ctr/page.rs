//! The study's table.

use std::fmt::Write;

use super::Figures;

/// A table for people.
pub fn page(figures: &Figures) -> String {
    let mut page = String::new();
    let (gradients, staleness) = (figures.gradients, figures.staleness);
    let _ = writeln!(
        page,
        "4 ranks, 20 ms a gradient, one rank late by 0 to 50 ms; {gradients} gradients; rows miss \
         at most {staleness} updates where that is bounded; at most 1.94 times as many gradients"
    );
    for model in &figures.models {
        let _ = writeln!(
            page,
            "\n{}, means over {} seeds (AUC: least to most)\n  {:<16}{:>10}{:>9}{:>10}{:>20}{:>10}",
            model.name,
            model.runs.values().next().map_or(0, Vec::len),
            "protocol",
            "seconds",
            "faster",
            "AUC",
            "",
            "stale"
        );
        for (name, runs) in &model.runs {
            let seconds = runs.iter().map(|run| run.seconds).sum::<f64>() / runs.len() as f64;
            let aucs = || runs.iter().map(|run| run.auc);
            let least = aucs().fold(f64::INFINITY, f64::min);
            let most = aucs().fold(0.0, f64::max);
            let stale = runs.iter().map(|run| run.staleness_max).max().unwrap_or(0);
            let (faster, auc) = (model.speedup[name], model.auc[name]);
            let range = format!("({least:.4} to {most:.4})");
            let _ = writeln!(
                page,
                "  {name:<16}{seconds:>10.2}{faster:>9.2}{auc:>10.4}{range:>20}{stale:>10}"
            );
        }
    }
    let _ = write!(page, "\nlost gradients: {}", figures.lost_gradients);
    page
}
