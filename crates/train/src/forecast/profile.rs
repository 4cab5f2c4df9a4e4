//! Reads the costs of a run of one rank from its report.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::report::{Processor, StageReport};
use crate::{Error, Result};

/// Command that makes a profile.
pub const MAKE: &str = "stepwell train --ranks 1 --report FILE";
/// A shorter run is mostly start-up.
const STEPS_MIN: u64 = 20;
/// Bounds that no run exceeds.
const EXAMPLES_MAX: u64 = 1 << 50;
const SECONDS_MAX: f64 = 1e9;
/// Stages that every run has.
const STAGES: [&str; 7] = ["read", "parse", "batch", "plan", "pull", "train", "write"];
/// Prefixes of the settings that determine the cost of a step.
const COSTLY: [&str; 8] = [
    "model.",
    "optim.",
    "rows.",
    "tables",
    "features.",
    "train.blocks",
    "data.mini_batch",
    "threads",
];
/// Suffixes of settings that may differ despite such a prefix.
const FREE: [&str; 4] = [".lr", ".init_range", ".place", ".dram"];

/// The fields read from a report.
#[derive(Clone, Debug, Deserialize)]
pub struct Profile {
    interrupted: bool,
    pub(super) examples: u64,
    steps: u64,
    eval_by_epoch: Vec<Evaluation>,
    pub(super) train_seconds: f64,
    pub(super) processor: Processor,
    pub(super) compute_seconds: f64,
    pub(super) stages: Vec<StageReport>,
    profile: Vec<Kernel>,
    #[serde(default)]
    by_rank: Vec<Value>,
    config: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Evaluation {
    examples: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Kernel {
    name: String,
    seconds: f64,
}

impl Profile {
    /// Reads the profile at `path`, for runs with `settings`.
    ///
    /// # Errors
    /// A file that cannot be read, is no report, or is of an unsuitable run: names file, field, and
    /// the fix.
    pub fn read(path: &Path, settings: &Value) -> Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Error::Config(format!("cannot read the profile {name}: {error}")))?;
        let profile: Self = serde_json::from_str(&text).map_err(|error| {
            Error::Config(format!(
                "profile {name}: {error}: it is not a report of this version; create one with \
                 `{MAKE}`"
            ))
        })?;
        let checked = profile.check().and_then(|()| profile.check_settings(settings));
        checked.map_err(|why| Error::Config(format!("profile {name}: {why}")))?;
        Ok(profile)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.interrupted {
            return Err("interrupted is true: let the run finish".to_owned());
        }
        if !self.by_rank.is_empty() {
            let ranks = self.by_rank.len();
            return Err(format!(
                "by_rank has {ranks} ranks: create a profile of one rank with `{MAKE}`"
            ));
        }
        if self.steps < STEPS_MIN {
            return Err(format!(
                "steps is {}, too few to measure more than the start of a run: train {STEPS_MIN} \
                 or more, with more data or data.epochs",
                self.steps
            ));
        }
        let (evaluated, trained) = (self.evaluated(), self.examples);
        if !(1..EXAMPLES_MAX).contains(&trained) {
            return Err(format!("examples is {trained}: create a new profile"));
        }
        if evaluated > trained {
            return Err(format!(
                "eval_by_epoch has {evaluated} examples, more than the {trained} trained: lower \
                 data.eval_fraction, or evaluate fewer"
            ));
        }
        if self.processor.cores == 0 {
            return Err("processor.cores is 0: create a new profile".to_owned());
        }
        let of_stages = self.stages.iter().flat_map(|of| [of.busy_seconds, of.cpu_seconds]);
        let of_kernels = self.profile.iter().map(|of| of.seconds);
        let whole = [self.processor.seconds, self.compute_seconds, self.train_seconds];
        let mut parts = of_stages.chain(of_kernels);
        let (most, is_time) = (SECONDS_MAX, |seconds: f64| (0.0..=SECONDS_MAX).contains(&seconds));
        if whole.into_iter().any(|seconds| seconds <= 0.0 || !is_time(seconds)) {
            return Err(format!(
                "train_seconds, processor.seconds and compute_seconds are not all above 0 and at \
                 most {most}: create a new profile"
            ));
        }
        if parts.any(|seconds| !is_time(seconds)) {
            return Err(format!(
                "seconds of stages and kernels are not all from 0 to {most}: create a new profile"
            ));
        }
        for name in STAGES {
            if !self.stages.iter().any(|stage| stage.name == name) {
                return Err(format!("stages has no '{name}': create a new profile"));
            }
        }
        Ok(())
    }

