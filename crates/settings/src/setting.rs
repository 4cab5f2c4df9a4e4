//! One setting: all that there is to say of it.

use serde_json::Value;

use crate::config::Config;
use crate::given::Given;
use crate::idle::Idle;

/// Whether a setting reaches the bits of the model, so that a resumed run must keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It does.
    Always,
    /// It does where it has an effect at all.
    WhereItCounts,
    /// It does, and runs from before there was this setting have its default.
    BeyondDefault,
    /// It says how the data is read, and so what a place in it is: a resumed run keeps it, and jobs
    /// are not told apart by it.
    Resumed,
    /// The model is the same whatever it is.
    Never,
}

/// One setting of a `T`, an entry of [`SETTINGS`](crate::SETTINGS), or for named tables and
/// features of [`TABLE_SETTINGS`](crate::TABLE_SETTINGS) and
/// [`FEATURE_SETTINGS`](crate::FEATURE_SETTINGS).
#[derive(Debug)]
pub struct Setting<T = Config> {
    /// Its name in files, flags and messages; of a table or a feature the last part of it.
    pub key: &'static str,
    /// A shorter name, which means the same wherever settings are given.
    pub short: Option<&'static str>,
    /// What it means.
    pub help: &'static str,
    /// Whether a resumed run must keep it.
    pub kept: Kept,
    /// What its default is called where it depends on the machine, or is another setting.
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

/// An entry: key, where it lies in its struct (a [`Config`] where none is named) and its default
/// there, whether it is kept, help.
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
            what: || crate::typed::what(&|part: &$part| &part.$($field).+),
            names: || crate::typed::names(&|part: &$part| &part.$($field).+),
            begin: |part| part.$($field).+ = $default,
            read: |part, given| Typed::read(given).map(|value| part.$($field).+ = value),
            show: |part| part.$($field).+.show(),
            text: |part| part.$($field).+.text(),
            check: |_| Ok(()),
            idle: crate::idle::never,
            idle_run: crate::idle::never,
        }
    };
}
pub(crate) use setting;

impl<T> Setting<T> {
    /// The same, which is `name` for short.
    pub(crate) const fn short(self, name: &'static str) -> Self {
        Self { short: Some(name), ..self }
    }

    /// The names by which it may be given.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.key].into_iter().chain(self.short)
    }

    /// The same, which is refused where `check` says why: what stands after its key in the message.
    pub(crate) const fn check(self, check: fn(&T) -> Result<(), String>) -> Self {
        Self { check, ..self }
    }

    /// The same, which changes nothing where `idle` says why.
    pub(crate) const fn idle(self, idle: Idle<T>) -> Self {
        Self { idle, ..self }
    }

    /// The same, which changes nothing in a run where `idle` says why.
    pub(crate) const fn idle_run(self, idle: Idle<Config>) -> Self {
        Self { idle_run: idle, ..self }
    }

    /// The same, whose default depends on something and is called `name`.
    pub(crate) const fn default_name(self, name: &'static str) -> Self {
        Self { default_name: Some(name), ..self }
    }

    /// The same, which checkpoints name by `text`.
    pub(crate) const fn text(self, text: fn(&T) -> String) -> Self {
        Self { text, ..self }
    }

    /// Reads `text` into `part`.
    ///
    /// # Errors
    /// One line with key, text and the mend.
    pub fn set(&self, part: &mut T, text: &str) -> Result<(), String> {
        self.give(part, Given::Text(text))
    }

    /// Reads what was given into `part`.
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

    /// What it is: a number, bytes, one of some names.
    pub fn what(&self) -> String {
        (self.what)()
    }

    /// The names of its values, where it is one of a few; otherwise none.
    pub fn values(&self) -> Vec<&'static str> {
        (self.names)()
    }

    /// Refuses the value in `part` where it is wrong whatever the others are.
    ///
    /// # Errors
    /// One line with key, value and the mend.
    pub fn check_alone(&self, part: &T) -> Result<(), String> {
        self.check_as(self.key, part)
    }

    /// As [`Setting::check_alone`], with `key` in messages.
    pub(crate) fn check_as(&self, key: &str, part: &T) -> Result<(), String> {
        (self.check)(part).map_err(|why| format!("{key} {why}"))
    }

    /// Why it changes nothing where the others are as in `part`; none where it does.
    pub fn idle_in(&self, part: &T) -> Option<&'static str> {
        (self.idle)(part)
    }

    /// The value in `part` if it reaches the bits of the model, as checkpoints name it.
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
