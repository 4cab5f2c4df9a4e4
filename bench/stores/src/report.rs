//! All figures of a run: as a table for people, as JSON for programs.
//!
//! How       Ours is set against the better of RocksDB's two settings, figure by figure, and for
//!           reads against its better number of threads. Factors are turned so that above 1 is
//!           better for us: rates are divided ours by theirs, costs theirs by ours.

use serde::Serialize;
use serde_json::Value;

use crate::meter::Machine;
use crate::options::Options;
use crate::phases::Figures;
use crate::program::{Fio, Stepwell};

/// All that a run measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// What was typed.
    pub(crate) command: Vec<String>,
    pub(crate) machine: Machine,
    pub(crate) options: Options,
    pub(crate) stepwell: Option<Stepwell>,
    /// Everything stepwell reported itself.
    pub(crate) stepwell_report: Option<Value>,
    pub(crate) engines: Vec<Figures>,
    pub(crate) fio: Option<Fio>,
    /// How much better stepwell is than the better RocksDB.
    pub(crate) factors: Option<Row>,
}

/// One line of the table; a figure that was not measured is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) load_rows_per_second: Option<f64>,
    pub(crate) cold_rows_per_second: Option<f64>,
    pub(crate) cpu_us_per_row: Option<f64>,
    pub(crate) update_rows_per_second: Option<f64>,
    pub(crate) write_amplification: Option<f64>,
    pub(crate) space_amplification: Option<f64>,
}

/// The better of two figures.
type Better = fn(f64, f64) -> f64;

impl Row {
    fn of_stepwell(stepwell: &Stepwell) -> Self {
        Self {
            load_rows_per_second: stepwell.load_rows_per_second,
            cold_rows_per_second: stepwell.cold_rows_per_second,
            cpu_us_per_row: stepwell.cpu_us_per_row,
            update_rows_per_second: stepwell.update_rows_per_second,
            write_amplification: stepwell.write_amplification,
            space_amplification: stepwell.space_amplification,
        }
    }

    /// An engine's figures; for reads those of the faster number of threads, for CPU the lower.
    fn of_engine(figures: &Figures) -> Self {
        let update = figures.update.as_ref();
        let cold = || figures.cold.iter();
        Self {
            load_rows_per_second: Some(figures.load.rows_per_second),
            cold_rows_per_second: cold().map(|cold| cold.rows_per_second).reduce(f64::max),
            cpu_us_per_row: cold().map(|cold| cold.cpu_us_per_row).reduce(f64::min),
            update_rows_per_second: update.map(|update| update.rows_per_second),
            write_amplification: update.map(|update| update.write_amplification),
            space_amplification: update.map(|update| update.space_amplification),
        }
    }

    /// Applies `rate` to figures of which more is better, `cost` to the others.
    fn with(self, other: Self, rate: Better, cost: Better) -> Self {
        let pair = |a: Option<f64>, b: Option<f64>, of: Better| Some(of(a?, b?));
        Self {
            load_rows_per_second: pair(self.load_rows_per_second, other.load_rows_per_second, rate),
            cold_rows_per_second: pair(self.cold_rows_per_second, other.cold_rows_per_second, rate),
            cpu_us_per_row: pair(self.cpu_us_per_row, other.cpu_us_per_row, cost),
            update_rows_per_second: pair(
                self.update_rows_per_second,
                other.update_rows_per_second,
                rate,
            ),
            write_amplification: pair(self.write_amplification, other.write_amplification, cost),
            space_amplification: pair(self.space_amplification, other.space_amplification, cost),
        }
    }
}

/// How much better `stepwell` is than the better RocksDB; nothing where one was not measured.
pub(crate) fn factors(stepwell: Option<&Stepwell>, engines: &[Figures]) -> Option<Row> {
    let rocksdb = engines.iter().filter(|figures| figures.engine.is_rocksdb()).map(Row::of_engine);
    let best = rocksdb.reduce(|a, b| a.with(b, f64::max, f64::min))?;
    Some(Row::of_stepwell(stepwell?).with(best, |ours, theirs| ours / theirs, |o, t| t / o))
}

/// The table, with notes, the machine and what its disk gives under it.
pub(crate) fn table(report: &Report) -> String {
    let mut lines = vec![HEAD.map(str::to_owned), RULE.map(str::to_owned)];
    if let Some(stepwell) = &report.stepwell {
        lines.push(line("stepwell", &Row::of_stepwell(stepwell), [None, None], rate));
    }
    for figures in &report.engines {
        let cold = [1, 2].map(|threads| figures.cold.iter().find(|cold| cold.threads == threads));
        let cold = cold.map(|cold| cold.map(|cold| cold.rows_per_second));
        lines.push(line(figures.engine.name(), &Row::of_engine(figures), cold, rate));
    }
    if let Some(factors) = &report.factors {
        lines.push(line("ours, better than RocksDB by", factors, [None, None], factor));
    }
    let mut text = aligned(&lines);
    for figures in &report.engines {
        let notes = figures.notes.iter().map(|note| format!("; {note}")).collect::<String>();
        let bytes = figures.cold.iter().map(|cold| format!("{:.0}", cold.bytes_read_per_row));
        let bytes = bytes.collect::<Vec<_>>().join(" and ");
        let (name, setting) = (figures.engine.name(), figures.setting);
        text += &format!("\n{name}: {setting}; {bytes} bytes read a row{notes}");
    }
    let Machine { kernel, cores, load_average } = &report.machine;
    text += &format!("\nmachine: {cores} cores, Linux {kernel}, load {load_average} at the start");
    text + &disk(report)
}

/// What the disk gives without any store.
fn disk(report: &Report) -> String {
    let mut text = String::new();
    let stepwell = report.stepwell.as_ref();
    let raw = stepwell.map(|s| (s.raw_read_iops, s.raw_write_bytes_per_second));
    let fio = report.fio.map(|fio| (Some(fio.read_iops), Some(fio.write_bytes_per_second)));
    for (name, figures) in [("fio", fio), ("stepwell, raw", raw)] {
        let Some((iops, bytes)) = figures else { continue };
        let mib = bytes.map(|bytes| bytes / f64::from(1 << 20));
        text += &format!(
            "\ndisk by {name}: {} random reads of 4 KiB a second, {} MiB/s written in sequence",
            rate(iops),
            rate(mib)
        );
    }
    text
}

const COLUMNS: usize = 9;

const HEAD: [&str; COLUMNS] = [
    "engine",
    "load rows/s",
    "cold rows/s",
    "1 thread",
    "2 threads",
    "CPU µs/row",
    "update rows/s",
    "write amp.",
    "space amp.",
];

const RULE: [&str; COLUMNS] = ["---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:"];

fn line(
    name: &str,
    row: &Row,
    threads: [Option<f64>; 2],
    show: fn(Option<f64>) -> String,
) -> [String; COLUMNS] {
    let small = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    [
        name.to_owned(),
        show(row.load_rows_per_second),
        show(row.cold_rows_per_second),
        show(threads[0]),
        show(threads[1]),
        small(row.cpu_us_per_row),
        show(row.update_rows_per_second),
        small(row.write_amplification),
        small(row.space_amplification),
    ]
}

fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
}

fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// Cells as lines of a markdown table whose columns line up, figures to the right.
fn aligned(lines: &[[String; COLUMNS]]) -> String {
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text += &match column {
                0 => format!("| {cell:<width$} "),
                _ => format!("| {cell:>width$} "),
            };
        }
        text += "|\n";
    }
    text
}

#[cfg(test)]
mod tests;
