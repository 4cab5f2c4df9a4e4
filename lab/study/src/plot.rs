//! Plots lines over axes as SVG.

use plotters::coord::Shift;
use plotters::prelude::*;

/// Width and height of one plot, in pixels.
const PLOT: (u32, u32) = (640, 400);

/// One plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// Labels of the axes.
    pub axes: [&'static str; 2],
    /// Lines: a name and points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// Draws plots below each other, as SVG.
///
/// # Errors
/// The plotting library fails.
pub fn draw(plots: &[Plot]) -> Result<String, String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let mut svg = String::new();
    {
        let rows = plots.len().max(1);
        let size = (PLOT.0, PLOT.1 * rows as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(|error| said(&error))?;
        for (part, plot) in area.split_evenly((rows, 1)).iter().zip(plots) {
            draw_one(part, plot).map_err(|error| said(&error))?;
        }
        area.present().map_err(|error| said(&error))?;
    }
    Ok(svg)
}

type Fallible = Result<(), Box<dyn std::error::Error>>;

fn draw_one(area: &DrawingArea<SVGBackend<'_>, Shift>, plot: &Plot) -> Fallible {
    let points = || plot.lines.iter().flat_map(|(_, points)| points).copied();
    let (xs, ys) = (range(points().map(|point| point.0)), range(points().map(|point| point.1)));
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(xs, ys)?;
    chart.configure_mesh().x_desc(plot.axes[0]).y_desc(plot.axes[1]).draw()?;
    for (place, (name, points)) in plot.lines.iter().enumerate() {
        let style = Palette99::pick(place).stroke_width(2);
        let line = LineSeries::new(points.iter().copied(), style);
        let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], style);
        chart.draw_series(line)?.label(name.as_str()).legend(legend);
    }
    let labels = chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw();
    labels.map_err(Into::into)
}

/// Range of the finite values, with a small margin.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let finite = values.filter(|value| value.is_finite());
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    let (least, most) = finite.fold(none, |(least, most), v| (least.min(v), most.max(v)));
    if least > most {
        return 0.0..1.0;
    }
    let room = ((most - least) * 0.03).max(1e-9);
    least - room..most + room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_whatever_their_points() {
        let line = |points| vec![("line <1>".to_owned(), points)];
        for points in [vec![], vec![(0.0, 1.0)], vec![(0.0, f64::NAN), (1.0, 2.0), (2.0, 1e300)]] {
            let plot = Plot { title: "a & b".to_owned(), axes: ["x", "y"], lines: line(points) };
            let svg = draw(&[plot.clone(), plot]).unwrap();
            assert!(svg.contains("a &amp; b") && svg.contains("line &lt;1&gt;"));
        }
    }
}
