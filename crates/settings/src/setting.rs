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
    /// The model is the same whatever it is.
    Never,
}

/// One setting, an entry of [`SETTINGS`](crate::SETTINGS).
#[derive(Debug)]
pub struct Setting {
    /// Its name in files, flags and messages.
    pub key: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Whether a resumed run must keep it.
    pub kept: Kept,
    /// What its default is called where it depends on the machine.
    pub(crate) default_name: Option<&'static str>,
    pub(crate) what: fn() -> String,
    pub(crate) begin: fn(&mut Config),
    pub(crate) read: fn(&mut Config, Given<'_>) -> Result<(), String>,
    pub(crate) show: fn(&Config) -> Value,
    pub(crate) text: fn(&Config) -> String,
    pub(crate) check: fn(&Config) -> Result<(), String>,
    pub(crate) idle: Idle,
}

/// An entry: key, where it lies in a [`Config`] and its default there, whether it is kept, help.
macro_rules! setting {
    ($key:literal, $($field:ident).+ = $default:expr, $kept:ident, $help:literal) => {
        Setting {
            key: $key,
            help: $help,
            kept: Kept::$kept,
            default_name: None,
            what: || crate::typed::what(&|config: &Config| &config.$($field).+),
            begin: |config| config.$($field).+ = $default,
            read: |config, given| Typed::read(given).map(|value| config.$($field).+ = value),
            show: |config| config.$($field).+.show(),
            text: |config| config.$($field).+.text(),
            check: |_| Ok(()),
            idle: crate::idle::never,
        }
    };
}
pub(crate) use setting;

impl Setting {
    /// The same, which is refused where `check` says why: what stands after its key in the message.
    pub(crate) const fn check(self, check: fn(&Config) -> Result<(), String>) -> Self {
        Self { check, ..self }
    }

    /// The same, which changes nothing where `idle` says why.
    pub(crate) const fn idle(self, idle: Idle) -> Self {
        Self { idle, ..self }
    }

    /// The same, whose default depends on the machine and is called `name`.
    pub(crate) const fn default_name(self, name: &'static str) -> Self {
        Self { default_name: Some(name), ..self }
    }

    /// Reads `text` into `config`.
    ///
    /// # Errors
    /// One line with key, text and the mend.
    pub fn set(&self, config: &mut Config, text: &str) -> Result<(), String> {
        self.give(config, Given::Text(text.trim()))
    }

    /// Reads what was given into `config`.
    ///
    /// # Errors
    /// As [`Setting::set`].
    pub fn give(&self, config: &mut Config, given: Given<'_>) -> Result<(), String> {
        (self.read)(config, given).map_err(|why| format!("{} = {given}: {why}", self.key))
    }

    /// The value in `config`.
    pub fn get(&self, config: &Config) -> Value {
        (self.show)(config)
    }

    /// What it is: a number, bytes, one of some names.
    pub fn what(&self) -> String {
        (self.what)()
    }

    /// Refuses the value in `config` where it is wrong whatever the others are.
    ///
    /// # Errors
    /// One line with key, value and the mend.
    pub fn check_alone(&self, config: &Config) -> Result<(), String> {
        (self.check)(config).map_err(|why| format!("{} {why}", self.key))
    }

    /// Why it changes nothing in a run of `config`; none where it does.
    pub fn idle_in(&self, config: &Config) -> Option<&'static str> {
        (self.idle)(config)
    }

    /// The value in `config` if it reaches the bits of the model, as checkpoints name it.
    pub fn kept_in(&self, config: &Config) -> Option<String> {
        let kept = match self.kept {
            Kept::Always => true,
            Kept::WhereItCounts => self.idle_in(config).is_none(),
            Kept::Never => false,
        };
        kept.then(|| (self.text)(config))
    }
}
