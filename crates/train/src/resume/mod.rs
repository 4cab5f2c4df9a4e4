//! State that a run writes into its checkpoints besides rows and dense parameters, and reads back.

mod idle;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stepwell_base::{KEY_HASH_NAME, hash, random};
use stepwell_engine::Checkpoint;
use stepwell_settings::{
    Config, as_given, model_settings, resumed_settings, to_json, unnamed_text,
};

use self::idle::Idle;
use crate::batch::RunPosition;
use crate::data_file::{DataFile, identify};
use crate::{Error, Result};

/// Key of the setting by which scores are corrected.
pub(crate) const NEGATIVE_RATE: &str = "data.negative_rate";

/// State and settings of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RunState {
    /// Position in the data to resume from.
    pub position: RunPosition,
    /// The data files, in order; empty for the built-in stream.
    pub files: Vec<DataFile>,
    /// File and line where the training part ends; `None` for the end of the files.
    pub train_end: Option<(u32, u64)>,
    /// Settings that the model's bits depend on, by key.
    pub model: Vec<(String, String)>,
    /// All resolved settings, by key.
    pub config: Value,
    /// Instruction sets used for sums.
    pub kernels: String,
    /// Identity of the job: a digest of the data and of the settings that the model's bits depend
    /// on.
    pub job: String,
    /// Data that earlier runs trained to the end, oldest first; `None` in checkpoints of earlier
    /// builds, which also don't record whether their run ended.
    #[serde(default)]
    pub earlier: Option<Vec<DataFile>>,
    /// The checkpoint that a warm start began with.
    #[serde(default)]
    pub began: Option<Began>,
    /// The evaluations so far; `None` before the first.
    #[serde(default)]
    pub waited: Option<Waited>,
    /// The learning rates that fall at plateaus.
    #[serde(default)]
    pub plateaus: FallenRates,
}

/// The learning rates that fall when evaluations no longer improve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FallenRates {
    /// Rate of rows.
    pub rows: FallenRate,
    /// Rate of dense parameters.
    pub dense: FallenRate,
}

/// A learning rate that falls at plateaus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FallenRate {
    /// Number of falls so far.
    pub falls: u64,
    /// The evaluations since the best one or the last fall; `None` before the first.
    pub waited: Option<Waited>,
}

/// A metric of evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Log loss; less is better.
    Logloss,
    /// Root of the mean squared error; less is better.
    Rmse,
    /// AUC; more is better.
    Auc,
}

impl Metric {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logloss => "logloss",
            Self::Rmse => "rmse",
            Self::Auc => "auc",
        }
    }
}

/// The best evaluation of a run, and the number of those after it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// Step of the last evaluation.
    pub evaluated: u64,
    /// Step of the best evaluation.
    pub best: u64,
    /// The metric by which it is the best.
    pub by: Metric,
    /// Its metric.
    pub value: f64,
    /// Number of evaluations after the best one.
    pub evaluations: u64,
    /// Number of such evaluations after which the run ends early; 0 for no limit.
    pub patience: u64,
    /// Hash of the identity of the evaluation data.
    pub data: u64,
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Key of the setting.
    pub(crate) key: String,
    /// Value in the checkpoint.
    pub(crate) was: String,
    /// Value in this run.
    pub(crate) is: String,
}

/// The checkpoint that a warm start began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// Step of the checkpoint.
    pub step: u64,
    /// Job of the checkpoint.
    pub job: String,
}

impl RunState {
    /// The state in the stored form. Its parts use conversions that cannot fail, so that no
    /// checkpoint is ever written with less than the state.
    pub fn to_json(&self) -> Value {
        let Self { position, files, train_end, model, config, kernels, job, earlier, .. } = self;
        let Self { began, waited, plateaus, .. } = self;
        let pair = |(key, value): &(String, String)| Value::from([key.as_str(), value.as_str()]);
        let end = train_end.map(|(file, line)| Value::from([u64::from(file), line]));
        let parts = [
            ("position", position.to_json()),
            ("files", files.iter().map(DataFile::to_json).collect()),
            ("train_end", end.into()),
            ("model", model.iter().map(pair).collect()),
            ("config", config.clone()),
            ("kernels", kernels.as_str().into()),
            ("job", job.as_str().into()),
            ("earlier", earlier.iter().flatten().map(DataFile::to_json).collect()),
            ("began", began.as_ref().map(Began::to_json).into()),
            ("waited", waited.map(Waited::to_json).into()),
            ("plateaus", plateaus.to_json()),
        ];
        parts.into_iter().collect()
    }

