//! The types of settings, and how each is parsed and shown.

use std::path::PathBuf;

use serde_json::{Value, json};
use stepwell_base::ByteCount;
use stepwell_base::bytes::ByteCountError;
use stepwell_data::{Format, TimePart};
use stepwell_device::Choice;
use stepwell_engine::{Lookup, Pooling};
use stepwell_mem::PolicyKind;
use stepwell_nn::{Function, Loss, Precision};
use stepwell_optim::Storage;

use crate::as_given::Given;
use crate::config::{
    BestKind, ColumnType, DenseKind, DensePlace, ExchangeKind, LayerKind, MissingKind, ModelKind,
    OptimizerKind, PlaceKind, PresetKind, RowOptimizerKind, RowsKind, ScheduleKind, TransformKind,
};

/// A type that a setting may have.
pub(crate) trait Typed: Sized {
    /// Name of the type for users.
    fn what() -> String;

    /// Names of the type's values if there are few; otherwise empty.
    fn names() -> Vec<&'static str> {
        Vec::new()
    }

    /// Parses a given value.
    ///
    /// # Errors
    /// The fix.
    fn read(given: Given<'_>) -> Result<Self, String>;

    /// The value in reports and files.
    fn show(&self) -> Value;

    /// The value in checkpoints and digests of jobs. The text must never change, because digests
    /// identify jobs.
    fn text(&self) -> String;
}

/// The type of a field in words.
pub(crate) fn what<C, T: Typed>(_: &dyn Fn(&C) -> &T) -> String {
    T::what()
}

/// The names of the values of a field.
pub(crate) fn names<C, T: Typed>(_: &dyn Fn(&C) -> &T) -> Vec<&'static str> {
    T::names()
}

macro_rules! numbers {
    ($($type:ident, $what:literal, $mend:expr;)+) => { $(
        impl Typed for $type {
            fn what() -> String {
                $what.to_owned()
            }

            fn read(given: Given<'_>) -> Result<Self, String> {
                let plain = decimal(given.text()?.trim().replace('_', ""));
                let mend: fn(&str) -> &'static str = $mend;
                plain.parse().map_err(|_| format!("give {}", mend(&plain)))
            }

            fn show(&self) -> Value {
                json!(self)
            }

            fn text(&self) -> String {
                self.to_string()
            }
        }
    )+ };
}

numbers! {
    bool, "true or false", |_| "true or false";
    u8, "whole number", |_| "a whole number up to 255";
    u64, "whole number", whole;
    usize, "whole number", whole;
    f64, "number", |_| "a number";
}

/// Converts a hexadecimal, octal or binary number to decimal; returns other texts unchanged.
fn decimal(text: String) -> String {
    let bases = [("0x", 16), ("0o", 8), ("0b", 2)];
    let found = bases
        .into_iter()
        .find_map(|(prefix, base)| u64::from_str_radix(text.strip_prefix(prefix)?, base).ok());
    found.map_or(text, |value| value.to_string())
}

/// Describes the number to give instead of `text`, which is not a u64.
fn whole(text: &str) -> &'static str {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => "a whole number up to 18446744073709551615",
        false => "a whole number",
    }
}

impl Typed for ByteCount {
    fn what() -> String {
        "bytes".to_owned()
    }

    fn read(given: Given<'_>) -> Result<Self, String> {
        given.text()?.trim().parse().map_err(|error: ByteCountError| error.to_string())
    }

    fn show(&self) -> Value {
        json!(self.0)
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}

/// A value that may be left out: empty text means `None`.
impl<T: Typed> Typed for Option<T> {
    fn what() -> String {
        T::what()
    }

    fn names() -> Vec<&'static str> {
        T::names()
    }

    fn read(given: Given<'_>) -> Result<Self, String> {
        match given.text()? {
            "" => Ok(None),
            // A text or path can be `none`; a number can't.
            "none" => Ok(T::read(given).ok()),
            _ => T::read(given).map(Some),
        }
    }

    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::show)
    }

    fn text(&self) -> String {
        self.as_ref().map_or_else(String::new, T::text)
    }
}

impl Typed for PathBuf {
    fn what() -> String {
        "path".to_owned()
    }

    fn read(given: Given<'_>) -> Result<Self, String> {
        given.text().map(Self::from)
    }

    fn show(&self) -> Value {
        // A path that is not UTF-8 is refused when it is given.
        json!(self.to_string_lossy())
    }

    fn text(&self) -> String {
        self.display().to_string()
    }
}

impl Typed for Choice {
    fn what() -> String {
        "devices".to_owned()
    }

    fn read(given: Given<'_>) -> Result<Self, String> {
        given.text()?.trim().parse()
    }

