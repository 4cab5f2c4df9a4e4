//! Figures as text.

use serde_json::Value;
use stepwell_base::{ByteCount, counted};
use stepwell_engine::SetAside;
use stepwell_settings::{
    COLUMN_SETTINGS, ColumnConfig, Config, FEATURE_SETTINGS, FeatureConfig, LAYER_SETTINGS,
    LayerConfig, SETTINGS, Setting, TABLE_SETTINGS, TableConfig,
};
use stepwell_train::{
    AtMetrics, ColumnIds, GroupReport, LabelMetrics, Metrics, RecallMetrics, Report, ValueMetrics,
    ValuesReport,
};

use crate::say::{Page, put};

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.5}"))
}

/// One line of metrics.
pub(crate) fn metrics_line(metrics: &Metrics) -> String {
    if !metrics.labels.is_empty() {
        let of = |of: &LabelMetrics| format!("{}: {}", of.label, metrics_line(&of.metrics));
        return metrics.labels.iter().map(of).collect::<Vec<_>>().join("; ");
    }
    let bound = if metrics.auc_error_max > 0.0 {
        format!(" (within {:.1e})", metrics.auc_error_max)
    } else {
        String::new()
    };
    if metrics.rmse.is_some() {
        return format!(
            "RMSE {}, MAE {}, R2 {}, calibration {} over {} examples",
            figure(metrics.rmse),
            figure(metrics.mae),
            figure(metrics.r2),
            figure(metrics.calibration),
            metrics.examples
        );
    }
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
pub(crate) fn report(report: &Report) -> Page {
    let mut page = Page::default();
    put!(page);
    put_rows(&mut page, &figures(report));
    page
}

fn put_rows(page: &mut Page, rows: &Rows) {
    rows.iter().for_each(|(name, value)| put!(page, "{name:<16}{value}"));
}

/// Rows of a table: names and values.
type Rows = Vec<(&'static str, String)>;

/// The most important figures of a training run.
pub(crate) fn figures(report: &Report) -> Rows {
    let mut figures = Rows::new();
    let to = &mut figures;
    let from = match report.steps_before {
        0 => String::new(),
        step => format!(", from step {step} on"),
    };
    row(to, "examples", &format!("{} in {:.1} s{from}", report.examples, report.train_seconds));
    if report.skipped_lines > 0 {
        row(to, "skipped lines", &report.skipped_lines.to_string());
    }
    row(to, "examples/s", &format!("{:.0}", report.examples_per_second));
    put_metrics(to, report);
    let host = &report.tiers.host;
    let planned = (host.hits + host.misses).max(1) as f64;
    let rows = report.rows.map_or_else(|| "not counted".to_owned(), |rows| format!("{rows} exist"));
    row(to, "rows", &format!("{rows}, {} fit in memory", host.slots));
    row(
        to,
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
    put_device(to, report);
    put_disk(to, report);
    put_aside(to, report);
    put_stages(to, report);
    let peak = report.peak_rss_bytes.map_or_else(|| "-".to_owned(), |b| ByteCount(b).to_string());
    row(to, "peak memory", &format!("{peak} of {} planned", ByteCount(report.budget_bytes)));
    put_apart(to, report);
    put_digest(to, report);
    figures
}

/// The table of an evaluation.
pub(crate) fn metrics(report: &Report) -> Page {
    let (mut page, mut rows) = (Page::default(), Rows::new());
    put_metrics(&mut rows, report);
    if let Some(error) = report.eval.calibration_error {
        row(&mut rows, "calibration", &format!("off by {error:.5} in the mean of ten bins"));
    }
    put_groups(&mut rows, report);
    put_recall(&mut rows, report);
    put_values(&mut rows, report);
    lacking(report).into_iter().for_each(|line| row(&mut rows, "without a row", &line));
    put_digest(&mut rows, report);
    put_rows(&mut page, &rows);
    page
}

/// A line for each column with ids that had no row.
pub(crate) fn lacking(report: &Report) -> Vec<String> {
    let tables = report.ids_by_column.iter().map(|of| of.table.as_str());
    let is_one = tables.clone().all(|table| Some(table) == tables.clone().next());
    let lacking = report.ids_by_column.iter().filter(|of| of.without_row > 0);
    let line = |of: &ColumnIds| {
        let ColumnIds { column, table, ids, without_row } = of;
        let table = if is_one { String::new() } else { format!(" (table {table})") };
        let part = 100.0 * *without_row as f64 / (*ids).max(1) as f64;
        format!("{column}{table}: {without_row} of {ids} ids, {part:.1} %")
    };
    lacking.map(line).collect()
}

fn put_groups(to: &mut Rows, report: &Report) {
    let Some(GroupReport { column, metrics }) = &report.by_group else { return };
    let sampled = match metrics.sampled {
        all if all >= 1.0 => String::new(),
        part => format!("; of a sample of {:.2} % of all groups", 100.0 * part),
    };
    row(
        to,
        "AUC by group",
        &format!(
            "{} within {}, over {} with {}; {} with only one label left out{sampled}",
            figure(metrics.group_auc),
            column,
            counted(metrics.groups, "group"),
            counted(metrics.examples, "example"),
            counted(metrics.groups_left_out, "group"),
        ),
    );
    if let Some(AtMetrics { k, precision, recall, groups }) = &metrics.at {
        row(
            to,
            "best of a group",
            &format!(
                "precision {} and recall {} of the {k} best, over {} with a positive",
                figure(*precision),
                figure(*recall),
                counted(*groups, "group"),
            ),
        );
    }
}

fn put_recall(to: &mut Rows, report: &Report) {
    let Some(RecallMetrics { k, recall, positives, items, sampled }) = &report.recall else {
        return;
    };
    let sampled = match *sampled {
        all if all >= 1.0 => String::new(),
        part => format!(", a sample of {:.2} % of them", 100.0 * part),
    };
    row(
        to,
        "recall",
        &format!(
            "{} of the {k} best of {}{sampled}, over {}",
            figure(*recall),
            counted(*items, "item"),
            counted(*positives, "positive"),
        ),
    );
}

fn put_values(to: &mut Rows, report: &Report) {
    let Some(ValuesReport { column, values, others }) = &report.by_value else { return };
    for ValueMetrics { value, metrics } in values {
        row(to, "by value", &format!("{column} = {value}: {}", metrics_line(metrics)));
    }
    if others.values > 0 {
        let (values, examples) =
            (counted(others.values, "other value"), counted(others.examples, "example"));
        row(to, "", &format!("{values} of {column}, with {examples}"));
    }
}

/// How far ranks were out of step, if they were.
fn put_apart(to: &mut Rows, report: &Report) {
    let all: Vec<_> = report.by_rank.iter().filter_map(|rank| rank.ranks?.apart).collect();
    if all.is_empty() {
        return;
    }
    let mean = all.iter().map(|rank| rank.staleness_mean).sum::<f64>() / all.len() as f64;
    let most = all.iter().map(|rank| rank.staleness_max).max().unwrap_or(0);
    let age = all.iter().map(|rank| rank.age_max).max().unwrap_or(0);
    let given: u64 = all.iter().map(|rank| rank.gradients).sum();
    let dropped: u64 = all.iter().map(|rank| rank.dropped).sum();
    let depends = match all.iter().any(|rank| rank.depends_on_time) {
        true => "; another run gives another model",
        false => "",
    };
    row(
        to,
        "out of step",
        &format!(
            "rows lacked {mean:.1} steps, {most} at most; used dense gradients lacked {age} \
             updates at most, {dropped} of {given} were dropped{depends}"
        ),
    );
}

fn put_digest(to: &mut Rows, report: &Report) {
    if let Some(digest) = &report.model_digest {
        row(to, "model digest", &format!("{digest} ({})", report.kernels));
    }
}

fn put_metrics(to: &mut Rows, report: &Report) {
    let before = report.before.iter().map(|metrics| ("before", metrics));
    let parts = [("progressive", &report.progressive), ("evaluation", &report.eval)];
    for (name, metrics) in before.chain(parts).filter(|(_, metrics)| metrics.examples > 0) {
        match metrics.labels.as_slice() {
            [] => row(to, name, &metrics_line(metrics)),
            labels => labels.iter().for_each(|of| {
                row(to, name, &format!("{}: {}", of.label, metrics_line(&of.metrics)));
            }),
        }
    }
    if let Some(best) = &report.best_possible {
        row(to, "best reachable", &metrics_line(best));
    }
}

fn put_device(to: &mut Rows, report: &Report) {
    let Some(device) = &report.tiers.device else { return };
    let count = &device.count;
    let planned = count.planned() as f64;
    let pooled = match count.pooled {
        0 => String::new(),
        some => format!("; rows of {some} mini-batches were pooled there"),
    };
    row(
        to,
        "devices",
        &format!(
            "{}: {} rows fit; of the rows planned {:.1} % were there, {:.1} % were brought up, \
             {:.1} % stayed on the host; {} up, {} down; steps waited {:.1} s{pooled}",
            stepwell_device::said(&device.names),
            device.slots,
            100.0 * count.hits as f64 / planned,
            100.0 * count.fills as f64 / planned,
            100.0 * count.below as f64 / planned,
            ByteCount(count.bytes_up),
            ByteCount(count.bytes_down),
            count.seconds_waiting
        ),
    );
}

fn put_disk(to: &mut Rows, report: &Report) {
    let disk = &report.tiers.disk;
    row(
        to,
        "disk",
        &format!(
            "{} live and {} stale rows in {} ({}); {} read, {} written, {} compacted",
            disk.rows_live,
            disk.rows_stale,
            counted(disk.segments, "segment"),
            ByteCount(disk.bytes),
            ByteCount(disk.bytes_read),
            ByteCount(disk.bytes_written),
            counted(disk.compactions, "segment")
        ),
    );
    row(
        to,
        "open files",
        &format!(
            "{} of the stores, {} at most (above {} only while all are in use)",
            disk.files_open, disk.files_open_peak, disk.files_open_max
        ),
    );
}

/// Rows on disk that were set aside.
fn put_aside(to: &mut Rows, report: &Report) {
    for SetAside { directory, files, bytes } in &report.tiers.disk.set_aside {
        if *files > 0 {
            let (files, bytes) = (counted(*files, "file"), ByteCount(*bytes));
            let purge = format!("`stepwell store purge {directory}` removes such rows");
            row(to, "set aside", &format!("{files}, {bytes}, in {directory}: {purge}"));
        }
    }
}

fn put_stages(to: &mut Rows, report: &Report) {
    let stages: Vec<String> = report
        .stages
        .iter()
        .map(|stage| format!("{} {:.1}/{:.1}", stage.name, stage.busy_seconds, stage.wait_seconds))
        .collect();
    row(to, "busy/waiting s", &stages.join(", "));
}

fn row(to: &mut Rows, name: &'static str, value: &str) {
    to.push((name, value.to_owned()));
}

/// All settings with their help and value. If there are no named tables, features, columns or
/// layers, their settings are listed with the defaults.
pub(crate) fn settings(config: &Config) -> Page {
    let mut page = Page::default();
    put_settings(&mut page, "", SETTINGS, config);
    for table in &config.tables {
        put_settings(&mut page, &format!("tables.{}.", table.name), TABLE_SETTINGS, table);
    }
    for (feature, number) in config.features.iter().zip(1..) {
        put_settings(&mut page, &format!("features.{number}."), FEATURE_SETTINGS, feature);
    }
    for (column, number) in config.columns.iter().zip(1..) {
        put_settings(&mut page, &format!("columns.{number}."), COLUMN_SETTINGS, column);
    }
    for (layer, number) in config.model.layers.iter().zip(1..) {
        put_settings(&mut page, &format!("model.layers.{number}."), LAYER_SETTINGS, layer);
    }
    if config.columns.is_empty() {
        put_settings(&mut page, "columns.N.", COLUMN_SETTINGS, &ColumnConfig::default());
    }
    if config.tables.is_empty() {
        put_settings(&mut page, "tables.NAME.", TABLE_SETTINGS, &TableConfig::default());
    }
    if config.features.is_empty() {
        put_settings(&mut page, "features.N.", FEATURE_SETTINGS, &FeatureConfig::default());
    }
    if config.model.layers.is_empty() {
        put_settings(&mut page, "model.layers.N.", LAYER_SETTINGS, &LayerConfig::default());
    }
    page
}

fn put_settings<T>(page: &mut Page, prefix: &str, settings: &[Setting<T>], part: &T) {
    for setting in settings {
        let key = format!("{prefix}{}", setting.key);
        let value = match (setting.get(part), setting.default_name) {
            (Value::Null, Some(name)) => name.replace('`', ""),
            (Value::Null, None) => "none".to_owned(),
            (Value::String(text), _) => text,
            (value, _) => value.to_string(),
        };
        put!(page, "{key:<30}{} [{value}]", setting.help);
    }
}
