//! Distributions of rows' figures, in bounded memory.
//!
//! - **How.** A figure is counted by its first bits: its power of two, divided into 32 parts. Whole
//!   numbers below 64 have their own places, so that their quantiles are exact; other quantiles are
//!   at most 3 % too small.
//! - **Bounds.** A count for each place that occurs: at most 65,536, for any number of figures.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Bits of a place within its power of two.
const PLACE_BITS: u32 = 5;
/// Bits of an f64 below the bits of its place.
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - PLACE_BITS;
/// Most bars of a picture.
const BARS_MAX: usize = 24;
/// Names and ranks of the reported quantiles.
const QUANTILES: [(&str, f64); 7] = [
    ("p1", 0.01),
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
];

/// A distribution of figures; negative ones count as 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distribution {
    places: BTreeMap<u64, u64>,
    count: u64,
    /// Number of figures that are not finite.
    others: u64,
    sum: f64,
    least: f64,
    most: f64,
}

/// Figures of neighbouring powers of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bar {
    /// Inclusive lower bound.
    pub(crate) from: f64,
    /// Exclusive upper bound; 0 for the bar of zeros.
    pub(crate) to: f64,
    pub(crate) count: u64,
}

impl Distribution {
    /// Counts a figure.
    pub(crate) fn add(&mut self, figure: f64) {
        if !figure.is_finite() {
            self.others += 1;
            return;
        }
        let figure = figure.max(0.0);
        *self.places.entry(figure.to_bits() >> SHIFT).or_default() += 1;
        (self.least, self.most) = match self.count {
            0 => (figure, figure),
            _ => (self.least.min(figure), self.most.max(figure)),
        };
        self.count += 1;
        self.sum += figure;
    }

    /// The quantile for a part of all figures; 0 if there are none.
    fn quantile(&self, part: f64) -> f64 {
        let wanted = ((part * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let place = self.places.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        place.map_or(0.0, |(place, _)| start(*place).clamp(self.least, self.most))
    }

    /// Counts by one or several powers of two, at most [`BARS_MAX`] and one for zeros.
    pub(crate) fn bars(&self) -> Vec<Bar> {
        let positive = self.places.iter().filter(|(place, _)| **place > 0);
        let powers = positive.clone().map(|(place, count)| (place >> PLACE_BITS, *count));
        let bound = |of: Option<u64>| of.unwrap_or(0);
        let first = bound(powers.clone().map(|(power, _)| power).min());
        let last = bound(powers.clone().map(|(power, _)| power).max());
        let together = ((last - first) / BARS_MAX as u64 + 1).next_power_of_two();
        let zeros = self.places.get(&0).copied().unwrap_or(0);
        let mut bars = Vec::new();
        if zeros > 0 {
            bars.push(Bar { from: 0.0, to: 0.0, count: zeros });
        }
        if positive.clone().next().is_some() {
            let edge = |number: u64| start((first + number * together) << PLACE_BITS);
            let number = (last - first) / together + 1;
            let from = bars.len();
            bars.extend((0..number).map(|n| Bar { from: edge(n), to: edge(n + 1), count: 0 }));
            for (power, count) in powers {
                bars[from + ((power - first) / together) as usize].count += count;
            }
        }
        bars
    }

    /// The whole distribution.
    pub(crate) fn to_json(&self) -> Value {
        let quantiles =
            QUANTILES.iter().map(|(name, part)| ((*name).to_owned(), self.quantile(*part).into()));
        let quantiles: serde_json::Map<String, Value> = quantiles.collect();
        let bars = self.bars().into_iter();
        let bars =
            bars.map(|Bar { from, to, count }| json!({ "from": from, "to": to, "count": count }));
        json!({
            "count": self.count,
            "not_finite": self.others,
            "least": self.least,
            "mean": if self.count > 0 { self.sum / self.count as f64 } else { 0.0 },
            "most": self.most,
            "quantiles": quantiles,
            "bars": bars.collect::<Vec<Value>>(),
        })
    }
}

/// The least figure of a place.
fn start(place: u64) -> f64 {
    f64::from_bits(place << SHIFT)
}

/// The items with the greatest figures.
pub(crate) struct Top<T> {
    most: usize,
    items: Vec<(f64, T)>,
}

impl<T: Ord> Top<T> {
    /// Keeps at most `most` items.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, items: Vec::new() }
    }

    /// Offers an item.
    pub(crate) fn offer(&mut self, figure: f64, item: T) {
        if self.most == 0 {
            return;
        }
        self.items.push((figure, item));
        if self.items.len() / 4 >= self.most {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.items.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        self.items.truncate(self.most);
    }

    /// The items with their figures, the greatest first.
    pub(crate) fn into_items(mut self) -> Vec<(f64, T)> {
        self.sort();
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(figures: impl IntoIterator<Item = f64>) -> Distribution {
        let mut distribution = Distribution::default();
        figures.into_iter().for_each(|figure| distribution.add(figure));
        distribution
    }

    #[test]
    fn quantiles_of_small_whole_numbers_are_exact() {
        let figures = of((0..64).map(f64::from));
        for (part, expected) in [(0.01, 0.0), (0.25, 15.0), (0.5, 31.0), (0.99, 63.0), (1.0, 63.0)]
        {
            assert_eq!(figures.quantile(part), expected, "{part}");
        }
        assert_eq!(of([]).quantile(0.5), 0.0);
        assert_eq!(of([0.3]).quantile(0.5), 0.3);
    }

    #[test]
    fn quantiles_of_others_are_little_too_small() {
        let figures: Vec<f64> =
            (1..10_000).map(|number| f64::from(number).powi(3) * 1e-9).collect();
        let distribution = of(figures.iter().copied());
        for part in [0.01, 0.1, 0.5, 0.9, 0.99] {
            let exact = figures[(part * figures.len() as f64).ceil() as usize - 1];
            let found = distribution.quantile(part);
            assert!(found <= exact && found >= exact * (1.0 - 1.0 / 32.0), "{part}: {found}");
        }
    }

    #[test]
    fn bars_count_every_figure_and_are_few() {
        let far = [0.0, 0.0, 1e-300, 1.0, 1.9, 2.0, 1e300, f64::NAN, f64::INFINITY];
        let distribution = of(far);
        let bars = distribution.bars();
        assert!(bars.len() <= BARS_MAX + 1, "{}", bars.len());
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 7);
        assert_eq!(distribution.to_json()["not_finite"], 2);
        let near = of([1.0, 1.9, 2.0, 7.0]).bars();
        let bar = |from, to, count| Bar { from, to, count };
        assert_eq!(near, [bar(1.0, 2.0, 2), bar(2.0, 4.0, 1), bar(4.0, 8.0, 1)]);
        assert_eq!(of([]).bars(), []);
        assert_eq!(of([0.0]).bars(), [bar(0.0, 0.0, 1)]);
    }

    #[test]
    fn the_greatest_come_first_and_ties_by_item() {
        let mut top = Top::new(3);
        (0..100u64).for_each(|item| top.offer((item / 2) as f64, item));
        assert_eq!(top.into_items(), [(49.0, 98), (49.0, 99), (48.0, 96)]);
        let mut none = Top::new(0);
        none.offer(1.0, 1);
        assert_eq!(none.into_items(), []);
    }
}
