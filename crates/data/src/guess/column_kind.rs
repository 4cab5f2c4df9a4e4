//! Guesses the kind of a column from its values.

use super::guessed::{Guess, Guessed, GuessedColumn};
use super::labels::{counts_hint, label_of};
use super::lists::{MARK, are_valued, list_hint, list_of, room};
use super::sample::Sample;
use super::value_statistics::{FEW, Seen, missing_of, said, see};
use crate::head::Kind;
use crate::layout::Format;

/// Names of moments, which aren't useful as features unchanged.
const TIMES: [&str; 6] = ["timestamp", "time", "date", "datetime", "event_time", "ts"];
/// LibSVM files with at most this many names may have one number feature per name.
const NUMBERS_MAX: usize = 200;
/// Most ids per record in LibSVM files without fields.
const INDICES_MAX: usize = 256;
/// Words in the names of columns whose integers are ids.
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
        let kind = match &label {
            Some((label, positive)) if *label == at => Guessed::Label(positive.clone()),
            _ => kind_of(name, &seen[at], sample, at),
        };
        let lists = || list_hint(&sample.values[at]).filter(|_| kind == Guessed::Id);
        let hint = counts_hint(&sample.names, &seen, at).or_else(lists);
        let note = said(&seen[at]) + hint.as_deref().unwrap_or_default();
        GuessedColumn { name: name.clone(), kind, note }
    });
    Guess {
        format: Format::Auto,
        header: matches!(sample.kind, Kind::Delimited { .. }).then_some(sample.header),
        trim,
        missing,
        columns: columns.collect(),
        records: sample.records,
        records_least: sample.records_least,
        misfits: sample.misfits,
    }
}

/// Columns of a LibSVM file: names with numbers, or fields with ids; any other names are ids
/// themselves.
fn of_libsvm(sample: &Sample) -> Guess {
    let column =
        |name: &str, kind| GuessedColumn { name: name.to_owned(), kind, note: String::new() };
    let mut columns = vec![column("label", Guessed::Label(Vec::new()))];
    let mut rest = false;
    for (at, name) in sample.names.iter().enumerate() {
        let values = &sample.values[at];
        let mut seen = see(values, &[], values.len());
        let all_one = seen.least >= 1.0 && seen.most <= 1.0;
        if sample.lists[at] {
            columns.push(column(name, Guessed::Ids("|".to_owned(), room(sample.longest[at]))));
        } else if all_one || sample.names.len() > NUMBERS_MAX {
            rest = true;
        } else {
            seen.whole = false;
            columns.push(column(name, kind_of("", &seen, sample, at)));
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
        misfits: sample.misfits,
    }
}

pub(super) fn kind_of(name: &str, seen: &Seen, sample: &Sample, at: usize) -> Guessed {
    let (lower, records) = (name.to_ascii_lowercase(), sample.records);
    if sample.lists[at] {
        let (separator, ids) = ("|".to_owned(), room(sample.longest[at]));
        return match are_valued(sample.values[at].iter().map(|item| item.trim())) {
            true => Guessed::Valued { separator, ids, mark: MARK.to_owned() },
            false => Guessed::Ids(separator, ids),
        };
    }
    let is_time = TIMES.contains(&lower.as_str()) || (seen.is_time() && !names_something(name));
    if seen.values == 0 || is_time {
        return Guessed::Ignored;
    }
    // A value unique to each record identifies it, and predicts nothing for other records.
    let all_differ = seen.distinct.len() == seen.values && records >= 100 && !seen.more;
    if all_differ && (lower == "id" || !seen.is_number()) && seen.values == records {
        return Guessed::Ignored;
    }
    if !seen.is_number() {
        return list_of(&sample.values[at]).unwrap_or(Guessed::Id);
    }
    let is_named = names_something(name);
    let is_few = !seen.more && seen.distinct.len() <= FEW;
    // Few numbers, far apart, are ids.
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

/// Whether a name indicates an id column: one of its words does, such as the second of `userId`, or
/// it is a numbered category.
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

/// Rounds a mean relative to the deviation.
fn rounded_beside(mean: f64, deviation: f64) -> f64 {
    let digits = (3.0 - deviation.log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{mean:.digits$}").parse().unwrap_or(mean)
}

/// Rounds to four digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
