//! The space of a search: settings whose values are drawn, written `KEY=log(0.001,0.3)`.
//!
//! A value depends on the seed, the trial's number and the key only, so that a trial is the same
//! whatever the number of trials and their order.

use serde::{Deserialize, Serialize};
use stepwell_base::random::Stream;
use stepwell_settings::{Config, Found, Kept, look_up};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::resolve;
use crate::settings_file::text_of;

/// Significant digits of drawn numbers.
const DIGITS: usize = 3;

/// Keys that decide what trials are compared on or where they keep their files, by their start.
const NOT_DRAWN: [&str; 8] = [
    "data.paths",
    "data.eval_",
    "data.cache",
    "data.labels",
    "synth.",
    "checkpoint.",
    "tiers.ssd",
    "ranks",
];

/// Keys of settings that a resumed run may change, but trials can be compared by, by their start.
const COMPARED: [&str; 5] =
    ["data.epochs", "data.batch", "train.evaluate_every", "train.patience", "sync."];

/// The values of `--set`, in their order: fixed and drawn ones.
#[derive(Debug)]
pub(super) struct Space {
    pairs: Vec<Pair>,
}

#[derive(Debug)]
enum Pair {
    /// As given.
    Fixed(String),
    Drawn(Dimension),
}

/// A setting whose value is drawn.
#[derive(Debug)]
struct Dimension {
    key: String,
    range: Range,
    /// As given.
    text: String,
}

/// The kinds of ranges.
const RANGES: &str = "log(A,B), uniform(A,B), logint(A,B), int(A,B) or choice(A,B)";

/// Where a value is drawn from.
#[derive(Clone, Debug, PartialEq)]
enum Range {
    /// Uniform between both ends.
    Uniform(f64, f64),
    /// Uniform in the logarithm, between both ends.
    Log(f64, f64),
    /// Whole numbers, both ends included.
    Int(u64, u64),
    /// Whole numbers, uniform in the logarithm.
    LogInt(u64, u64),
    /// One of these texts, as `--set` takes them.
    Choice(Vec<String>),
}

/// A drawn value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Drawn {
    pub(super) key: String,
    /// The value as `--set` takes it.
    pub(super) value: String,
}

impl Space {
    /// Reads the values of `--set`.
    ///
    /// # Errors
    /// One line that names the setting and the fix.
    pub(super) fn of(pairs: &[String]) -> Result<Self, String> {
        let pairs = pairs.iter().map(|pair| Pair::of(pair)).collect::<Result<Vec<_>, _>>()?;
        let space = Self { pairs };
        let keys = space.keys();
        match keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key)) {
            _ if keys.is_empty() => Err("tune draws settings, and none has a range: give one, \
                                         such as --set 'optim.rows.lr=log(0.001,0.3)'"
                .to_owned()),
            Some((_, key)) => Err(format!("{key} has two ranges: give one")),
            None => Ok(space),
        }
    }

    /// The keys of the drawn settings.
    pub(super) fn keys(&self) -> Vec<&str> {
        self.dimensions().map(|of| of.key.as_str()).collect()
    }

    /// The ranges, as given.
    pub(super) fn texts(&self) -> Vec<&str> {
        self.dimensions().map(|of| of.text.as_str()).collect()
    }

    fn dimensions(&self) -> impl Iterator<Item = &Dimension> {
        self.pairs.iter().filter_map(|pair| match pair {
            Pair::Drawn(dimension) => Some(dimension),
            Pair::Fixed(_) => None,
        })
    }

    /// The values of `--set` without the drawn ones.
    pub(super) fn fixed(&self) -> Vec<String> {
        let fixed = self.pairs.iter().filter_map(|pair| match pair {
            Pair::Fixed(text) => Some(text.clone()),
            Pair::Drawn(_) => None,
        });
        fixed.collect()
    }

    /// The drawn values of a trial.
    pub(super) fn drawn(&self, seed: u64, trial: u64) -> Vec<Drawn> {
        let drawn = |of: &Dimension| Drawn { key: of.key.clone(), value: of.draw(seed, trial) };
        self.dimensions().map(drawn).collect()
    }

    /// The values of `--set` of a trial, in the order given.
    pub(super) fn set(&self, seed: u64, trial: u64) -> Vec<String> {
        let text = |pair: &Pair| match pair {
            Pair::Fixed(text) => text.clone(),
            Pair::Drawn(of) => format!("{}={}", of.key, of.draw(seed, trial)),
        };
        self.pairs.iter().map(text).collect()
    }

    /// Refuses a range of a setting whose value in `config`, the settings of a trial, isn't the
    /// drawn one, because a flag names it, too.
    pub(super) fn check_flags(&self, config: &Config, drawn: Vec<Drawn>) -> Result<(), String> {
        for Drawn { key, value } in drawn {
            let mut drawn = config.clone();
            look_up(&key)?.set(&mut drawn, &value)?;
            if drawn != *config {
                return Err(format!("{key} has a range and a value by a flag: give one"));
            }
        }
        Ok(())
    }

    /// Refuses ranges with ends or choices that the setting doesn't take.
    pub(super) fn check(&self, config: &Config) -> Result<(), String> {
        for Dimension { key, range, text } in self.dimensions() {
            for value in range.ends() {
                resolve::give(&mut config.clone(), key, &value)
                    .map_err(|why| format!("--set {text}: {why}"))?;
            }
            let between =
                range.between().map(|value| resolve::give(&mut config.clone(), key, &value));
            if matches!(between, Some(Err(_))) {
                return Err(format!(
                    "--set {text}: {key} takes whole numbers: write int(A,B) or logint(A,B)"
                ));
            }
        }
        Ok(())
    }
}

