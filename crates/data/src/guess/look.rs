//! From values to what their column is.

use std::collections::{BTreeMap, BTreeSet};

use super::labels::label_of;
use super::sample::Sample;
use crate::layout::{Format, each_item};
use crate::moment::Moment;
use crate::record::Kind;

/// Texts that often stand for a missing value.
const MISSING: [&str; 10] = ["?", "NA", "N/A", "NULL", "null", "None", "nan", "NaN", "\\N", "-"];
/// Names of moments, which are no features as they are.
const TIMES: [&str; 6] = ["timestamp", "time", "date", "datetime", "event_time", "ts"];
/// Names of LibSVM up to which each may be a number of its own.
const NUMBERS_MAX: usize = 200;
/// Ids of a record that have no field.
const INDICES_MAX: usize = 256;
/// Words of names whose whole numbers name something.
const NAMING: [&str; 40] = [
    "id",
    "ids",
    "user",
    "item",
    "ad",
    "ads",
    "campaign",
    "creative",
    "cat",
    "category",
    "brand",
    "device",
    "site",
    "app",
    "page",
    "shop",
    "store",
    "product",
    "movie",
    "film",
    "song",
    "artist",
    "author",
    "city",
    "country",
    "region",
    "zip",
    "code",
    "group",
    "type",
    "kind",
    "class",
    "channel",
    "publisher",
    "advertiser",
    "customer",
    "member",
    "session",
    "query",
    "slot",
];
/// Distinct values that are counted.
const DISTINCT_MAX: usize = 10_000;
/// Distinct whole numbers up to which they are more likely names of something than amounts.
const FEW: usize = 12;

/// What a file probably holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// How records lie in it, where it has to be said.
    pub format: Format,
    /// Whether the first line of delimited text names the columns.
    pub header: Option<bool>,
    /// Whether spaces around fields are no part of them.
    pub trim: bool,
    /// Texts that stand for a missing value.
    pub missing: Vec<String>,
    /// Columns in the order of the file, with what was seen of each.
    pub columns: Vec<(String, Guessed, String)>,
    /// Records that were looked at.
    pub records: usize,
    /// Records that the whole file has at least, about.
    pub records_least: u64,
}

/// What a column probably is.
#[derive(Clone, Debug, PartialEq)]
pub enum Guessed {
    /// The label, with the texts that count as 1; none if it holds numbers from 0 to 1.
    Label(Vec<String>),
    /// A number of amounts that span orders of magnitude.
    Amount,
    /// A number with this mean and this deviation.
    Number(f64, f64),
    /// An id.
    Id,
    /// A list of ids, with what is between them, and how many there may be.
    Ids(String, usize),
    /// Nothing that matters.
    Ignored,
}

