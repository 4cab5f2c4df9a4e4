//! Distributions as bar charts, in text and as SVG.

use std::io::IsTerminal;

use plotters::prelude::*;
use serde_json::Value;

use crate::say::{Page, put};

/// Columns of the longest bar.
const WIDTH: u64 = 40;
/// Eighths of a column that a terminal draws, from none to seven.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Adds a distribution, given as JSON, with its quantiles.
pub(crate) fn put_bars(page: &mut Page, title: &str, distribution: &Value) {
    let number = |field: &str| distribution[field].as_f64().unwrap_or(f64::NAN);
    put!(
        page,
        "  {title}: least {}, mean {}, most {}",
        short(number("least")),
        short(number("mean")),
        short(number("most"))
    );
    let quantiles = distribution["quantiles"].as_object().into_iter().flatten();
    let mut quantiles: Vec<(f64, String)> = quantiles
        .filter_map(|(name, value)| {
            let part = name.strip_prefix('p')?.parse().ok()?;
            Some((part, format!("{name} {}", short(value.as_f64()?))))
        })
        .collect();
    quantiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    let quantiles: Vec<String> = quantiles.into_iter().map(|(_, text)| text).collect();
    put!(page, "    {}", quantiles.join("  "));
    if distribution["not_finite"] != 0 {
        put!(page, "    NOT FINITE: {}", distribution["not_finite"]);
    }
    let blocks = std::io::stdout().is_terminal();
    let bars = bars_of(distribution);
    let most = bars.iter().map(|bar| bar.1).max().unwrap_or(0).max(1);
    for (label, count) in bars {
        put!(page, "    {label:>19} {count:>10} {}", bar(count, most, blocks));
    }
}

/// Labels and counts of the bars of a distribution.
fn bars_of(distribution: &Value) -> Vec<(String, u64)> {
    let bars = distribution["bars"].as_array().into_iter().flatten();
    bars.map(|bar| {
        let edge = |field: &str| bar[field].as_f64().unwrap_or(f64::NAN);
        let (from, to) = (edge("from"), edge("to"));
        let label = match from == to {
            true => short(from),
            false => format!("{} to {}", short(from), short(to)),
        };
        (label, bar["count"].as_u64().unwrap_or(0))
    })
    .collect()
}

/// Formats a figure with few digits.
fn short(figure: f64) -> String {
    let size = figure.abs();
    if figure == 0.0 || (figure.fract() == 0.0 && size < 1e7) {
        format!("{figure:.0}")
    } else if (1e-3..1e6).contains(&size) {
        let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
        format!("{figure:.digits$}")
    } else {
        format!("{figure:.2e}")
    }
}

/// Formats a figure in at most six characters, so that there is room for one below every bar.
fn narrow(figure: f64) -> String {
    let text = short(figure);
    if text.len() > 6 { format!("{figure:.0e}") } else { text }
}

/// A bar, with a resolution of eighths of a column if the terminal has `blocks`. Rounds up, so that
/// only a count of 0 is empty.
fn bar(count: u64, most: u64, blocks: bool) -> String {
    let eighths = (u128::from(count) * u128::from(WIDTH) * 8).div_ceil(u128::from(most)) as usize;
    match blocks {
        true => "█".repeat(eighths / 8) + EIGHTHS[eighths % 8],
        false => "#".repeat(eighths.div_ceil(8)),
    }
}

/// Width and height of the picture of one distribution, in pixels.
const PICTURE: (u32, u32) = (900, 300);

/// Draws distributions, given as titles and JSON, below each other.
///
/// # Errors
/// The drawing library fails.
pub(crate) fn draw(distributions: &[(String, &Value)]) -> Result<String, String> {
    let mut svg = String::new();
    let rows = distributions.len().max(1);
    {
        let size = (PICTURE.0, PICTURE.1 * rows as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let fail = |error: &dyn std::fmt::Display| format!("cannot draw: {error}");
        area.fill(&WHITE).map_err(|error| fail(&error))?;
        let parts = area.split_evenly((rows, 1));
        for (part, (title, distribution)) in parts.iter().zip(distributions) {
            draw_one(part, title, distribution).map_err(|error| fail(&error))?;
        }
        area.present().map_err(|error| fail(&error))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_one(area: &Area<'_>, title: &str, distribution: &Value) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let bars = bars_of(distribution);
    let edges = distribution["bars"].as_array().into_iter().flatten();
    let edges: Vec<f64> = edges.filter_map(|bar| bar["from"].as_f64()).collect();
    let most = bars.iter().map(|bar| bar.1).max().unwrap_or(0).max(1);
    let quantile =
        |name: &str| distribution["quantiles"][name].as_f64().map_or_else(|| "-".to_owned(), short);
    let caption = format!(
        "{title}: p10 {}, p50 {}, p90 {}, p99 {}",
        quantile("p10"),
        quantile("p50"),
        quantile("p90"),
        quantile("p99")
    );
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..bars.len().max(1) as f64, 0.0..most as f64 * 1.05)
        .map_err(|error| said(&error))?;
    let label = |at: &f64| {
        let bar = (at.fract() == 0.0 && *at >= 0.0).then(|| edges.get(*at as usize)).flatten();
        bar.map(|edge| narrow(*edge)).unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .x_labels(bars.len() + 1)
        .x_label_formatter(&label)
        .y_label_formatter(&|rows| format!("{rows:.0}"))
        .x_desc("from")
        .y_desc("rows")
        .draw()
        .map_err(|error| said(&error))?;
    let shapes = bars.iter().enumerate().map(|(at, (_, count))| {
        let corners = [(at as f64 + 0.05, 0.0), (at as f64 + 0.95, *count as f64)];
        Rectangle::new(corners, BLUE.mix(0.6).filled())
    });
    chart.draw_series(shapes).map_err(|error| said(&error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_counts() {
        assert_eq!(bar(0, 80, true), "");
        assert_eq!(bar(80, 80, true).chars().count(), 40);
        assert_eq!(bar(1, 80, true), "▌");
        assert_eq!(bar(1, 1_000_000, true), "▏");
        assert_eq!(bar(1, 1_000_000, false), "#");
        assert_eq!(bar(80, 80, false), "#".repeat(40));
        assert_eq!(bar(u64::MAX, u64::MAX, false), "#".repeat(40));
    }

    #[test]
    fn figures_are_short() {
        let figures = [0.0, 7.0, 0.012_345, 1.5, 123.456, 1e-9, 2.5e12];
        let texts = figures.map(short);
        assert_eq!([0.0625, 0.007_812_5, 65_536.0].map(narrow), ["6e-2", "8e-3", "65536"]);
        assert_eq!(texts, ["0", "7", "0.01235", "1.500", "123.5", "1.00e-9", "2.50e12"]);
    }
}
