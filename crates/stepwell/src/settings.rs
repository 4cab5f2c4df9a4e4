//! Settings as text: one table that configuration files, flags, reports and help are made from.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use stepwell_base::ByteCount;
use stepwell_mem::PolicyKind;
use stepwell_nn::Precision;
use stepwell_optim::Storage;
use stepwell_train::Config;
use stepwell_train::config::{ModelKind, OptimizerConfig, OptimizerKind};

/// One setting: its key, what it means, how it is read and shown.
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) help: &'static str,
    set: fn(&mut Config, &str) -> Result<(), String>,
    get: fn(&Config) -> Value,
}

macro_rules! setting {
    ($key:literal, $help:literal, number $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, text| number(text).map(|value| config.$($field).+ = value),
            get: |config| json!(config.$($field).+),
        }
    };
    ($key:literal, $help:literal, policy $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, text| policy(text).map(|value| config.$($field).+ = value),
            get: |config| json!(config.$($field).+.name()),
        }
    };
    ($key:literal, $help:literal, bytes $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, text| bytes(text).map(|value| config.$($field).+ = value),
            get: |config| json!(config.$($field).+.0),
        }
    };
    ($key:literal, $help:literal, path $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, text| {
                config.$($field).+ = (!text.is_empty()).then(|| PathBuf::from(text));
                Ok(())
            },
            get: |config| json!(config.$($field).+),
        }
    };
    ($key:literal, $help:literal, list $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, text| {
                config.$($field).+ = list(text);
                Ok(())
            },
            get: |config| json!(config.$($field).+),
        }
    };
    ($key:literal, $help:literal, kind $($field:ident).+) => {
        Setting {
            key: $key,
            help: $help,
            set: |config, text| optimizer(text).map(|kind| config.$($field).+.kind = kind),
            get: |config| json!(optimizer_name(&config.$($field).+)),
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
    setting!("data.eval_fraction", "share of the data, its tail in file order, for evaluation",
        number data.eval_fraction),
    setting!("data.epochs", "times the training part is read", number data.epochs),
    setting!("data.mini_batch", "examples per step", number data.mini_batch),
    setting!("data.batch",
        "examples planned and pulled at once, a multiple of data.mini_batch (0: one mini-batch)",
        number data.batch),
    setting!("data.skip_max",
        "malformed lines that are skipped; one more, or one over 256 KiB, stops the run",
        number data.skip_max),
    setting!("data.cache",
        "packed file that an epoch makes of text, for later epochs and runs to read (empty: none)",
        path data.cache),
    setting!("synth.examples", "examples of the built-in stream", number synth.examples),
    setting!("synth.vocab_scale", "vocabulary of the built-in stream, times that of a real sample",
        number synth.vocab_scale),
    Setting {
        key: "model.kind",
        help: "lr, wide_deep, deepfm, dcn or dlrm",
        set: |config, text| model(text).map(|kind| config.model.kind = kind),
        get: |config| json!(config.model.kind.name()),
    },
    setting!("model.dim", "lanes of an embedding", number model.dim),
    Setting {
        key: "model.hidden",
        help: "widths of the hidden layers, such as 512,256,128",
        set: |config, text| widths(text).map(|hidden| config.model.hidden = hidden),
        get: |config| json!(config.model.hidden),
    },
    setting!("model.cross_layers", "cross layers of dcn", number model.cross_layers),
    Setting {
        key: "model.bottom",
        help: "widths of the layers of dlrm over the dense features; one of model.dim follows them",
        set: |config, text| widths(text).map(|bottom| config.model.bottom = bottom),
        get: |config| json!(config.model.bottom),
    },
    setting!("model.init_range", "embeddings begin uniform in plus or minus this",
        number model.init_range),
    Setting {
        key: "model.precision",
        help: "f32, or bf16: operands of matrix products are rounded to it, sums stay f32",
        set: |config, text| precision(text).map(|precision| config.model.precision = precision),
        get: |config| json!(config.model.precision.name()),
    },
    setting!("train.blocks", "blocks of a mini-batch, the unit of summation", number model.blocks),
    setting!("tiers.dram", "bytes of the rows in memory with their index and metadata",
        bytes tiers.dram),
    setting!("tiers.ssd", "directory of the store (empty: a temporary one)", path tiers.ssd),
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
        number life.history),
    setting!("rows.sketch",
        "bytes of the sketch that counts for rows.admit_after; with 8 an id, one in forty is early",
        bytes life.sketch),
    Setting {
        key: "rows.storage",
        help: "f32, f16 or bf16: how rows keep their weights, rounded stochastically to 16 bits",
        set: |config, text| storage(text).map(|storage| config.storage = storage),
        get: |config| json!(config.storage.name()),
    },
    setting!("optim.rows.kind", "sgd, adagrad or adam for rows", kind rows),
    setting!("optim.rows.lr", "learning rate of rows", number rows.lr),
    setting!("optim.dense.kind", "sgd, adagrad or adam for dense parameters", kind dense),
    setting!("optim.dense.lr", "learning rate of dense parameters", number dense.lr),
    setting!("checkpoint.dir", "directory of checkpoints (empty: none)", path checkpoint.dir),
    setting!("checkpoint.every", "steps between checkpoints (0: one at the end)",
        number checkpoint.every),
    setting!("checkpoint.keep", "checkpoints of this run that are kept", number checkpoint.keep),
];

