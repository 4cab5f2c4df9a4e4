//! Plots hit rate over size: one panel per trace, one line per policy.
//!
//! Why SVG: it is text, so no system fonts are needed; every browser displays it, and it scales.
//!
//! - **How.** Sizes are on a logarithmic axis, in slots divided by distinct keys, with a tick each.
//!   Lines end with their names, which are moved apart to avoid overlaps. The optimum is black and
//!   dashed; with bypass, it would have nearly the same line, and is omitted.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Contender, Figures, Row};
use crate::{Error, Result};

const WIDTH: u32 = 900;
const PANEL_HEIGHT: u32 = 520;
/// Space for the names next to the lines.
const NAMES_WIDTH: i32 = 110;
const NAME_HEIGHT: i32 = 19;
const FONT: &str = "sans-serif";

/// Colors that remain distinct under common color blindness (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(140, 86, 75),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Axes = Cartesian2d<Sizes, RangedCoordf64>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Axes>;

/// Draws the results of all traces in one picture; returns the contents of the file.
///
/// # Errors
/// Results that can't be drawn.
pub fn draw(figures: &[Figures]) -> Result<String> {
    let fail = |why: String| Error::Trace(format!("the picture: {why}"));
    let mut text = String::new();
    {
        let height = PANEL_HEIGHT * figures.len().max(1) as u32;
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let drawn = area.fill(&WHITE).map_err(|error| error.to_string()).and_then(|()| {
            let panels = area.split_evenly((figures.len().max(1), 1));
            panels.iter().zip(figures).try_for_each(|(panel, figures)| draw_panel(panel, figures))
        });
        drawn.and_then(|()| area.present().map_err(|error| error.to_string())).map_err(fail)?;
    }
    Ok(text)
}

/// Returns an error for names of other kinds of pictures.
///
/// # Errors
/// A name that doesn't end in `.svg`.
pub fn check_picture(path: &Path) -> Result<()> {
    if path.extension().is_some_and(|extension| extension == "svg") {
        return Ok(());
    }
    let why = "pictures are SVG: give a name that ends in .svg";
    Err(Error::Arguments(format!("{}: {why}", path.display())))
}

/// Sizes and hit rates of a row, by size.
fn points(figures: &Figures, row: &Row) -> Vec<(f64, f64)> {
    let part = |slots: &usize| (*slots as f64 / figures.keys as f64).log10();
    let mut points: Vec<_> =
        figures.slots.iter().map(part).zip(row.hit_rates.iter().copied()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// The rows that are drawn.
fn drawn(figures: &Figures) -> impl Iterator<Item = &Row> {
    figures.rows.iter().filter(|row| row.policy != Contender::OptimumWithBypass.name())
}

fn draw_panel(panel: &Area<'_>, figures: &Figures) -> std::result::Result<(), String> {
    let all: Vec<_> = drawn(figures).flat_map(|row| points(figures, row)).collect();
    let sizes = drawn(figures).next().map(|row| points(figures, row)).unwrap_or_default();
    let marks: Vec<f64> = sizes.into_iter().map(|(size, _)| size).collect();
    let least = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let (mut left, mut right) = (least(|p| p.0), most(|p| p.0));
    if right - left < 0.1 {
        (left, right) = (left - 0.5, right + 0.5);
    }
    let bottom = (least(|p| p.1) * 20.0).floor() / 20.0;
    let top = ((most(|p| p.1) * 20.0).ceil() / 20.0).max(bottom + 0.05);
    let name = figures.trace.file_name().unwrap_or_default().to_string_lossy();
    let caption = format!("{name}: {} look-ups, {} keys", figures.look_ups, figures.keys);
    let mut chart = ChartBuilder::on(panel)
        .caption(caption, (FONT, 25))
        .margin(15)
        .margin_right(NAMES_WIDTH)
        .x_label_area_size(45)
        .y_label_area_size(60)
        .build_cartesian_2d(Sizes { least: left, most: right, marks }, bottom..top)
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .x_desc("slots, in percent of the distinct keys")
        .y_desc("hit rate")
        .y_label_formatter(&|y| format!("{y:.2}"))
        .label_style((FONT, 18))
        .axis_desc_style((FONT, 19))
        .light_line_style(WHITE)
        .draw()
        .map_err(|error| error.to_string())?;
    draw_lines(panel, &mut chart, figures)
}

/// The axis of sizes: logarithmic, with a tick at each given size.
struct Sizes {
    least: f64,
    most: f64,
    marks: Vec<f64>,
}

impl Ranged for Sizes {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (left, right): (i32, i32)) -> i32 {
        let part = (value - self.least) / (self.most - self.least);
        left + (part * f64::from(right - left)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.least..self.most
    }
}

impl ValueFormatter<f64> for Sizes {
    /// In percent, with as many digits as necessary.
    fn format(value: &f64) -> String {
        let percent = 100.0 * 10f64.powf(*value);
        // A size in slots is slightly below the requested one.
        let digits = (0.99 - percent.log10()).ceil().clamp(0.0, 6.0) as usize;
        format!("{percent:.digits$}")
    }
}

fn style(index: usize, row: &Row) -> ShapeStyle {
    let optimum = row.policy == Contender::Optimum.name();
    let colour = if optimum { BLACK } else { COLOURS[index % COLOURS.len()] };
    colour.stroke_width(2)
}

fn draw_lines(
    panel: &Area<'_>,
    chart: &mut Chart<'_>,
    figures: &Figures,
) -> std::result::Result<(), String> {
    let mut ends = Vec::new();
    for (index, row) in drawn(figures).enumerate() {
        let (points, style) = (points(figures, row), style(index, row));
        if let Some(end) = points.last() {
            ends.push((chart.backend_coord(end), &row.policy, style));
        }
        let marks = points.clone().into_iter().map(|at| Circle::new(at, 3, style.filled()));
        chart.draw_series(marks).map_err(|error| error.to_string())?;
        if row.policy == Contender::Optimum.name() {
            let dashed = DashedLineSeries::new(points, 6, 4, style);
            chart.draw_series(dashed).map_err(|error| error.to_string())?;
            continue;
        }
        let line = LineSeries::new(points, style);
        chart.draw_series(line).map_err(|error| error.to_string())?;
    }
    draw_names(panel, ends)
}

/// Writes each line's name at its end, or as close below the previous name as possible.
fn draw_names(
    panel: &Area<'_>,
    mut ends: Vec<((i32, i32), &String, ShapeStyle)>,
) -> std::result::Result<(), String> {
    ends.sort_by_key(|(at, ..)| at.1);
    let (origin, height) = (panel.get_base_pixel(), panel.dim_in_pixel().1 as i32);
    let mut free_from = i32::MIN;
    for (at, ..) in &mut ends {
        *at = (at.0 - origin.0 + 8, (at.1 - origin.1).max(free_from));
        free_from = at.1 + NAME_HEIGHT;
    }
    let beyond = (free_from - height).max(0);
    for ((x, y), name, style) in ends {
        let text = (FONT, 18).into_font().color(&style.color);
        let text = text.pos(Pos::new(HPos::Left, VPos::Center));
        panel.draw_text(name, &text, (x, y - beyond)).map_err(|error| error.to_string())?;
    }
    Ok(())
}