    /// Refuses the costs of another model, or of other steps.
    fn check_settings(&self, settings: &Value) -> std::result::Result<(), String> {
        let is_costly = |key: &str| {
            COSTLY.iter().any(|begin| key.starts_with(begin))
                && !FREE.iter().any(|end| key.ends_with(end))
        };
        let Some(settings) = settings.as_object() else { return Ok(()) };
        let keys = settings.keys().chain(self.config.keys());
        for key in keys.filter(|key| is_costly(key)) {
            let (own, wanted) = (self.config.get(key), settings.get(key));
            if own != wanted {
                let (own, wanted) = (text(own), text(wanted));
                return Err(format!(
                    "config has {key} = {own}, but this plan has {wanted}: plan with the run's \
                     value, or create a profile with the planned one"
                ));
            }
        }
        Ok(())
    }

    /// Number of examples scored in evaluations.
    pub(super) fn evaluated(&self) -> u64 {
        self.eval_by_epoch.iter().map(|of| of.examples).sum()
    }

    /// Number of examples scored in evaluations, without the last one, which follows all training.
    pub(super) fn evaluated_before_last(&self) -> u64 {
        self.evaluated() - self.eval_by_epoch.last().map_or(0, |of| of.examples)
    }

    /// Seconds of the kernels with these names.
    pub(super) fn kernels(&self, names: &[&str]) -> f64 {
        let those = self.profile.iter().filter(|kernel| names.contains(&kernel.name.as_str()));
        those.map(|kernel| kernel.seconds).sum()
    }
}

/// A setting's value; a run without the table or feature has none.
fn text(value: Option<&Value>) -> String {
    match value {
        None => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stage(name: &str) -> Value {
        json!({ "name": name, "busy_seconds": 1.0, "wait_seconds": 0.0, "cpu_seconds": 0.5 })
    }

    fn report() -> Value {
        json!({
            "interrupted": false, "examples": 1000, "steps": 20, "eval_by_epoch": [],
            "processor": { "cores": 2, "seconds": 20.0 }, "compute_seconds": 10.0,
            "train_seconds": 12.0, "stages": STAGES.map(stage), "profile": [],
            "config": { "model.kind": "lr", "optim.rows.lr": 0.1, "data.epochs": 3 },
        })
    }

    /// Error of reading `report` in a plan of `lr`; empty if it was read.
    fn said(report: &Value) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), report.to_string()).unwrap();
        let settings = json!({ "model.kind": "lr", "optim.rows.lr": 0.2, "data.epochs": 1 });
        match Profile::read(file.path(), &settings) {
            Ok(_) => String::new(),
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains(&file.path().display().to_string()), "{said}");
                assert_eq!(said.lines().count(), 1, "{said}");
                said
            }
        }
    }

    #[test]
    fn what_costs_nothing_may_differ() {
        assert_eq!(said(&report()), "");
    }

    #[test]
    fn what_tells_nothing_is_refused_by_field() {
        let zero = json!({ "cores": 2, "seconds": 0.0 });
        let none = json!({ "cores": 0, "seconds": 1.0 });
        let mut wrong = stage("read");
        wrong["busy_seconds"] = json!(-1.0);
        for (field, value, answer) in [
            ("interrupted", json!(true), "interrupted is true: let the run"),
            ("by_rank", json!([{}, {}]), "by_rank has 2 ranks: create a profile of one"),
            ("steps", json!(19), "steps is 19, too few to measure more than the start of a run"),
            ("eval_by_epoch", json!([{ "examples": 1001 }]), "lower data.eval_fraction"),
            ("processor", zero, "compute_seconds are not all above 0"),
            ("processor", none, "processor.cores is 0"),
            ("compute_seconds", json!(0.0), "compute_seconds are not all above 0"),
            ("compute_seconds", json!("x"), "invalid type"),
            ("compute_seconds", json!(1e300), "compute_seconds are not all above 0 and at most"),
            ("stages", json!([wrong]), "seconds of stages and kernels are not all from 0 to"),
            ("stages", json!([]), "stages has no 'read'"),
            ("examples", json!(0), "examples is 0: create a new profile"),
            ("examples", json!(u64::MAX), "examples is 18446744073709551615"),
            ("config", json!({ "model.kind": "dcn" }), "model.kind = dcn, but this plan has lr"),
            ("config", json!({}), "model.kind = none, but this plan has lr"),
            (
                "config",
                json!({ "model.kind": "lr", "tables": ["a"] }),
                "tables = [\"a\"], but this plan has none",
            ),
        ] {
            let mut report = report();
            report[field] = value;
            let said = said(&report);
            assert!(said.contains(answer), "{field}: {said}");
        }
    }

    #[test]
    fn a_field_that_is_missing_is_named() {
        for field in ["interrupted", "processor", "compute_seconds", "stages", "config"] {
            let mut report = report();
            report.as_object_mut().unwrap().remove(field);
            let said = said(&report);
            assert!(said.contains(&format!("missing field `{field}`")), "{said}");
            assert!(said.contains("create one with `stepwell train"), "{said}");
        }
    }
}