impl Setting {
    /// Reads `text` into `config`.
    pub(crate) fn set(&self, config: &mut Config, text: &str) -> Result<(), String> {
        (self.set)(config, text.trim()).map_err(|why| format!("{} = {text}: {why}", self.key))
    }

    /// The value in `config`.
    pub(crate) fn get(&self, config: &Config) -> Value {
        (self.get)(config)
    }
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
        find(key)?.set(&mut config, &text_of(value))?;
    }
    Ok(config)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(values) => values.iter().map(text_of).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    let plain = text.replace('_', "");
    plain.parse().map_err(|_| {
        let kind = match std::any::type_name::<T>() {
            "f64" => "a number",
            "bool" => "true or false",
            "u8" => "a whole number up to 255",
            _ => "a whole number",
        };
        format!("give {kind}")
    })
}

fn bytes(text: &str) -> Result<ByteCount, String> {
    text.parse().map_err(|error: stepwell_base::bytes::ByteCountError| error.to_string())
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn widths(text: &str) -> Result<Vec<usize>, String> {
    list(text).iter().map(|width| number(width)).collect()
}

const OPTIMIZERS: [(&str, OptimizerKind); 3] = [
    ("sgd", OptimizerKind::Sgd),
    ("adagrad", OptimizerKind::Adagrad),
    ("adam", OptimizerKind::Adam),
];

pub(crate) fn model(text: &str) -> Result<ModelKind, String> {
    named(&ModelKind::ALL.map(|kind| (kind.name(), kind)), text)
}

fn precision(text: &str) -> Result<Precision, String> {
    named(&Precision::ALL.map(|precision| (precision.name(), precision)), text)
}

fn policy(text: &str) -> Result<PolicyKind, String> {
    named(&PolicyKind::ALL.map(|kind| (kind.name(), kind)), text)
}

fn storage(text: &str) -> Result<Storage, String> {
    named(&Storage::ALL.map(|storage| (storage.name(), storage)), text)
}

fn optimizer(text: &str) -> Result<OptimizerKind, String> {
    named(&OPTIMIZERS, text)
}

fn optimizer_name(config: &OptimizerConfig) -> &'static str {
    OPTIMIZERS.iter().find(|(_, known)| *known == config.kind).map_or("", |(name, _)| name)
}

fn named<T: Copy>(known: &[(&str, T)], text: &str) -> Result<T, String> {
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("give one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_survives_its_own_text() {
        let mut config = Config::default();
        for (key, text) in [
            ("data.paths", "a.tsv, b*.tsv"),
            ("model.kind", "lr"),
            ("model.hidden", "64,32"),
            ("model.cross_layers", "2"),
            ("model.bottom", "32"),
            ("model.precision", "bf16"),
            ("tiers.dram", "64MiB"),
            ("tiers.ssd", "/tmp/x"),
            ("data.cache", "/tmp/y"),
            ("optim.rows.kind", "adam"),
            ("rows.storage", "bf16"),
            ("data.eval_fraction", "0.25"),
        ] {
            find(key).unwrap().set(&mut config, text).unwrap();
        }
        assert_eq!(config.tiers.dram, ByteCount(64 << 20));
        assert_eq!(from_json(&to_json(&config)).unwrap(), config);
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_likely_one() {
        let error = |key| find(key).err().unwrap();
        assert!(error("tiers.drm").contains("'tiers.dram'"), "{}", error("tiers.drm"));
        assert!(error("lookahead").contains("'pipeline.lookahead'"), "{}", error("lookahead"));
        assert!(error("optim.lr").contains("lr'"), "{}", error("optim.lr"));
        for nothing in ["", "foo", "1", "zzz.qq"] {
            assert!(!error(nothing).contains("did you mean"), "{}", error(nothing));
        }
    }

    #[test]
    fn a_value_of_the_wrong_kind_names_its_key() {
        let mut config = Config::default();
        let mut error = |key: &str, text| find(key).unwrap().set(&mut config, text).unwrap_err();
        assert_eq!(error("data.epochs", "two"), "data.epochs = two: give a whole number");
        assert!(error("model.kind", "din").contains("lr, wide_deep, deepfm, dcn, dlrm"));
        assert!(error("tiers.dram", "lots").contains("64MiB"));
        let refused = error("rows.storage", "f8");
        assert_eq!(refused, "rows.storage = f8: give one of f32, f16, bf16");
    }
}