impl Pair {
    fn of(pair: &str) -> Result<Self, String> {
        let fixed = || Ok(Self::Fixed(pair.to_owned()));
        let Some((key, value)) = pair.split_once('=') else { return fixed() };
        let (key, value) = (key.trim(), value.trim());
        let Some((kind, rest)) = value.split_once('(') else { return fixed() };
        let fail = |why: String| format!("--set {pair}: {why}");
        let Some(range) = rest.strip_suffix(')').and_then(|of| Range::of(kind, of)) else {
            return match is_refused(key, value) {
                true => Err(fail(format!("that is neither a value nor a range: write {RANGES}"))),
                false => fixed(),
            };
        };
        let why_not = match look_up(key)?.kept() {
            _ if NOT_DRAWN.iter().any(|start| key.starts_with(start)) => {
                Some("trials must read the same data and keep to their own places")
            }
            Kept::Never if !COMPARED.iter().any(|start| key.starts_with(start)) => {
                Some("it changes no model, so trials would differ in their time alone")
            }
            _ => None,
        };
        if let Some(why) = why_not {
            return Err(fail(format!("{why}: give one value")));
        }
        let (key, range) = (key.to_owned(), range.map_err(fail)?);
        Ok(Self::Drawn(Dimension { key, range, text: pair.to_owned() }))
    }
}

/// Whether a setting of the run or of a table takes no such value.
fn is_refused(key: &str, value: &str) -> bool {
    match look_up(key) {
        // Others may follow one that is set elsewhere.
        Ok(found @ (Found::Run(..) | Found::Table(..))) => {
            found.set(&mut Config::default(), value).is_err()
        }
        _ => false,
    }
}

