//! Settings as text: one table that configuration files, flags, reports and help are made from.

mod given;
mod idle;

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use stepwell_train::Config;

pub(crate) use self::given::{Given, model};
use self::given::{
    bytes, list, number, optimizer, optimizer_name, policy, precision, storage, widths,
};
use self::idle::Idle;

/// One setting: its key, what it means, how it is read and shown.
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) help: &'static str,
    set: fn(&mut Config, Given<'_>) -> Result<(), String>,
    get: fn(&Config) -> Value,
    /// Why it changes nothing in a run, where it does not.
    idle: Idle,
}

macro_rules! setting {
    ($key:literal, $help:literal, number $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, given| number(given).map(|value| config.$($field).+ = value),
            get: |config| json!(config.$($field).+),
            idle: idle::never,
        }
    };
    ($key:literal, $help:literal, policy $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, given| policy(given).map(|value| config.$($field).+ = value),
            get: |config| json!(config.$($field).+.name()),
            idle: idle::never,
        }
    };
    ($key:literal, $help:literal, bytes $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, given| bytes(given).map(|value| config.$($field).+ = value),
            get: |config| json!(config.$($field).+.0),
            idle: idle::never,
        }
    };
    ($key:literal, $help:literal, path $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, given| {
                let text = given.text()?;
                config.$($field).+ = (!text.is_empty()).then(|| PathBuf::from(text));
                Ok(())
            },
            get: |config| json!(config.$($field).+),
            idle: idle::never,
        }
    };
    ($key:literal, $help:literal, list $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, given| {
                config.$($field).+ = list(given);
                Ok(())
            },
            get: |config| json!(config.$($field).+),
            idle: idle::never,
        }
    };
    ($key:literal, $help:literal, kind $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, given| optimizer(given).map(|kind| config.$($field).+.kind = kind),
            get: |config| json!(optimizer_name(&config.$($field).+)),
            idle: idle::never,
        }
    };
}

/// All settings, in the order of the documentation.
pub(crate) const SETTINGS: &[Setting] = &[
    setting!("seed", "seed of all initial values and of the built-in stream", number seed),
    setting!("threads", "threads that compute; I/O threads come on top", number threads),
    setting!("data.paths", "files or globs of training data (empty: the built-in stream)",
        list data.paths),
    setting!("data.eval_paths", "files or globs to evaluate on (empty: the tail of the data)",
        list data.eval_paths),
    setting!("data.eval_fraction",
        "share of the data for evaluation: of n lines the last round(n times this), a half up",
        number data.eval_fraction)
    .idle(idle::with_eval_paths),
    setting!("data.epochs", "times the training part is read", number data.epochs),
    setting!("data.mini_batch", "examples per step", number data.mini_batch),
    setting!("data.batch",
        "examples planned and pulled at once, a multiple of data.mini_batch (0: one mini-batch)",
        number data.batch),
    setting!("data.skip_max",
        "malformed lines that are skipped; one more, or one over 256 KiB, stops the run",
        number data.skip_max)
    .idle(idle::on_the_stream),
    setting!("data.cache",
        "packed file that an epoch makes of text, for later epochs and runs to read (empty: none)",
        path data.cache),
    setting!("synth.examples", "examples of the built-in stream",
        number synth.examples)
    .idle(idle::on_data),
    setting!("synth.vocab_scale", "vocabulary of the built-in stream, times that of a real sample",
        number synth.vocab_scale)
    .idle(idle::on_data),
    Setting {
        key: "model.kind",
        help: "lr, wide_deep, deepfm, dcn or dlrm",
        set: |config, given| model(given).map(|kind| config.model.kind = kind),
        get: |config| json!(config.model.kind.name()),
        idle: idle::never,
    },
    setting!("model.dim", "lanes of an embedding", number model.dim).idle(idle::in_lr),
    Setting {
        key: "model.hidden",
        help: "widths of the hidden layers, such as 512,256,128",
        set: |config, given| widths(given).map(|hidden| config.model.hidden = hidden),
        get: |config| json!(config.model.hidden),
        idle: idle::in_lr,
    },
    setting!("model.cross_layers", "cross layers of dcn",
        number model.cross_layers)
    .idle(idle::outside_dcn),
    Setting {
        key: "model.bottom",
        help: "widths of the layers of dlrm over the dense features; one of model.dim follows them",
        set: |config, given| widths(given).map(|bottom| config.model.bottom = bottom),
        get: |config| json!(config.model.bottom),
        idle: idle::outside_dlrm,
    },
    setting!("model.init_range", "embeddings begin uniform in plus or minus this",
        number model.init_range)
    .idle(idle::in_lr),
    Setting {
        key: "model.precision",
        help: "f32, or bf16: operands of matrix products are rounded to it, sums stay f32",
        set: |config, given| precision(given).map(|precision| config.model.precision = precision),
        get: |config| json!(config.model.precision.name()),
        idle: idle::never,
    },
    setting!("train.blocks", "blocks of a mini-batch, the unit of summation", number model.blocks),
    setting!("tiers.dram", "bytes of the rows in memory with their index and metadata",
        bytes tiers.dram),
    setting!("tiers.ssd", "one directory for all stores (empty: a temporary one)", path tiers.ssd),
    setting!("tiers.index", "bytes that the store's index may take", bytes tiers.index),
    setting!("tiers.segment", "bytes of a segment file", bytes tiers.segment),
    setting!("tiers.page_cache",
        "bytes of segment files that go through the system's page cache; others are read directly",
        bytes tiers.page_cache),
    setting!("tiers.policy",
        "which rows leave memory first: lru-lfu, lru, lfu, s3-fifo, sieve, w-tinylfu or sven",
        policy tiers.policy),
    setting!("tiers.space", "most space of the store after a commit, times that of its rows",
        number tiers.space),
    setting!("pipeline.lookahead",
        "batches whose rows are held beyond the one that trains; 0: one at a time, no overlap",
        number pipeline.lookahead),
    setting!("pipeline.horizon",
        "batches whose keys are known ahead; where not given, at least twice pipeline.lookahead",
        number pipeline.horizon),
    setting!("pipeline.staleness",
        "steps of training that reads of rows do not see: step t reads as after step t - 1 - this",
        number staleness),
    setting!("rows.admit_after",
        "an id gets a row in the mini-batch in which its occurrences reach this (1: the first)",
        number life.admit_after),
    setting!("rows.admit_probability",
        "probability with which an id gets a row, in each mini-batch anew",
        number life.admit_probability),
    setting!("rows.expire_after", "steps without use after which a row is no more (0: never)",
        number life.expire_after),
    setting!("rows.history",
        "true: rows keep step of last use, examples and importance where nothing else asks",
        number life.history)
    .idle(idle::with_a_life),
    setting!("rows.sketch",
        "bytes of the sketch that counts for rows.admit_after; with 8 an id, one in forty is early",
        bytes life.sketch)
    .idle(idle::without_counting),
    Setting {
        key: "rows.storage",
        help: "f32, f16 or bf16: how rows keep their weights, rounded stochastically to 16 bits",
        set: |config, given| storage(given).map(|storage| config.storage = storage),
        get: |config| json!(config.storage.name()),
        idle: idle::never,
    },
    setting!("optim.rows.kind", "sgd, adagrad or adam for rows", kind rows),
    setting!("optim.rows.lr", "learning rate of rows", number rows.lr),
    setting!("optim.dense.kind", "sgd, adagrad or adam for dense parameters", kind dense),
    setting!("optim.dense.lr", "learning rate of dense parameters", number dense.lr),
    setting!("checkpoint.dir", "directory of checkpoints (empty: none)", path checkpoint.dir),
    setting!("checkpoint.every", "steps between checkpoints (0: no matter); one is at the end",
        number checkpoint.every)
    .idle(idle::without_checkpoints),
    setting!("checkpoint.minutes",
        "minutes between checkpoints, where there is a directory for them (0: no matter)",
        number checkpoint.minutes)
    .idle(idle::without_checkpoints),
    setting!("checkpoint.initial", "true: a checkpoint is written before the first step, too",
        number checkpoint.initial)
    .idle(idle::without_checkpoints),
    setting!("checkpoint.keep", "checkpoints of this run that are kept",
        number checkpoint.keep)
    .idle(idle::without_checkpoints),
];