    /// Reads the state of a checkpoint.
    ///
    /// # Errors
    /// If the checkpoint was not written by a trainer of this version, or its ids have other keys
    /// or initial values.
    pub fn read(checkpoint: &Checkpoint) -> Result<Self> {
        check_functions(checkpoint)?;
        if checkpoint.is_of_session() {
            let why = "was saved by a program with its own model, which alone can train or score \
                       it; `inspect`, `diff` and `export` read its rows"
                .to_owned();
            return Err(Error::Resume { path: checkpoint.path.clone(), why });
        }
        serde_json::from_value(checkpoint.run.clone()).map_err(|error| Error::Resume {
            path: checkpoint.path.clone(),
            why: format!("its run state cannot be read ({error}); use the build that wrote it"),
        })
    }

    /// Refuses to resume with `now` if that would make another model.
    ///
    /// # Errors
    /// Names the first difference.
    pub fn check(&self, now: &Self, checkpoint: &Checkpoint) -> Result<()> {
        let wrong = |why: String| Err(Error::Resume { path: checkpoint.path.clone(), why });
        let idle = Idle::of(&self.config, &now.config);
        let counts = |(key, _): &&(String, String)| !idle.has(key);
        if let Some((key, was, is)) = self.differs(now.model.iter().filter(counts)) {
            return wrong(format!(
                "was trained with {key} = {}, this run has {}; a resumed run must keep it",
                as_given(&was),
                as_given(is)
            ));
        }
        let mut known = self.model.iter().filter(counts);
        if let Some((key, was)) = known.find(|(k, _)| lacks(&now.model, k)) {
            let was = as_given(was);
            return wrong(format!(
                "was trained with {key} = {was}, this run has none; a resumed run must keep it"
            ));
        }
        if let Some((key, was, is)) = self.read_otherwise(now) {
            return wrong(format!(
                "was trained with {key} = {was}, this run has {is}; a resumed run must keep it, \
                 because positions in the data depend on it"
            ));
        }
        if let Some((why, mend)) = changed(&self.files, &now.files) {
            return wrong(format!("{why}; {mend}"));
        }
        if self.train_end != now.train_end {
            return wrong(format!(
                "was trained up to {}, but this run would train up to {}; a resumed run must keep \
                 data.eval_fraction and data.eval_paths",
                place(self.train_end),
                place(now.train_end)
            ));
        }
        Ok(())
    }

    /// Whether, at this step, the run's own patience was over.
    pub(crate) fn ended_early(&self) -> bool {
        let is_over = |of: Waited| of.patience > 0 && of.evaluations >= of.patience;
        self.waited.is_some_and(is_over)
    }

    /// This state with the data of `other`.
    pub(crate) fn with_data_of(&self, other: &Self) -> Self {
        Self { files: other.files.clone(), train_end: other.train_end, ..self.clone() }
    }