/// What was seen of a column.
pub(super) struct Seen {
    values: usize,
    missing: usize,
    pub(super) distinct: BTreeMap<String, usize>,
    pub(super) more: bool,
    numbers: usize,
    /// Dates and times.
    moments: usize,
    pub(super) whole: bool,
    /// Whether numbers are whole that may end in `.0`, as pandas writes whole ones where some are
    /// missing.
    whole_as_floats: bool,
    /// Mean of the numbers so far, and the sum of the squares of their distances from it.
    mean: f64,
    squares: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

pub(super) fn look(sample: &Sample) -> Guess {
    if sample.kind == Kind::LibSvm {
        return of_libsvm(sample);
    }
    let spaced = |values: &Vec<String>| {
        values.iter().take(100).filter(|value| value.starts_with(' ')).count() * 2
            > values.len().min(100)
    };
    let trim = sample.values.iter().any(spaced);
    let missing = missing_of(&sample.values);
    let seen: Vec<Seen> =
        sample.values.iter().map(|values| see(values, &missing, sample.records)).collect();
    let label = label_of(&sample.names, &seen);
    let columns = sample.names.iter().enumerate().map(|(at, name)| {
        let guessed = match &label {
            Some((label, positive)) if *label == at => Guessed::Label(positive.clone()),
            _ => kind_of(name, &seen[at], sample, at),
        };
        let hint = if guessed == Guessed::Id { list_hint(&sample.values[at]) } else { None };
        (name.clone(), guessed, said(&seen[at]) + hint.as_deref().unwrap_or_default())
    });
    Guess {
        format: Format::Auto,
        header: matches!(sample.kind, Kind::Delimited { .. }).then_some(sample.header),
        trim,
        missing,
        columns: columns.collect(),
        records: sample.records,
        records_least: sample.records_least,
    }
}

/// Names with numbers, and fields with ids; all other names are ids themselves.
fn of_libsvm(sample: &Sample) -> Guess {
    let column = |name: &str, guessed| (name.to_owned(), guessed, String::new());
    let mut columns = vec![column("label", Guessed::Label(Vec::new()))];
    let mut rest = false;
    for (at, name) in sample.names.iter().enumerate() {
        let values = &sample.values[at];
        let seen = see(values, &[], values.len());
        let all_one = seen.least >= 1.0 && seen.most <= 1.0;
        if sample.lists[at] {
            columns.push(column(name, Guessed::Ids("|".to_owned(), room(sample.longest[at]))));
        } else if all_one || sample.names.len() > NUMBERS_MAX {
            rest = true;
        } else {
            let guessed = kind_of("", &Seen { whole: false, ..seen }, sample, at);
            columns.push(column(name, guessed));
        }
    }
    if rest {
        columns.push(column("indices", Guessed::Ids("|".to_owned(), INDICES_MAX)));
    }
    Guess {
        format: Format::LibSvm,
        header: None,
        trim: false,
        missing: Vec::new(),
        columns,
        records: sample.records,
        records_least: sample.records_least,
    }
}

/// Texts that stand for a missing value in some column whose other values do not look like them.
fn missing_of(columns: &[Vec<String>]) -> Vec<String> {
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

    fn deviation(&self) -> f64 {
        (self.squares / self.values.max(1) as f64).max(0.0).sqrt()
    }

    /// Whether its values are dates or times, or its numbers seconds or milliseconds since 1970, of
    /// this century.
    fn is_time(&self) -> bool {
        if self.values > 0 && self.moments == self.values {
            return true;
        }
        let within = |unit: f64| self.least >= 9.4e8 * unit && self.most <= 4.2e9 * unit;
        let many = self.more || self.distinct.len() > FEW;
        self.is_number() && self.whole && many && (within(1.0) || within(1e3))
    }
}

pub(super) fn kind_of(name: &str, seen: &Seen, sample: &Sample, at: usize) -> Guessed {
    let (lower, records) = (name.to_ascii_lowercase(), sample.records);
    if sample.lists[at] {
        return Guessed::Ids("|".to_owned(), room(sample.longest[at]));
    }
    let is_time = TIMES.contains(&lower.as_str()) || (seen.is_time() && !names_something(name));
    if seen.values == 0 || is_time {
        return Guessed::Ignored;
    }
    // One value a record names the record, which tells nothing of the next one.
    let all_differ = seen.distinct.len() == seen.values && records >= 100 && !seen.more;
    if all_differ && (lower == "id" || !seen.is_number()) && seen.values == records {
        return Guessed::Ignored;
    }
    if !seen.is_number() {
        let values = &sample.values[at];
        let separator =
            if are_in_brackets(values) { Some("|".to_owned()) } else { separator_of(values) };
        let Some(separator) = separator else { return Guessed::Id };
        let longest = values.iter().map(|value| items_of(value, &separator)).max();
        return Guessed::Ids(separator, room(longest.unwrap_or(1)));
    }
    let is_named = names_something(name);
    let is_few = !seen.more && seen.distinct.len() <= FEW;
    // Few numbers that lie far apart name something.
    let is_sparse = seen.least > 1000.0
        && !seen.more
        && seen.most - seen.least > 1000.0 * seen.distinct.len() as f64;
    if (seen.whole && (is_few || is_sparse)) || (seen.whole_as_floats && is_named) {
        return Guessed::Id;
    }
    let spans = seen.least >= 0.0 && seen.most > 20.0 * (seen.mean + 1.0);
    if spans || seen.deviation() <= 0.0 {
        return Guessed::Amount;
    }
    Guessed::Number(rounded_beside(seen.mean, seen.deviation()), rounded(seen.deviation()))
}

/// Whether a name says that its numbers name something: one of its words does, such as the second
/// of `userId`, or it is that of a numbered category.
fn names_something(name: &str) -> bool {
    let mut words = vec![String::new()];
    let mut lower = false;
    for letter in name.chars() {
        let begins = !letter.is_ascii_alphabetic() || (letter.is_ascii_uppercase() && lower);
        if begins {
            words.push(String::new());
        }
        lower = letter.is_ascii_lowercase();
        if letter.is_ascii_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.iter().any(|word| NAMING.contains(&word.as_str()))
}

/// Ids that a list may have, of which so many were seen: longer ones may follow.
fn room(longest: usize) -> usize {
    (2 * longest).next_power_of_two().clamp(4, longest.max(1024))
}

/// A mean, as exact as it matters beside a deviation.
fn rounded_beside(mean: f64, deviation: f64) -> f64 {
    let digits = (3.0 - deviation.log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{mean:.digits$}").parse().unwrap_or(mean)
}

/// A number of four digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

/// Whether most values are lists in brackets, as Python writes them.
fn are_in_brackets(values: &[String]) -> bool {
    let looked = || values.iter().take(1000).map(|value| value.trim());
    let lists = looked().filter(|value| value.starts_with('[') && value.ends_with(']')).count();
    lists * 2 > looked().filter(|value| !value.is_empty()).count()
}

/// Items of a list.
fn items_of(value: &str, separator: &str) -> usize {
    let (value, mut items) = (value.as_bytes(), 0);
    let each = |_: &[u8], _, _| items += 1;
    // One within another is one item here, and refused where it is read.
    let Ok(()) = each_item((value, 0, value.len()), separator.as_bytes(), each) else { return 1 };
    items
}

/// What is between the ids of a list, where the values look like lists.
fn separator_of(values: &[String]) -> Option<String> {
    let looked: Vec<&str> = values
        .iter()
        .take(1000)
        .map(|value| value.trim())
        .filter(|value| !value.is_empty())
        .collect();
    ["|", ";"].into_iter().find_map(|separator| {
        let lists = looked.iter().filter(|value| value.contains(separator));
        (lists.count() * 4 > looked.len()).then(|| separator.to_owned())
    })
}

/// What to say of texts that may be lists by a separator that names have, too.
fn list_hint(values: &[String]) -> Option<String> {
    let looked = || values.iter().take(1000).filter(|value| !value.is_empty());
    let found = [",", "^"].into_iter().find(|separator| {
        looked().filter(|value| value.contains(separator)).count() * 4 > looked().count()
    })?;
    Some(format!("; if its texts are lists, type = \"ids\" and separator = \"{found}\""))
}

/// What was seen, in words.
fn said(seen: &Seen) -> String {
    let more = if seen.more { "more than " } else { "" };
    let mut text = format!("{more}{} distinct", seen.distinct.len());
    if seen.missing > 0 {
        text += &format!(", {} missing", seen.missing);
    }
    if seen.is_number() {
        text += &format!(", {} to {}", seen.least, seen.most);
    } else if let Some((value, _)) = seen.distinct.iter().max_by_key(|(_, times)| **times) {
        let value: String = value.chars().take(24).filter(|c| !c.is_control()).collect();
        text += &format!(", mostly {value}");
    }
    text
}
