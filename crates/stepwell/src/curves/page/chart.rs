//! Lines over an axis, as SVG.
//!
//! ```text
//!   TOP ┌──────────────────────┐
//!       │ y  ───────────────── │   grid lines at round values, their names to the left
//!       │                      │
//!       └──────────────────────┘   names of x below
//!    LEFT                   RIGHT
//! ```

use std::fmt::Write;

use super::escape::text;

pub(super) const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 230.0;
pub(super) const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 36.0;
/// Approximate number of grid lines.
const TICKS: f64 = 5.0;

/// A line, or separate dots.
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) dots: bool,
}

/// Formats the numbers of an axis.
pub(super) type Format = fn(f64) -> String;

/// A picture of lines over one axis.
pub(super) struct Chart {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) x: (&'static str, Format),
    pub(super) y: Format,
    /// Range that the y axis includes in any case.
    pub(super) least_range: Option<(f64, f64)>,
    /// Number of the first line's colour.
    pub(super) colour: usize,
    pub(super) series: Vec<Series>,
}

impl Chart {
    /// Draws the chart with its legend.
    pub(super) fn draw(&self) -> String {
        let (x, y) = (
            self.range(|point| point.0, Some((0.0, 0.0))),
            self.range(|point| point.1, self.least_range),
        );
        let mut out = format!(
            "<figure id=\"{}\"><figcaption><b>{}</b>{}</figcaption>\n",
            self.id,
            text(self.title),
            self.legend()
        );
        let (Some(x), Some(y)) = (x, y) else {
            return out + "<p class=\"none\">nothing measured yet</p></figure>\n";
        };
        let y = padded(y, self.least_range);
        let plot = Plot { x, y };
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" class=\"plot\" \
             data-frame=\"{LEFT} {TOP} {} {}\" data-x=\"{} {}\" data-y=\"{} {}\">",
            text(self.title),
            WIDTH - RIGHT,
            HEIGHT - BOTTOM,
            x.0,
            x.1,
            y.0,
            y.1
        );
        self.put_axes(&mut out, &plot);
        for (number, series) in self.series.iter().enumerate() {
            put_series(&mut out, series, self.colour + number, &plot);
        }
        out + "</svg></figure>\n"
    }

    /// The range of a coordinate over all lines; `None` if it has no finite value.
    fn range(&self, of: fn(&(f64, f64)) -> f64, least: Option<(f64, f64)>) -> Option<(f64, f64)> {
        let values = self.series.iter().flat_map(|series| series.points.iter().map(of));
        let mut values = values.filter(|value| value.is_finite()).peekable();
        values.peek()?;
        let begin = least.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        Some(values.fold(begin, |(low, high), value| (low.min(value), high.max(value))))
    }

    fn legend(&self) -> String {
        self.series.iter().enumerate().fold(String::new(), |mut all, (number, series)| {
            let last = series.points.last().map(|(_, y)| (self.y)(*y)).unwrap_or_default();
            let colour = self.colour + number;
            let kind = if series.dots { "dot" } else { "bar" };
            let _ = write!(
                all,
                " <span class=\"key\"><i class=\"{kind} k{colour}\"></i>{} <b>{}</b></span>",
                text(series.name),
                text(&last)
            );
            all
        })
    }

    fn put_axes(&self, out: &mut String, plot: &Plot) {
        for value in ticks(plot.y) {
            let y = plot.y(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text \
                 class=\"left\" x=\"{}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 3.5,
                text(&(self.y)(value))
            );
        }
        for value in ticks(plot.x) {
            let _ = write!(
                out,
                "<text class=\"under\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                plot.x(value),
                HEIGHT - BOTTOM + 15.0,
                text(&(self.x.1)(value))
            );
        }
        let _ = write!(
            out,
            "<text class=\"under name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 4.0,
            text(self.x.0)
        );
    }
}

/// Maps values to coordinates of the picture.
struct Plot {
    x: (f64, f64),
    y: (f64, f64),
}

impl Plot {
    fn x(&self, value: f64) -> f64 {
        LEFT + part(value, self.x) * (WIDTH - RIGHT - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - part(value, self.y) * (HEIGHT - BOTTOM - TOP)
    }
}

/// Position of `value` in a range, from 0 to 1.
fn part(value: f64, (low, high): (f64, f64)) -> f64 {
    if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
}

/// Extends a range a little, except at an end that equals the least range's.
fn padded((low, high): (f64, f64), least: Option<(f64, f64)>) -> (f64, f64) {
    let room = if high > low { (high - low) * 0.06 } else { (high.abs() * 0.05).max(1e-9) };
    let stays = |at: f64, end: fn((f64, f64)) -> f64| least.is_some_and(|least| end(least) == at);
    (
        if stays(low, |least| least.0) { low } else { low - room },
        if stays(high, |least| least.1) { high } else { high + room },
    )
}

/// A few round values in a range.
fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let span = high - low;
    if span.is_nan() || span <= 0.0 || !span.is_finite() {
        return vec![low];
    }
    let rough = span / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|by| by * power).find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let first = (low / step).ceil();
    let values = (0..16).map(|number| (first + f64::from(number)) * step);
    values.take_while(|value| *value <= high + step * 1e-9).collect()
}

fn put_series(out: &mut String, series: &Series, colour: usize, plot: &Plot) {
    let points = series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let places = points.map(|(x, y)| (plot.x(*x), plot.y(*y)));
    let name = text(series.name);
    let _ = write!(out, "<g class=\"series c{colour}\" data-name=\"{name}\">");
    if series.dots {
        for (x, y) in places {
            let _ = write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
        }
    } else {
        let places: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(out, "<polyline points=\"{}\"/>", places.join(" "));
    }
    out.push_str("</g>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_few_and_within() {
        for (range, expected) in [
            ((0.0, 1.0), vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            ((0.452, 0.549), vec![0.46, 0.48, 0.5, 0.52, 0.54]),
            ((0.0, 2_500_000.0), vec![0.0, 5e5, 1e6, 1.5e6, 2e6, 2.5e6]),
            ((-1.0, 1.0), vec![-1.0, -0.5, 0.0, 0.5, 1.0]),
            ((7.0, 7.0), vec![7.0]),
        ] {
            let found = ticks(range);
            assert_eq!(found.len(), expected.len(), "{range:?}: {found:?}");
            let near =
                found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9 * b.abs().max(1.0));
            assert!(near, "{range:?}: {found:?}");
        }
        for range in [(f64::NAN, 1.0), (0.0, f64::INFINITY), (1e-300, 2e-300), (0.0, 1e300)] {
            assert!(ticks(range).len() <= 16, "{range:?}");
        }
    }

    #[test]
    fn what_is_no_number_is_not_drawn() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, 2.0)];
        let chart = Chart {
            id: "loss",
            title: "a < b",
            x: ("examples", |x| format!("{x}")),
            y: |y| format!("{y:.2}"),
            least_range: None,
            colour: 1,
            series: vec![Series { name: "training", points, dots: false }],
        };
        let drawn = chart.draw();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert!(drawn.contains("a &lt; b") && !drawn.contains("a < b"), "{drawn}");
        let points = drawn.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.split(' ').count(), 2, "{points}");
        let empty = Chart { series: Vec::new(), ..chart };
        assert!(empty.draw().contains("nothing measured yet"));
    }
}