    /// The first setting of how data is read that differs in `now`: its key, old and new value.
    fn read_otherwise(&self, now: &Self) -> Option<(&'static str, String, String)> {
        let said = |value: &Value| match value {
            Value::Null => "none".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        resumed_settings().find_map(|key| {
            let (was, is) = (self.config.get(key)?, now.config.get(key)?);
            (was != is).then(|| (key, said(was), said(is)))
        })
    }

    /// Describes how the data that `config` names differs from the trained data; `None` if it does
    /// not, or if its files cannot be read, which the reader reports.
    pub fn other_data(&self, config: &Config) -> Option<String> {
        let paths = stepwell_data::resolve(&config.data.paths).ok()?;
        let layout = config.drafted().and_then(|drafted| drafted.layout()).ok()?;
        changed(&self.files, &identify(&paths, layout.as_ref()).ok()?).map(|(why, _)| why)
    }

    /// Refuses to evaluate with another model than was trained; data and its division may differ.
    ///
    /// # Errors
    /// Names the first setting that differs.
    pub fn check_model(&self, config: &Config, checkpoint: &Checkpoint) -> Result<()> {
        let mut now = model_settings(config);
        // Scores depend on the negatives that were left out.
        let is_of_data = |key: &str| key.starts_with("data.") && key != NEGATIVE_RATE;
        let idle = Idle::of(&self.config, &to_json(config));
        let counts = |key: &str| !is_of_data(key) && !key.starts_with("synth.") && !idle.has(key);
        now.retain(|(key, _)| counts(key));
        // Settings that are listed only if they differ from their default are missing in `now` if
        // they were changed back.
        let unnamed = self.model.iter().find_map(|(key, was)| {
            let is_kept = key.starts_with("columns.") || key == NEGATIVE_RATE;
            let is = unnamed_text(key).filter(|_| is_kept && !idle.has(key))?;
            lacks(&now, key).then(|| (key.as_str(), was.clone(), is))
        });
        let differs = self.differs(now.iter());
        let differs = differs.map(|(key, was, is)| (key, was, is.to_owned())).or(unnamed);
        match differs {
            None => Ok(()),
            Some((key, was, is)) => Err(Error::Resume {
                path: checkpoint.path.clone(),
                why: format!(
                    "was trained with {key} = {}; scoring must keep it, because {} would be \
                     another model",
                    as_given(&was),
                    as_given(&is)
                ),
            }),
        }
    }

    /// Settings that differ from `now`, in the order of `now`, then settings that are gone.
    pub(crate) fn differences(&self, now: &[(String, String)]) -> Vec<Difference> {
        let changed = now.iter().filter_map(|setting| {
            let (key, was, is) = self.differs([setting])?;
            let is = if is.is_empty() { "none" } else { as_given(is) };
            let (was, is) = (as_given(&was).to_owned(), is.to_owned());
            Some(Difference { key: key.to_owned(), was, is })
        });
        let gone = self.model.iter().filter(|(key, _)| lacks(now, key));
        let gone = gone.map(|(key, was)| {
            let is = "none".to_owned();
            Difference { key: key.clone(), was: as_given(was).to_owned(), is }
        });
        changed.chain(gone).collect()
    }

    /// The first setting of `now` that had another value: its key, old and new value.
    fn differs<'a>(
        &self,
        now: impl IntoIterator<Item = &'a (String, String)>,
    ) -> Option<(&'a str, String, &'a str)> {
        // Settings that a checkpoint of an earlier build lacks had their defaults.
        let defaults = model_settings(&Config::default());
        now.into_iter().find_map(|(key, is)| {
            let in_order = [&self.model, &defaults];
            let was = in_order.iter().find_map(|known| known.iter().find(|(k, _)| k == key));
            let was = was.map(|(_, was)| was.clone());
            let none = || "none".to_owned();
            // Settings that are listed only if they differ from their default had their default.
            let unnamed = || unnamed_text(key);
            // Tables, features, columns and layers that are not named did not exist.
            let parts = ["tables.", "features.", "columns.", "model.layers."];
            let is_part = parts.iter().any(|part| key.starts_with(part));
            let was = was.or_else(unnamed).or_else(|| is_part.then(none));
            let was = was.filter(|was| was != is)?;
            let was = if was.is_empty() { none() } else { was };
            Some((key.as_str(), was, is.as_str()))
        })
    }
}

/// Refuses a checkpoint whose key hash or initial values differ from this build's: the same ids
/// would have other rows.
fn check_functions(checkpoint: &Checkpoint) -> Result<()> {
    let known = [
        ("key_hash", "keys", KEY_HASH_NAME.to_owned()),
        ("initial_values", "initial values", random::initializer_name()),
    ];
    for (field, what, ours) in known {
        let theirs = checkpoint.meta[field].as_str().unwrap_or("a function without a name");
        if theirs != ours {
            return Err(Error::Resume {
                path: checkpoint.path.clone(),
                why: format!(
                    "its {what} were made by '{theirs}', but this build uses '{ours}', so ids \
                     would not find their rows; train from scratch, or use the build that wrote it"
                ),
            });
        }
    }
    Ok(())
}

