//! Differences of the dense parts of two checkpoints.

use std::ops::Range;

use serde_json::{Value, json};
use stepwell_engine::Checkpoint;
use stepwell_settings as settings;
use stepwell_train::{RunState, dense_parts};

use crate::export::{STATE, VECTORS, dotted};
use crate::failure::Failure;

/// The section of the parameters.
const PARAMETERS: &str = VECTORS[0];

/// Difference of two vectors of the same length.
struct Difference {
    values: usize,
    changed: usize,
    most: f64,
    sum: f64,
}

impl Difference {
    fn of(a: &[f32], b: &[f32]) -> Self {
        let mut difference = Self { values: a.len(), changed: 0, most: 0.0, sum: 0.0 };
        for (a, b) in a.iter().zip(b) {
            if a.to_bits() == b.to_bits() {
                continue;
            }
            difference.changed += 1;
            let by = (f64::from(*a) - f64::from(*b)).abs();
            // A NaN must show up as the greatest difference.
            difference.most = if by.is_nan() { by } else { difference.most.max(by) };
            difference.sum += by;
        }
        difference
    }

    /// The difference as JSON; the amounts are null unless the values are `numbers`, and not counts
    /// or keys stored in the bits of numbers.
    fn to_json(&self, name: &str, numbers: bool) -> Value {
        json!({
            "name": name,
            "values": self.values,
            "changed": self.changed,
            "most": numbers.then_some(self.most),
            "mean": numbers.then(|| self.sum / self.values.max(1) as f64),
        })
    }
}

/// All differences of the dense parts: parameters by name, then other sections.
pub(super) fn compare(a: &Checkpoint, b: &Checkpoint) -> Result<Value, Failure> {
    let (of_a, of_b) = (parameters(a)?, parameters(b)?);
    let (values_a, values_b) = (section(a, PARAMETERS), section(b, PARAMETERS));
    let (mut layers, mut only_a) = (Vec::new(), Vec::new());
    for (name, range) in &of_a {
        let other = of_b.iter().find(|(other, there)| other == name && there.len() == range.len());
        let mine = values_a.and_then(|values| values.get(range.clone()));
        let others = other.and_then(|(_, range)| values_b?.get(range.clone()));
        match (mine, others) {
            (Some(mine), Some(others)) => {
                layers.push(Difference::of(mine, others).to_json(name, true));
            }
            _ => only_a.push(name.clone()),
        }
    }
    let in_both =
        |name: &String| layers.iter().any(|layer| layer["name"].as_str() == Some(name.as_str()));
    let only_b: Vec<&String> = of_b.iter().map(|(name, _)| name).filter(|n| !in_both(n)).collect();
    let (mut state, mut other) = (Vec::new(), Vec::new());
    for name in names(a, b) {
        match (section(a, &name), section(b, &name)) {
            (Some(mine), Some(others)) if mine.len() == others.len() => {
                let numbers = name == STATE || VECTORS.contains(&name.as_str());
                state.push(Difference::of(mine, others).to_json(&name, numbers));
            }
            _ => other.push(name),
        }
    }
    let changed = |of: &[Value]| of.iter().any(|entry| entry["changed"] != 0);
    let differ = changed(&layers)
        || changed(&state)
        || !(only_a.is_empty() && only_b.is_empty() && other.is_empty());
    Ok(json!({
        "differ": differ,
        "layers": layers,
        "layers_only_in_a": only_a,
        "layers_only_in_b": only_b,
        "state": state,
        "state_of_other_shape": other,
    }))
}

/// Names of all sections of either checkpoint, except the parameters.
fn names(a: &Checkpoint, b: &Checkpoint) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in a.dense.sections.iter().chain(&b.dense.sections) {
        if name != PARAMETERS && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn section<'a>(of: &'a Checkpoint, name: &str) -> Option<&'a [f32]> {
    let found = of.dense.sections.iter().find(|(known, _)| known == name);
    found.map(|(_, values)| values.as_slice())
}

/// Names of the parameters and their ranges in the section; none for a session, whose model is its
/// caller's.
fn parameters(of: &Checkpoint) -> Result<Vec<(String, Range<usize>)>, Failure> {
    if of.is_of_session() {
        return Ok(Vec::new());
    }
    let state = RunState::read(of)?;
    let config = settings::from_json(&state.config)?;
    let parts = dense_parts(&config)?;
    Ok(parts.parameters.into_iter().map(|of| (dotted(&of.name), of.range)).collect())
}
