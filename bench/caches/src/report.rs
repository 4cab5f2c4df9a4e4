//! All figures of a run: as a table for people, as JSON for programs.

use serde::Serialize;

use crate::machine::Machine;
use crate::measure::{Figures, Rates};
use crate::options::Options;

/// All that a run measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// What was typed.
    pub(crate) command: Vec<String>,
    pub(crate) machine: Machine,
    pub(crate) load_average_at_the_end: String,
    pub(crate) options: Options,
    /// Keys asked for in a pass.
    pub(crate) asked: u64,
    /// Rows put into every engine.
    pub(crate) rows: u64,
    pub(crate) engines: Vec<Figures>,
}

const COLUMNS: usize = 10;

const HEAD: [&str; COLUMNS] = [
    "engine",
    "1 thread, M/s",
    "over limit",
    "stepwell, times",
    "2 threads, M/s",
    "over limit",
    "stepwell, times",
    "hits",
    "bytes a row",
    "in huge pages",
];

const RULE: [&str; COLUMNS] =
    ["---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:"];

/// The table, with the limit, what was asked and the machine under it.
pub(crate) fn table(report: &Report) -> String {
    let mut lines = vec![HEAD.map(str::to_owned), RULE.map(str::to_owned)];
    lines.extend(report.engines.iter().map(line));
    let mut text = aligned(&lines);
    let Options { keys, skew, rounds, .. } = report.options;
    let (asked, rows) = (millions(report.asked as f64), millions(report.rows as f64));
    text += &format!(
        "\n{rows} M rows of 256 bytes, {} M keys, Zipf {skew}; {asked} M keys a pass, \
         {rounds} rounds",
        millions(keys as f64),
    );
    let range = |at: usize| {
        let limits = report.engines.iter().map(|figures| figures.limit_per_second[at]);
        let (least, most) = (limits.clone().fold(f64::MAX, f64::min), limits.fold(0.0, f64::max));
        format!("{} to {} M/s", millions(least), millions(most))
    };
    text += &format!("\nlimit: {} with 1 thread, {} with 2 threads", range(0), range(1));
    let Machine { cpu, cores, kernel, load_average } = &report.machine;
    text + &format!(
        "\nmachine: {cores} cores of {cpu}, Linux {kernel}, load {load_average} at the start, {} \
         at the end",
        report.load_average_at_the_end,
    )
}

/// An engine's figures in a line, for who does not want to wait for the table.
pub(crate) fn in_short(figures: &Figures) -> String {
    let [name, one, one_over, _, two, two_over, ..] = line(figures);
    format!("{name}: {one} and {two} M rows/s, {one_over} and {two_over} of the limit")
}

fn millions(value: f64) -> String {
    format!("{:.2}", value / 1e6)
}

fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

fn line(figures: &Figures) -> [String; COLUMNS] {
    let rates = |at: usize| -> [String; 3] {
        let of = |rates: &Rates| rates[at];
        [
            millions(of(&figures.lookups_per_second)),
            percent(of(&figures.over_limit)),
            format!("{:.2}", of(&figures.stepwell_over)),
        ]
    };
    let ([one, one_over, one_times], [two, two_over, two_times]) = (rates(0), rates(1));
    let absent = || "-".to_owned();
    let bytes = figures.bytes_per_row.map_or_else(absent, |bytes| format!("{bytes:.0}"));
    let name = figures.engine.to_owned();
    let (hits, huge) =
        (percent(figures.hit_share), figures.huge_share.map_or_else(absent, percent));
    [name, one, one_over, one_times, two, two_over, two_times, hits, bytes, huge]
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
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_table_has_a_line_an_engine_and_the_range_of_the_limit() {
        let figures = |engine, limit: f64| Figures {
            engine,
            lookups_per_second: [1.5e6, 2.5e6],
            over_limit: [0.25, 0.125],
            stepwell_over: [4.0, 5.5],
            limit_per_second: [limit, limit],
            hit_share: 0.888,
            bytes_per_row: Some(300.4),
            huge_share: None,
        };
        let report = Report {
            command: vec!["caches".to_owned()],
            machine: Machine::here(),
            load_average_at_the_end: "0.5".to_owned(),
            options: Options::parse_from(["caches"]),
            asked: 9_000_000,
            rows: 16_000_000,
            engines: vec![figures("one", 1e7), figures("another", 3e7)],
        };
        let text = table(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].starts_with("| one     |"), "{text}");
        assert!(lines[3].ends_with("300 |             - |"), "{text}");
        assert!(lines[3].contains("1.50 |     25.0 % |"), "{text}");
        assert!(lines[..4].iter().all(|line| line.len() == lines[0].len()), "{text}");
        assert!(text.contains("limit: 10.00 to 30.00 M/s with 1 thread"), "{text}");
        let short = "one: 1.50 and 2.50 M rows/s, 25.0 % and 12.5 % of the limit";
        assert_eq!(in_short(&report.engines[0]), short);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["engines"][1]["lookups_per_second"][1], 2.5e6);
        assert_eq!(json["engines"][0]["bytes_per_row"], 300.4);
    }
}