fn lacks(settings: &[(String, String)], key: &str) -> bool {
    settings.iter().all(|(known, _)| known != key)
}

impl Began {
    fn to_json(&self) -> Value {
        let parts: [(&str, Value); 2] =
            [("step", self.step.into()), ("job", self.job.as_str().into())];
        parts.into_iter().collect()
    }
}

impl FallenRates {
    fn to_json(self) -> Value {
        [("rows", self.rows.to_json()), ("dense", self.dense.to_json())].into_iter().collect()
    }
}

impl FallenRate {
    fn to_json(self) -> Value {
        let waited = Value::from(self.waited.map(Waited::to_json));
        [("falls", self.falls.into()), ("waited", waited)].into_iter().collect()
    }
}

impl Waited {
    fn to_json(self) -> Value {
        let parts: [(&str, Value); 7] = [
            ("evaluated", self.evaluated.into()),
            ("best", self.best.into()),
            ("by", self.by.name().into()),
            ("value", self.value.into()),
            ("evaluations", self.evaluations.into()),
            ("patience", self.patience.into()),
            ("data", self.data.into()),
        ];
        parts.into_iter().collect()
    }
}

/// Digest that identifies a job: settings, data, and the checkpoint a warm start began with.
pub(crate) fn job_of(
    model: &[(String, String)],
    files: &[DataFile],
    end: Option<(u32, u64)>,
    began: Option<&Began>,
) -> String {
    // Jobs of earlier builds keep their digest.
    let file = |of: &DataFile| json!({ "name": of.name, "bytes": of.bytes, "content": of.content });
    let files: Vec<Value> = files.iter().map(file).collect();
    let mut named = json!({ "model": model, "files": files, "train_end": end });
    if let Some(began) = began {
        named["began"] = began.to_json();
    }
    format!("{:032x}", hash::digest128(named.to_string().as_bytes()))
}

/// Describes how `now` differs from `was`, the files that a run read, and what a resumed run does
/// about it.
fn changed(was: &[DataFile], now: &[DataFile]) -> Option<(String, &'static str)> {
    if was == now {
        return None;
    }
    let sorted = |files: &[DataFile]| {
        let mut files: Vec<_> = files.iter().map(|file| (file.name.clone(), file.bytes)).collect();
        files.sort();
        files
    };
    if sorted(was) == sorted(now)
        && let Some((was, now)) = was.iter().zip(now).find(|(was, now)| was.name != now.name)
    {
        let (was, now) = (&was.name, &now.name);
        return Some((
            format!(
                "was trained on the same files in another order, with '{was}' in the place of \
                 '{now}'"
            ),
            "list them one by one in that order: a pattern's matches are sorted by the numbers in \
             their names, but were sorted alphabetically in earlier versions",
        ));
    }
    let same_names = was.len() == now.len() && was.iter().zip(now).all(|(a, b)| a.name == b.name);
    let different = was.iter().zip(now).find(|(was, now)| was != now);
    let Some((was, now)) = different.filter(|_| same_names) else {
        return Some((
            format!("was trained on {}, this run has {}", list(was), list(now)),
            "a resumed run must read the same files in the same order",
        ));
    };
    let name = &was.name;
    let what = if was.bytes == now.bytes {
        "other content".to_owned()
    } else {
        format!("{} bytes, not {}", now.bytes, was.bytes)
    };
    Some((
        format!("was trained on '{name}', which was changed since: it has {what}"),
        "a resumed run must read the same data",
    ))
}

fn list(files: &[DataFile]) -> String {
    let one = |file: &DataFile| format!("'{}' ({} bytes)", file.name, file.bytes);
    match files {
        [] => "the built-in stream".to_owned(),
        [file] => one(file),
        [first, ..] => format!("{} files from {}", files.len(), one(first)),
    }
}

fn place(end: Option<(u32, u64)>) -> String {
    end.map_or_else(
        || "the end of the files".to_owned(),
        |(file, line)| format!("line {line} of file {}", file + 1),
    )
}

#[cfg(test)]
mod tests;