impl Setting {
    /// The same, which changes nothing where `idle` says why.
    const fn idle(self, idle: Idle) -> Self {
        Self { idle, ..self }
    }

    /// Reads `text` into `config`.
    pub(crate) fn set(&self, config: &mut Config, text: &str) -> Result<(), String> {
        self.give(config, Given::Text(text.trim()))
    }

    /// Reads what was given into `config`.
    pub(crate) fn give(&self, config: &mut Config, given: Given<'_>) -> Result<(), String> {
        (self.set)(config, given).map_err(|why| format!("{} = {given}: {why}", self.key))
    }

    /// The value in `config`.
    pub(crate) fn get(&self, config: &Config) -> Value {
        (self.get)(config)
    }
}

/// What to say of the settings `chosen` by key that change nothing in a run of `config`.
pub(crate) fn idle_notes(chosen: &[String], config: &Config) -> Vec<String> {
    let note = |setting: &Setting| {
        let why = (setting.idle)(config)?;
        Some(format!("{} has no effect, because {why}", setting.key))
    };
    let is_chosen = |setting: &&Setting| chosen.iter().any(|key| key == setting.key);
    SETTINGS.iter().filter(is_chosen).filter_map(note).collect()
}

/// Likeness in millionths from which on a key may have been meant.
const LIKENESS_MIN: u64 = 750_000;

/// The setting with this key.
///
/// # Errors
/// Names the key that was probably meant.
pub(crate) fn find(key: &str) -> Result<&'static Setting, String> {
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) {
        return Ok(setting);
    }
    let likeness = |setting: &&Setting| {
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let whole = strsim::jaro_winkler(setting.key, key);
        let tail = strsim::jaro_winkler(&last(setting.key), &last(key)) * 0.95;
        (whole.max(tail) * 1e6) as u64
    };
    let nearest = SETTINGS.iter().max_by_key(likeness).filter(|of| likeness(of) >= LIKENESS_MIN);
    let hint = nearest.map_or_else(String::new, |of| format!("; did you mean '{}'?", of.key));
    Err(format!("unknown key '{key}'{hint} (`stepwell config` lists all keys)"))
}

/// All settings of `config` as one flat JSON object.
pub(crate) fn to_json(config: &Config) -> Value {
    let pairs = SETTINGS.iter().map(|setting| (setting.key.to_owned(), setting.get(config)));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

/// Settings as [`to_json`] wrote them, as a checkpoint keeps them.
///
/// # Errors
/// When one cannot be read by this build.
pub(crate) fn from_json(value: &Value) -> Result<Config, String> {
    let mut config = Config::default();
    for (key, value) in value.as_object().into_iter().flatten() {
        let setting = find(key)?;
        match value {
            Value::Array(values) => {
                let parts: Vec<String> = values.iter().map(text_of).collect();
                setting.give(&mut config, Given::List(&parts))?;
            }
            value => setting.set(&mut config, &text_of(value))?,
        }
    }
    Ok(config)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
