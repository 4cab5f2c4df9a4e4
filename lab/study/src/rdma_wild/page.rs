//! The study's tables, compared with the paper's, and its plots.

use std::fmt::Write;

use super::{Distance, Figures, ModelFigures, Point};
use crate::plot::Plot;

/// Readable tables.
pub fn page(figures: &Figures) -> String {
    let mut page = String::new();
    let fit = &figures.fit;
    let _ = writeln!(
        page,
        "times fitted to Sync-DSGD: arithmetic {:.1} GB/s, delays of {:.2} of a gradient; fitted \
         over the paper's seconds {:.2}, {:.2}, {:.2}",
        fit.arithmetic_bytes_per_second / 1e9,
        fit.delay_share,
        fit.fitted_over_paper[0],
        fit.fitted_over_paper[1],
        fit.fitted_over_paper[2],
    );
    let _ = writeln!(
        page,
        "\n{:<8}{:>10}{:>12}{:>12}{:>10}{:>10}{:>12}{:>12}",
        "model", "KB", "sync s", "wild s", "faster", "paper", "over one", "paper"
    );
    for model in &figures.models {
        let _ = writeln!(
            page,
            "{:<8}{:>10}{:>12.2}{:>12.2}{:>10.2}{:>10.2}{:>12.2}{:>12.2}",
            model.name,
            model.bytes / 1000,
            model.seconds["sync_dsgd"],
            model.seconds["rdma_wild"],
            model.speedup["rdma_wild"],
            model.paper.speedup,
            model.speedup_over_single["rdma_wild"],
            model.paper.wild_over_single,
        );
    }
    let _ =
        writeln!(page, "\n{:<8}{:>14}{:>14}{:>8}", "accuracy", "sync_dsgd", "rdma_wild", "paper");
    for model in &figures.models {
        let _ = writeln!(
            page,
            "{:<8}{:>14.4}{:>14.4}{:>8.2}",
            model.name,
            model.accuracy["sync_dsgd"],
            model.accuracy["rdma_wild"],
            model.paper.accuracy
        );
    }
    for model in &figures.models {
        let Some(optimum) = &model.optimum else { continue };
        let _ = writeln!(
            page,
            "\n{}: the best loss is {:.5}, gradient {:.1e} there, after {} full gradients",
            model.name, optimum.loss, optimum.gradient_norm, optimum.gradients
        );
        for (name, distances) in &optimum.by_epoch {
            let Some(last) = distances.last() else { continue };
            let _ = writeln!(
                page,
                "  {name:<12} distance {:.3}, gradient {:.4}, loss gap {:.5}",
                last.distance, last.gradient_norm, last.loss_gap
            );
        }
    }
    let _ = write!(page, "\nlost gradients: {}", figures.lost_gradients);
    page
}

/// Accuracy by epoch, and distances (figures 7 and 8).
pub fn plots(figures: &Figures) -> Vec<Plot> {
    let mut plots = Vec::new();
    for model in &figures.models {
        let name = model.name;
        let line = |value: fn(&Point) -> f64| lines(model, value);
        let plot = |what: &str, axis, lines| Plot {
            title: format!("{name}: {what}"),
            axes: ["epoch", axis],
            lines,
        };
        plots.push(plot("training accuracy", "share", line(|point| point.train_accuracy)));
        plots.push(plot("test accuracy", "share", line(|point| point.test_accuracy)));
        plots.push(plot("training loss", "loss", line(|point| point.train_loss)));
        let Some(optimum) = &model.optimum else { continue };
        let line = |value: fn(&Distance) -> f64| {
            let of = |(name, all): (&&str, &Vec<Distance>)| {
                let points = all.iter().enumerate().map(|(epoch, at)| (epoch as f64, value(at)));
                ((*name).to_owned(), points.collect())
            };
            optimum.by_epoch.iter().map(of).collect()
        };
        plots.push(plot("distance to the best", "distance", line(|at| at.distance)));
        plots.push(plot("gradient norm", "norm", line(|at| at.gradient_norm)));
        plots.push(plot("loss gap", "loss", line(|at| at.loss_gap)));
    }
    plots
}

fn lines(model: &ModelFigures, value: fn(&Point) -> f64) -> Vec<(String, Vec<(f64, f64)>)> {
    let of = |(name, points): (&&str, &Vec<Point>)| {
        ((*name).to_owned(), points.iter().map(|point| (point.epoch, value(point))).collect())
    };
    model.curves.iter().map(of).collect()
}
