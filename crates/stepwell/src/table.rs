//! Figures as people read them.

use stepwell_base::ByteCount;
use stepwell_train::{Config, Metrics, Report};

use crate::settings::SETTINGS;

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.5}"))
}

/// One line of metrics.
pub(crate) fn metrics_line(metrics: &Metrics) -> String {
    let bound = if metrics.auc_error_max > 0.0 {
        format!(" (within {:.1e})", metrics.auc_error_max)
    } else {
        String::new()
    };
    format!(
        "AUC {}{bound}, log loss {}, normalised entropy {}, calibration {} over {} examples",
        figure(metrics.auc),
        figure(metrics.logloss),
        figure(metrics.normalized_entropy),
        figure(metrics.calibration),
        metrics.examples
    )
}

/// The final table of a training run.
pub(crate) fn print_report(report: &Report) {
    println!();
    row("examples", &format!("{} in {:.1} s", report.examples, report.train_seconds));
    if report.skipped_lines > 0 {
        row("skipped lines", &report.skipped_lines.to_string());
    }
    row("examples/s", &format!("{:.0}", report.examples_per_second));
    print_metrics(report);
    let host = &report.tiers.host;
    let planned = (host.hits + host.misses).max(1) as f64;
    row("rows", &format!("{} exist, {} fit in memory", report.rows, host.slots));
    row(
        "rows planned",
        &format!(
            "{:.1} % were in memory, {:.1} % came from disk, {:.1} % on their way there, {:.1} % \
             were new",
            100.0 * host.hits as f64 / planned,
            100.0 * host.refilled as f64 / planned,
            100.0 * host.forwarded as f64 / planned,
            100.0 * host.initialized as f64 / planned
        ),
    );
    print_disk(report);
    print_stages(report);
    let peak = report.peak_rss_bytes.map_or_else(|| "-".to_owned(), |b| ByteCount(b).to_string());
    row("peak memory", &format!("{peak} of {} planned", ByteCount(report.budget_bytes)));
    row("model digest", &format!("{} ({})", report.model_digest, report.kernels));
}

/// The rows of the table that an evaluation has too.
pub(crate) fn print_metrics(report: &Report) {
    if report.progressive.examples > 0 {
        row("progressive", &metrics_line(&report.progressive));
    }
    if report.eval.examples > 0 {
        row("evaluation", &metrics_line(&report.eval));
    }
    if let Some(best) = &report.best_possible {
        row("best reachable", &metrics_line(best));
    }
}

fn print_disk(report: &Report) {
    let disk = &report.tiers.disk;
    row(
        "disk",
        &format!(
            "{} live and {} stale rows in {} segments ({}); {} read, {} written, {} segments \
             compacted",
            disk.rows_live,
            disk.rows_stale,
            disk.segments,
            ByteCount(disk.bytes),
            ByteCount(disk.bytes_read),
            ByteCount(disk.bytes_written),
            disk.compactions
        ),
    );
}

fn print_stages(report: &Report) {
    let stages: Vec<String> = report
        .stages
        .iter()
        .map(|stage| format!("{} {:.1}/{:.1}", stage.name, stage.busy_seconds, stage.wait_seconds))
        .collect();
    row("busy/waiting s", &stages.join(", "));
}

fn row(name: &str, value: &str) {
    println!("{name:<16}{value}");
}

/// All settings with their meaning and default.
pub(crate) fn print_settings() {
    let config = Config::default();
    for setting in SETTINGS {
        println!("{:<24}{} [{}]", setting.key, setting.help, setting.get(&config));
    }
}