impl Range {
    /// Reads what stands in brackets behind `kind`; `None` if that is no kind of range.
    fn of(kind: &str, of: &str) -> Option<Result<Self, String>> {
        let ends = |fits: fn(f64, f64) -> bool, write: &str| match numbers::<f64>(of) {
            Some([low, high]) if fits(low, high) && high.is_finite() => Ok((low, high)),
            _ => Err(format!("write {write}")),
        };
        let whole = |least: u64, write: &str| match numbers::<u64>(of) {
            Some([low, high]) if least <= low && low < high && high < 1 << 53 => Ok((low, high)),
            _ => Err(format!("write {write}")),
        };
        Some(match kind {
            "log" => ends(|low, high| 0.0 < low && low < high, "log(A,B) with 0 < A < B")
                .map(|(low, high)| Self::Log(low, high)),
            "uniform" => ends(|low, high| low < high, "uniform(A,B) with A < B")
                .map(|(low, high)| Self::Uniform(low, high)),
            "int" => whole(0, "int(A,B) with whole numbers 0 <= A < B")
                .map(|(low, high)| Self::Int(low, high)),
            "logint" => whole(1, "logint(A,B) with whole numbers 1 <= A < B")
                .map(|(low, high)| Self::LogInt(low, high)),
            "choice" => choices(of).map(Self::Choice),
            _ => return None,
        })
    }

    /// A number between the ends of a range that isn't of whole numbers.
    fn between(&self) -> Option<String> {
        match self {
            Self::Uniform(low, high) | Self::Log(low, high) => {
                Some((low + (high - low) * 0.3819).to_string())
            }
            _ => None,
        }
    }

    /// Values that show whether the setting takes the range: both ends, or all choices.
    fn ends(&self) -> Vec<String> {
        match self {
            Self::Uniform(low, high) | Self::Log(low, high) => {
                vec![low, high].into_iter().map(f64::to_string).collect()
            }
            Self::Int(low, high) | Self::LogInt(low, high) => {
                vec![low.to_string(), high.to_string()]
            }
            Self::Choice(choices) => choices.clone(),
        }
    }
}

impl Dimension {
    /// The value of a trial: the first number of the stream whose name is `tune`, NUL, the trial
    /// (u64, little-endian) and the key.
    ///
    /// A uniform number u in [0, 1) becomes `low + (high - low) u`, or `low (high / low)^u` for
    /// `log`, rounded to three significant digits, within the ends. Of 64 random bits x, `int` and
    /// `choice` take number `x n / 2^64`, rounded down, of n; `logint` takes
    /// `low ((high + 1) / low)^u`, rounded down, then to three significant digits.
    fn draw(&self, seed: u64, trial: u64) -> String {
        let name = [b"tune\0", &trial.to_le_bytes()[..], self.key.as_bytes()].concat();
        let mut stream = Stream::named(seed, &name);
        let within = |drawn: f64, (low, high): (f64, f64)| rounded(drawn).clamp(low, high);
        match &self.range {
            Range::Uniform(low, high) => {
                let drawn = low + (high - low) * stream.next_f64();
                within(drawn, (*low, *high)).to_string()
            }
            Range::Log(low, high) => {
                let drawn = low * (high / low).powf(stream.next_f64());
                within(drawn, (*low, *high)).to_string()
            }
            Range::Int(low, high) => (low + one_of(high - low + 1, &mut stream)).to_string(),
            Range::LogInt(low, high) => {
                let (low, high) = (*low as f64, *high as f64);
                let drawn = (low * ((high + 1.0) / low).powf(stream.next_f64())).floor();
                within(drawn, (low, high)).to_string()
            }
            Range::Choice(choices) => {
                choices[one_of(choices.len() as u64, &mut stream) as usize].clone()
            }
        }
    }
}

/// One of the numbers below `count`.
fn one_of(count: u64, stream: &mut Stream) -> u64 {
    ((u128::from(stream.next_u64()) * u128::from(count)) >> 64) as u64
}

/// The nearest number with few digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.*e}", DIGITS - 1).parse().unwrap_or(number)
}

/// The two numbers of a range.
fn numbers<T: std::str::FromStr>(text: &str) -> Option<[T; 2]> {
    let (low, high) = text.split_once(',')?;
    Some([low.trim().parse().ok()?, high.trim().parse().ok()?])
}

