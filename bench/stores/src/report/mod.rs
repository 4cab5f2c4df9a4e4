//! All figures of a run: as tables for people, as JSON for programs.
//!
//! - **How.** One table a phase. Reads are those of the engine's best way, and what its other ways
//!   gave stands under the table. In each figure ours is set against the best of the others,
//!   whichever that is: factors are turned so that above 1 is better for us, rates divided ours by
//!   theirs, costs theirs by ours.

use serde::Serialize;

use crate::engine::Engine;
use crate::fio::Fio;
use crate::meter::Machine;
use crate::options::Options;
use crate::phases::{Cost, Figures, Looked, Written};

/// All that a run measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// What was typed.
    pub(crate) command: Vec<String>,
    pub(crate) machine: Machine,
    pub(crate) options: Options,
    pub(crate) engines: Vec<Figures>,
    /// The disk before the engines and after them.
    pub(crate) disk: Vec<Fio>,
    pub(crate) factors: Vec<Factor>,
}

/// How much better ours is than the best of the others, in one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Factor {
    pub(crate) phase: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) factor: f64,
}

/// What an engine did in a phase, as far as it took part.
#[derive(Clone, Copy)]
struct Done<'a> {
    cost: &'a Cost,
    written: Option<&'a Written>,
}

/// A phase, by name.
struct Phase {
    name: &'static str,
    of: fn(&Figures) -> Option<Done<'_>>,
}

const PHASES: [Phase; 3] = [
    Phase { name: "load", of: |figures| Some(Done::writing(&figures.load)) },
    Phase { name: "cold reads", of: |figures| figures.best().map(Done::reading) },
    Phase { name: "update", of: |figures| figures.update.as_ref().map(Done::writing) },
];

impl<'a> Done<'a> {
    fn writing(written: &'a Written) -> Self {
        Self { cost: &written.cost, written: Some(written) }
    }

    fn reading(looked: &'a Looked) -> Self {
        Self { cost: &looked.cost, written: None }
    }
}

/// A figure of a phase.
struct Column {
    name: &'static str,
    of: fn(Done<'_>) -> Option<f64>,
    decimals: usize,
    more_is_better: bool,
}

const COLUMNS: [Column; 8] = [
    Column::new("rows/s", |done| Some(done.cost.rows_per_second), 0).rate(),
    Column::new("read, B/row", |done| Some(done.cost.bytes_read_per_row), 0),
    Column::new("written, B/row", |done| Some(done.cost.bytes_written_per_row), 0),
    Column::new("written/put", |done| Some(done.written?.write_amplification), 2),
    Column::new("space", |done| Some(done.written?.space_amplification), 2),
    Column::new("memory peak, MiB", |done| Some(mib(done.cost.memory_peak_bytes)), 0),
    Column::new("CPU, s", |done| Some(done.cost.cpu_seconds), 1),
    Column::new("CPU, us/row", |done| Some(done.cost.cpu_us_per_row), 2),
];

impl Column {
    const fn new(name: &'static str, of: fn(Done<'_>) -> Option<f64>, decimals: usize) -> Self {
        Self { name, of, decimals, more_is_better: false }
    }

    const fn rate(self) -> Self {
        Self { more_is_better: true, ..self }
    }

    /// The figure of an engine in a phase.
    fn figure(&self, phase: &Phase, figures: &Figures) -> Option<f64> {
        (phase.of)(figures).and_then(self.of)
    }

    /// How much better ours is than the best of the others; nothing where either is missing, or
    /// where a cost is nothing.
    fn factor(&self, phase: &Phase, engines: &[Figures]) -> Option<f64> {
        let is_ours = |figures: &&Figures| figures.engine == Engine::Stepwell;
        let ours = self.figure(phase, engines.iter().find(is_ours)?)?;
        let others = engines.iter().filter(|figures| !is_ours(figures));
        let others = others.filter_map(|figures| self.figure(phase, figures));
        let factor = match self.more_is_better {
            true => ours / others.reduce(f64::max)?,
            false => others.reduce(f64::min)? / ours,
        };
        factor.is_finite().then_some(factor)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// All factors of all phases.
pub(crate) fn factors(engines: &[Figures]) -> Vec<Factor> {
    let of_phase = |phase: &Phase| {
        let of_column = |column: &Column| {
            let factor = column.factor(phase, engines)?;
            Some(Factor { phase: phase.name, figure: column.name, factor })
        };
        COLUMNS.iter().filter_map(of_column).collect::<Vec<_>>()
    };
    PHASES.iter().flat_map(of_phase).collect()
}

/// The tables, with settings, the machine and what its disk gives under them.
pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    for phase in &PHASES {
        text += &format!("{}\n\n{}\n", phase.name, table(phase, &report.engines));
    }
    text += &ways(&report.engines);
    for figures in &report.engines {
        let notes = figures.notes.iter().map(|note| format!("; {note}")).collect::<String>();
        text += &format!("\n{}: {}{notes}", figures.engine.name(), figures.setting);
    }
    let Machine { processor, kernel, cores, load_average } = &report.machine;
    text += &format!("\nmachine: {cores} cores of {processor}, Linux {kernel}");
    text += &format!(", load {load_average} at the start");
    for (fio, when) in report.disk.iter().zip(["before", "after"]) {
        let (reads, bytes) = (fio.read_iops, fio.write_bytes_per_second / f64::from(1 << 20));
        text += &format!("\ndisk by fio, {when}: {reads:.0} random reads of 4 KiB a second, ");
        text += &format!("{bytes:.0} MiB/s written in sequence");
    }
    text
}

fn table(phase: &Phase, engines: &[Figures]) -> String {
    let head = ["engine"].into_iter().chain(COLUMNS.iter().map(|column| column.name));
    let rule = ["---"].into_iter().chain(COLUMNS.iter().map(|_| "--:"));
    let mut lines: Vec<Vec<String>> =
        vec![head.map(str::to_owned).collect(), rule.map(str::to_owned).collect()];
    for figures in engines {
        let cells = COLUMNS.iter().map(|column| {
            let figure = column.figure(phase, figures);
            shown(figure, column.decimals)
        });
        lines.push([figures.engine.name().to_owned()].into_iter().chain(cells).collect());
    }
    let factors: Vec<Option<f64>> =
        COLUMNS.iter().map(|column| column.factor(phase, engines)).collect();
    if factors.iter().any(Option::is_some) {
        let cells = factors.into_iter().map(|factor| shown(factor, 2));
        lines.push(["ours, times the best other".to_owned()].into_iter().chain(cells).collect());
    }
    aligned(&lines)
}

/// What each engine's ways of reading gave.
fn ways(engines: &[Figures]) -> String {
    let mut text = String::from("rows/s by threads, times batches of each in flight\n");
    for figures in engines {
        let ways = figures.cold.iter().map(|Looked { way, cost }| {
            let rate = cost.rows_per_second;
            format!("{} x {}: {rate:.0}", way.threads, way.in_flight)
        });
        let ways = ways.collect::<Vec<_>>().join(", ");
        text += &format!("\n{}: {ways}", figures.engine.name());
    }
    text + "\n"
}

fn shown(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Cells as lines of a markdown table whose columns line up, figures to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=COLUMNS.len()).map(width).collect();
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