    fn show(&self) -> Value {
        json!(self.to_string())
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Typed for String {
    fn what() -> String {
        "text".to_owned()
    }

    fn read(given: Given<'_>) -> Result<Self, String> {
        given.text().map(str::to_owned)
    }

    fn show(&self) -> Value {
        json!(self)
    }

    fn text(&self) -> String {
        self.clone()
    }
}

impl Typed for Vec<String> {
    fn what() -> String {
        "list".to_owned()
    }

    fn read(given: Given<'_>) -> Result<Self, String> {
        given.list()
    }

    fn show(&self) -> Value {
        json!(self)
    }

    fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// Widths of layers: `64,32`, or as in files and messages, `[64, 32]`.
impl Typed for Vec<usize> {
    fn what() -> String {
        "list of widths".to_owned()
    }

    fn read(given: Given<'_>) -> Result<Self, String> {
        let parts = in_brackets(given).list()?;
        if parts == ["none"] {
            return Ok(Vec::new());
        }
        let widths: Result<_, String> =
            parts.iter().map(|one| usize::read(Given::Text(one))).collect();
        widths.map_err(|why| format!("{why} for each layer, such as 512,256; none for no layer"))
    }

    fn show(&self) -> Value {
        json!(self)
    }

    fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// Numbers: `0.5,1,2`, or as in files, `[0.5, 1, 2]`.
impl Typed for Vec<f64> {
    fn what() -> String {
        "list of numbers".to_owned()
    }

    fn read(given: Given<'_>) -> Result<Self, String> {
        let parts = in_brackets(given).list()?;
        parts.iter().map(|one| f64::read(Given::Text(one))).collect()
    }

    fn show(&self) -> Value {
        json!(self)
    }

    fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// Strips the brackets around a list of numbers.
fn in_brackets(given: Given<'_>) -> Given<'_> {
    match given {
        Given::Text(text) => {
            let text = text.trim();
            let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            Given::Text(inner.unwrap_or(text))
        }
        given => given,
    }
}

/// Types with few named values, the text of a value in checkpoints, and removed names, which mean
/// the default.
macro_rules! names {
    ($($type:ident, $text:expr $(, $removed:expr)?;)+) => { $(
        impl Typed for $type {
            fn what() -> String {
                "name".to_owned()
            }

            fn names() -> Vec<&'static str> {
                Self::ALL.iter().map(|one| one.name()).collect()
            }

            fn read(given: Given<'_>) -> Result<Self, String> {
                $(
                    if is_one_of(&$removed, given.text()?) {
                        return Ok(Self::default());
                    }
                )?
                named(&Self::ALL.map(|one| (one.name(), one)), given)
            }

            fn show(&self) -> Value {
                json!(self.name())
            }

            fn text(&self) -> String {
                let text: fn(&Self) -> String = $text;
                text(self)
            }
        }
    )+ };
}

names! {
    BestKind, |best| best.name().to_owned();
    ExchangeKind, |exchange| exchange.name().to_owned();
    DenseKind, |dense| dense.name().to_owned();
    RowsKind, |rows| rows.name().to_owned();
    ModelKind, |kind| format!("{kind:?}");
    OptimizerKind, |kind| format!("{kind:?}");
    RowOptimizerKind, |kind| format!("{kind:?}");
    ScheduleKind, |kind| kind.name().to_owned();
    Precision, |precision| precision.name().to_owned();
    Storage, |storage| storage.name().to_owned();
    PolicyKind, |policy| policy.name().to_owned(), REMOVED_POLICIES;
    Lookup, |lookup| lookup.name().to_owned();
    PlaceKind, |place| place.name().to_owned();
    DensePlace, |place| place.name().to_owned();
    Pooling, |pooling| pooling.name().to_owned();
    PresetKind, |preset| preset.name().to_owned();
    Format, |format| format.name().to_owned();
    ColumnType, |kind| kind.name().to_owned();
    TransformKind, |transform| transform.name().to_owned();
    Loss, |loss| loss.name().to_owned();
    MissingKind, |missing| missing.name().to_owned();
    TimePart, |part| part.name().to_owned();
    LayerKind, |kind| kind.name().to_owned();
    Function, |function| function.name().to_owned();
}

fn named<T: Copy>(known: &[(&str, T)], given: Given<'_>) -> Result<T, String> {
    let text = given.text()?.trim();
    let is_meant = |name: &str| spelled_alike(name, text);
    known.iter().find(|(name, _)| is_meant(name)).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("give one of {}", names.join(", "))
    })
}

/// Whether two names differ in hyphens and underscores at most.
fn spelled_alike(one: &str, other: &str) -> bool {
    let same = |(a, b): (u8, u8)| a == b || [a, b] == *b"_-" || [a, b] == *b"-_";
    one.len() == other.len() && one.bytes().zip(other.bytes()).all(same)
}

/// Policies of earlier versions, which settings files and checkpoints may name. They mean the
/// default.
const REMOVED_POLICIES: [&str; 4] = ["lru", "lfu", "sieve", "w-tinylfu"];

fn is_one_of(names: &[&str], text: &str) -> bool {
    names.iter().any(|name| spelled_alike(name, text.trim()))
}

/// A note if `text`, the value of the setting `key`, is accepted but no longer exists.
pub fn removed_value(key: &str, text: &str) -> Option<String> {
    (key == "tiers.policy" && is_one_of(&REMOVED_POLICIES, text)).then(|| {
        format!(
            "tiers.policy = {}: this policy was removed, {} takes its place; `stepwell-lab \
             cache-sim` still compares it",
            text.trim(),
            PolicyKind::default()
        )
    })
}

/// The name in settings of a value that checkpoints call `text`.
pub fn as_given(text: &str) -> &str {
    let models = ModelKind::ALL.iter().map(|kind| (kind.text(), kind.name()));
    let optimizers = RowOptimizerKind::ALL.iter().map(|kind| (kind.text(), kind.name()));
    let found = models.chain(optimizers).find(|(known, _)| known == text);
    found.map_or(text, |(_, name)| name)
}

/// The model with this name.
///
/// # Errors
/// If there is none; the message lists all names.
pub fn read_model(name: &str) -> Result<ModelKind, String> {
    ModelKind::read(Given::Text(name))
}
