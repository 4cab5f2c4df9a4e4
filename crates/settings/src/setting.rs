//! The definition of one setting.

use serde_json::Value;

use crate::as_given::Given;
use crate::config::Config;
use crate::no_effect::Idle;

/// Whether a setting affects the bits of the model, so that a resumed run must keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The setting affects the model.
    Always,
    /// The setting affects the model, unless other settings leave it without effect.
    WhereItCounts,
    /// The setting affects the model; runs older than the setting have its default.
    BeyondDefault,
    /// The setting affects how the data is read, and so the meaning of a position in the data. A
    /// resumed run must keep it, but digests of jobs leave it out.
    Resumed,
    /// The setting does not affect the model.
    Never,
}

/// One setting of a `T`, an entry of [`SETTINGS`](crate::SETTINGS), or for named tables and
/// features of [`TABLE_SETTINGS`](crate::TABLE_SETTINGS) and
/// [`FEATURE_SETTINGS`](crate::FEATURE_SETTINGS).
#[derive(Debug)]
pub struct Setting<T = Config> {
    /// Its name in files, flags and messages; for tables, features and columns, the last part of
    /// it.
    pub key: &'static str,
    /// A shorter name, accepted wherever settings are given.
    pub short: Option<&'static str>,
    /// Its meaning.
    pub help: &'static str,
    /// Whether a resumed run must keep it.
    pub kept: Kept,
    /// Description of a default that depends on the machine or is another setting.
    pub default_name: Option<&'static str>,
    pub(crate) what: fn() -> String,
    pub(crate) names: fn() -> Vec<&'static str>,
    pub(crate) begin: fn(&mut T),
    pub(crate) read: fn(&mut T, Given<'_>) -> Result<(), String>,
    pub(crate) show: fn(&T) -> Value,
    pub(crate) text: fn(&T) -> String,
    pub(crate) check: fn(&T) -> Result<(), String>,
    pub(crate) idle: Idle<T>,
    pub(crate) idle_run: Idle<Config>,
}

/// An entry: key, field of its struct (by default [`Config`]) with the default, whether it is kept,
/// help.
macro_rules! setting {
    ($key:literal, $($rest:tt)+) => { setting!(Config: $key, $($rest)+) };
    (
        $part:ident: $key:literal, $($field:ident).+ = $default:expr, $kept:ident, $help:expr
        $(,)?
    ) => {
        Setting::<$part> {
            key: $key,
            short: None,
            help: $help,
            kept: Kept::$kept,
            default_name: None,
            what: || crate::setting_types::what(&|part: &$part| &part.$($field).+),
            names: || crate::setting_types::names(&|part: &$part| &part.$($field).+),
            begin: |part| part.$($field).+ = $default,
            read: |part, given| Typed::read(given).map(|value| part.$($field).+ = value),
            show: |part| part.$($field).+.show(),
            text: |part| part.$($field).+.text(),
            check: |_| Ok(()),
            idle: crate::no_effect::never,
            idle_run: crate::no_effect::never,
        }
    };
}
pub(crate) use setting;

impl<T> Setting<T> {
    /// Adds the short name `name`.
    pub(crate) const fn short(self, name: &'static str) -> Self {
        Self { short: Some(name), ..self }
    }

    /// The key and the short name, if any.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.key].into_iter().chain(self.short)
    }

    /// Adds a check, which fails with the part of the message that follows the key.
    pub(crate) const fn check(self, check: fn(&T) -> Result<(), String>) -> Self {
        Self { check, ..self }
    }

    /// Adds `idle`, which returns why the setting has no effect in its struct.
    pub(crate) const fn idle(self, idle: Idle<T>) -> Self {
        Self { idle, ..self }
    }

    /// Adds `idle`, which returns why the setting has no effect in a run.
    pub(crate) const fn idle_run(self, idle: Idle<Config>) -> Self {
        Self { idle_run: idle, ..self }
    }

    /// Adds a description of a default that depends on something.
    pub(crate) const fn default_name(self, name: &'static str) -> Self {
        Self { default_name: Some(name), ..self }
    }

    /// Replaces the text by which checkpoints name the value.
    pub(crate) const fn text(self, text: fn(&T) -> String) -> Self {
        Self { text, ..self }
    }

    /// Parses `text` into `part`.
    ///
    /// # Errors
    /// One line with key, text and the fix.
    pub fn set(&self, part: &mut T, text: &str) -> Result<(), String> {
        self.give(part, Given::Text(text))
    }

    /// Parses a given value into `part`.
    ///
    /// # Errors
    /// As [`Setting::set`].
    pub fn give(&self, part: &mut T, given: Given<'_>) -> Result<(), String> {
        self.give_as(self.key, part, given)
    }

    /// As [`Setting::give`], with `key` in messages.
    pub(crate) fn give_as(&self, key: &str, part: &mut T, given: Given<'_>) -> Result<(), String> {
        (self.read)(part, given).map_err(|why| format!("{key} = {given}: {why}"))
    }

    /// The value in `part`.
    pub fn get(&self, part: &T) -> Value {
        (self.show)(part)
    }

    /// Type of the value in words: a number, bytes, one of some names.
    pub fn what(&self) -> String {
        (self.what)()
    }

    /// Names of the possible values if there are few; otherwise empty.
    pub fn values(&self) -> Vec<&'static str> {
        (self.names)()
    }

    /// Refuses a value in `part` that is wrong regardless of other settings.
    ///
    /// # Errors
    /// One line with key, value and the fix.
    pub fn check_alone(&self, part: &T) -> Result<(), String> {
        self.check_as(self.key, part)
    }

    /// As [`Setting::check_alone`], with `key` in messages.
    pub(crate) fn check_as(&self, key: &str, part: &T) -> Result<(), String> {
        (self.check)(part).map_err(|why| format!("{key} {why}"))
    }

    /// Why it has no effect with the other settings of `part`; `None` if it has one.
    pub fn idle_in(&self, part: &T) -> Option<&'static str> {
        (self.idle)(part)
    }

    /// The value in `part`, as checkpoints name it, if it affects the bits of the model.
    pub fn kept_in(&self, part: &T) -> Option<String>
    where
        T: Clone,
    {
        let kept = match self.kept {
            Kept::Always => true,
            Kept::WhereItCounts => self.idle_in(part).is_none(),
            Kept::BeyondDefault => {
                let mut by_default = part.clone();
                (self.begin)(&mut by_default);
                (self.text)(part) != (self.text)(&by_default)
            }
            Kept::Resumed | Kept::Never => false,
        };
        kept.then(|| (self.text)(part))
    }
}
