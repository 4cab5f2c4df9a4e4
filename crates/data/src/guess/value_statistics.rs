//! Statistics of the values of a column.

use std::collections::{BTreeMap, BTreeSet};

use crate::moment::Moment;

/// Texts that often mean a missing value.
pub(super) const MISSING: [&str; 10] =
    ["?", "NA", "N/A", "NULL", "null", "None", "nan", "NaN", "\\N", "-"];
/// Most distinct values to count.
const DISTINCT_MAX: usize = 10_000;
/// Integer columns with at most this many distinct values are more likely ids than amounts.
pub(super) const FEW: usize = 12;

/// Statistics of a column.
pub(super) struct Seen {
    pub(super) values: usize,
    missing: usize,
    pub(super) distinct: BTreeMap<String, usize>,
    pub(super) more: bool,
    numbers: usize,
    /// Number of dates and times.
    moments: usize,
    pub(super) whole: bool,
    /// Whether numbers are whole, possibly with `.0`, as pandas writes integers if some are
    /// missing.
    pub(super) whole_as_floats: bool,
    /// Mean of the numbers so far; `squares` is the sum of squared deviations from it.
    pub(super) mean: f64,
    squares: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// Texts that mean a missing value in a column with otherwise different values.
pub(super) fn missing_of(columns: &[Vec<String>]) -> Vec<String> {
    let found: BTreeSet<&str> = columns
        .iter()
        .flat_map(|values| values.iter())
        .map(|value| value.trim())
        .filter(|value| MISSING.contains(value))
        .collect();
    found.into_iter().map(str::to_owned).collect()
}

pub(super) fn see(values: &[String], missing: &[String], records: usize) -> Seen {
    let mut seen = Seen {
        values: 0,
        missing: records.saturating_sub(values.len()),
        distinct: BTreeMap::new(),
        more: false,
        numbers: 0,
        moments: 0,
        whole: true,
        whole_as_floats: true,
        mean: 0.0,
        squares: 0.0,
        least: f64::INFINITY,
        most: f64::NEG_INFINITY,
    };
    for value in values.iter().map(|value| value.trim()) {
        if value.is_empty() || missing.iter().any(|text| text == value) {
            seen.missing += 1;
            continue;
        }
        seen.values += 1;
        let room = seen.distinct.len() < DISTINCT_MAX;
        match seen.distinct.get_mut(value) {
            Some(times) => *times += 1,
            None if room => {
                seen.distinct.insert(value.to_owned(), 1);
            }
            None => seen.more = true,
        }
        seen.moments += usize::from(Moment::of_text(value.as_bytes()).is_some());
        let number =
            crate::number::number(value.as_bytes()).and_then(|_| value.parse::<f64>().ok());
        if let Some(number) = number {
            seen.numbers += 1;
            let is_whole = |value: &str| !value.contains(['.', 'e', 'E']);
            seen.whole &= is_whole(value);
            seen.whole_as_floats &= is_whole(value.strip_suffix(".0").unwrap_or(value));
            let distance = number - seen.mean;
            seen.mean += distance / seen.numbers as f64;
            seen.squares += distance * (number - seen.mean);
            (seen.least, seen.most) = (seen.least.min(number), seen.most.max(number));
        }
    }
    seen
}

impl Seen {
    pub(super) fn is_number(&self) -> bool {
        self.values > 0 && self.numbers == self.values
    }

    pub(super) fn deviation(&self) -> f64 {
        (self.squares / self.values.max(1) as f64).max(0.0).sqrt()
    }

    /// Whether the values are dates or times, or plausible seconds or milliseconds since 1970 in
    /// this century.
    pub(super) fn is_time(&self) -> bool {
        if self.values > 0 && self.moments == self.values {
            return true;
        }
        let within = |unit: f64| self.least >= 9.4e8 * unit && self.most <= 4.2e9 * unit;
        let many = self.more || self.distinct.len() > FEW;
        self.is_number() && self.whole && many && (within(1.0) || within(1e3))
    }
}

/// Description of the statistics.
pub(super) fn said(seen: &Seen) -> String {
    let more = if seen.more { "more than " } else { "" };
    let mut text = format!("{more}{} distinct", seen.distinct.len());
    if seen.missing > 0 {
        text += &format!(", {} missing", seen.missing);
    }
    if seen.is_number() {
        text += &format!(", {} to {}", seen.least, seen.most);
    } else if let Some((value, times)) = seen.distinct.iter().max_by_key(|(_, times)| **times) {
        let value: String = value.chars().take(24).filter(|c| !c.is_control()).collect();
        // If every value occurs once, none is the most frequent.
        if *times > 1 {
            text += &format!(", most often {value} ({times} of {})", seen.values);
        }
    }
    text
}