/// The parts of a list of choices: values as TOML has them, or names without quotes.
fn choices(text: &str) -> Result<Vec<String>, String> {
    let wrong = || {
        "write choice(A,B), with values as in a settings file, such as choice([64],[128,64])"
            .to_owned()
    };
    let parts = split(text).ok_or_else(wrong)?;
    parts.into_iter().map(|part| choice(part).ok_or_else(wrong)).collect()
}

/// The parts between commas that stand outside of brackets and quotes; `None` if these don't close,
/// or a part is empty.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut depth, mut quote) = (Vec::new(), 0, 0usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    let is_whole = quote.is_none() && depth == 0 && parts.iter().all(|part| !part.is_empty());
    is_whole.then_some(parts)
}

/// A choice as `--set` takes it.
fn choice(part: &str) -> Option<String> {
    if !part.starts_with(['[', '"', '\'']) {
        return Some(part.to_owned());
    }
    let file = format!("value = {part}");
    let table = DeTable::parse(&file).ok()?;
    let value = table.get_ref().get("value")?.get_ref();
    let DeValue::Array(values) = value else { return text_of(value).ok() };
    let values = values.iter().map(Spanned::get_ref).map(|value| text_of(value).ok());
    let values: Vec<String> = values.collect::<Option<_>>()?;
    let is_plain =
        |value: &String| !value.is_empty() && !value.contains([',', '"', '\'', '[', ' ']);
    Some(match values.iter().all(is_plain) && !values.is_empty() {
        true => values.join(","),
        false => toml::Value::from(values).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(pairs: &[&str]) -> Result<Space, String> {
        Space::of(&pairs.iter().map(|pair| (*pair).to_owned()).collect::<Vec<_>>())
    }

    const ALL: [&str; 7] = [
        "optim.rows.lr=log(0.001,0.3)",
        "data.epochs=2",
        "optim.dense.lr = uniform(0.01, 0.02)",
        "model.dim=choice(8,16,32)",
        "data.mini_batch=logint(64,4096)",
        "train.patience=int(1,9)",
        "model.hidden=choice([64],[128, 64],[])",
    ];

    #[test]
    fn values_are_those_published() {
        let space = space(&ALL).unwrap();
        let of = |seed, trial| {
            let drawn = space.drawn(seed, trial);
            drawn.into_iter().map(|of| of.value).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(1, 1), "0.0032 0.011 8 569 8 64");
        assert_eq!(of(1, 2), "0.00349 0.0181 32 2340 6 128,64");
        assert_eq!(of(1, 1000), "0.0201 0.0151 8 146 5 128,64");
        assert_eq!(of(2, 1), "0.00248 0.0132 16 1560 1 128,64");
        assert_eq!(space.set(1, 1)[1], "data.epochs=2");
        assert_eq!(space.set(1, 1)[0], format!("optim.rows.lr={}", space.drawn(1, 1)[0].value));
        assert_eq!(space.fixed(), ["data.epochs=2"]);
    }

    #[test]
    fn a_value_does_not_depend_on_other_settings() {
        let (all, one) = (space(&ALL).unwrap(), space(&ALL[3..4]).unwrap());
        for trial in 1..50 {
            assert_eq!(all.drawn(5, trial)[2], one.drawn(5, trial)[0]);
        }
    }

    #[test]
    fn values_fill_their_range_and_have_few_digits() {
        let space = space(&[
            "optim.rows.lr=log(0.0012345,0.3)",
            "optim.dense.lr=uniform(-2,4)",
            "model.dim=int(3,5)",
            "data.mini_batch=logint(1,100000)",
            "optim.rows.kind=choice(adam,adagrad)",
        ])
        .unwrap();
        let all: Vec<Vec<Drawn>> = (0..4000).map(|trial| space.drawn(3, trial)).collect();
        let column = |at: usize| all.iter().map(move |of| of[at].value.clone());
        let numbers = |at| column(at).map(|of| of.parse::<f64>().unwrap()).collect::<Vec<_>>();
        let share = |at, fits: fn(f64) -> bool| {
            numbers(at).into_iter().filter(|of| fits(*of)).count() as f64 / 4000.0
        };
        for (at, low, high) in [(0, 0.0012345, 0.3), (1, -2.0, 4.0), (3, 1.0, 1e5)] {
            for of in numbers(at) {
                assert!((low..=high).contains(&of) && (rounded(of) == of || of == low), "{of}");
            }
        }
        // Half of the logarithms lie below the geometric mean.
        for (at, below) in [
            (0, share(0, |of| of < 0.01925)),
            (1, share(1, |of| of < 1.0)),
            (3, share(3, |of| of < 316.0)),
            (4, column(4).filter(|of| of == "adam").count() as f64 / 4000.0),
        ] {
            assert!((0.46..0.54).contains(&below), "{at}: {below}");
        }
        for dim in ["3", "4", "5"] {
            let part = column(2).filter(|of| of == dim).count();
            assert!((1200..1470).contains(&part), "{dim}: {part}");
        }
    }

    #[test]
    fn choices_are_values_as_files_have_them() {
        let of = |text| choices(text).map(|of| of.join("|"));
        assert_eq!(of("8, 16,32").unwrap(), "8|16|32");
        assert_eq!(of("[64], [128,64], []").unwrap(), "64|128,64|[]");
        assert_eq!(of("'a,b', \"c]\", adam").unwrap(), "a,b|c]|adam");
        assert_eq!(of("['a,b', 'c']").unwrap(), r#"["a,b", "c"]"#);
        for wrong in ["", "1,", "[1", "1]", "'a", "[[1]]", "[a]"] {
            assert!(of(wrong).unwrap_err().contains("choice(A,B)"), "{wrong}");
        }
    }

    #[test]
    fn wrong_ranges_are_refused_in_one_line() {
        for (pair, says) in [
            ("optim.rows.lr=log(0,1)", "0 < A < B"),
            ("optim.rows.lr=log(1)", "log(A,B)"),
            ("optim.rows.lr=log(0.1,inf)", "log(A,B)"),
            ("optim.rows.lr=uniform(2,1)", "A < B"),
            ("optim.rows.lr=uniform(nan,1)", "A < B"),
            ("model.dim=int(1.5,3)", "whole numbers"),
            ("model.dim=logint(0,3)", "1 <= A < B"),
            ("model.dim=choice()", "choice(A,B)"),
            ("model.dimm=int(1,3)", "did you mean 'model.dim'"),
            ("data.eval_fraction=uniform(0.1,0.2)", "the same data"),
            ("checkpoint.dir=choice(a,b)", "places"),
            ("model.dim=8", "none has a range"),
            ("model.dim=lgo(8,9)", "model.dim=lgo(8,9): that is neither a value nor a range"),
            ("model.dim=logg(8,9)", "write log(A,B), uniform(A,B),"),
            ("model.dim=LOG(8,9)", "neither a value nor a range"),
            ("tables.users.lr=log(0.1,0.2", "neither a value nor a range"),
            ("model.target=int(8", "none has a range"),
            ("threads=int(1,2)", "it changes no model"),
            ("tiers.dram=choice(1MiB,2MiB)", "it changes no model"),
            ("tables.users.place=choice(tiers,memory)", "it changes no model"),
        ] {
            let why = space(&[pair]).unwrap_err();
            assert!(why.contains(says) && !why.contains('\n'), "{pair}: {why}");
        }
        let twice = space(&["model.dim=int(1,3)", "model.dim=int(1,3)"]).unwrap_err();
        assert!(twice.contains("two ranges"), "{twice}");
        let config = Config::default();
        for (pair, says) in [
            ("model.dim=int(0,3)", "model.dim"),
            ("optim.rows.kind=choice(adam,lion)", "lion"),
            ("model.dim=uniform(1.5,3)", "model.dim = 1.5"),
        ] {
            let why = space(&[pair]).unwrap().check(&config).unwrap_err();
            assert!(why.contains(says) && why.contains(pair) && !why.contains('\n'), "{why}");
        }
    }
}
