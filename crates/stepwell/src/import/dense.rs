//! Reads the dense part of a checkpoint from tensors.

use std::path::Path;

use stepwell_engine::{Checkpoint, Dense};
use stepwell_optim::Adagrad;
use stepwell_settings as settings;
use stepwell_train::{ParameterSpec, RunState, dense_parts};

use super::origin::check_about;
use super::reader::TensorReader;
use super::rows::check_value;
use crate::export::tensors::Tensor;
use crate::export::{MEAN, STATE, State, VECTORS, tensors_of};
use crate::failure::Failure;

/// The state of adagrad, whose initial value is a setting.
const SUM: &str = "sum";
/// The step count of the dense optimizer, which restarts with its state.
const STEP: &str = "step";
/// Prefix of the sections with earlier versions of rows, for stale reads.
const STALE: &str = "ssp ";

/// The dense part of `like`, with values from the tensors in the file at `path`; without `state`,
/// only parameters are read.
pub(super) fn read(path: &Path, like: &Checkpoint, state: State) -> Result<Dense, Failure> {
    let file = TensorReader::open(path)?;
    check_about(&file, like)?;
    let config = settings::from_json(&RunState::read(like)?.config)?;
    let parts = dense_parts(&config)?;
    let mut dense = like.dense.clone();
    let is_known =
        |(name, values): &(String, Vec<f32>)| tensors_of(&parts, (name, values)).is_some();
    if dense.sections.first().is_none_or(|first| first.0 != VECTORS[0] || !is_known(first)) {
        let path = like.path.display();
        let why = format!("{path}: its dense part does not match its settings");
        return Err(Failure::Damage(why));
    }
    let is_named = |specs: &[ParameterSpec], section: &str, name: &str| {
        specs.iter().any(|spec| Tensor::of_section(section, spec).name == name)
    };
    file.refuse_others(|name: &str| {
        is_named(&parts.state, STATE, name)
            || VECTORS.iter().any(|section| is_named(&parts.parameters, section, name))
    })?;
    let mut sections: Vec<_> =
        dense.sections.iter_mut().filter(|section| is_known(section)).collect();
    if state == State::Dropped {
        let usual = Adagrad::new(config.dense_rate()).initial;
        let initial = config.optim.dense.initial.unwrap_or(usual) as f32;
        let begin = |name: &str| if name == SUM { initial } else { 0.0 };
        let is_begun = |name: &str| ![VECTORS[0], STATE].contains(&name);
        let begun = sections.iter_mut().filter(|(name, _)| is_begun(name));
        begun.for_each(|(name, values)| values.fill(begin(name)));
        sections.retain(|(name, _)| !is_begun(name));
    }
    for (section, values) in sections {
        let section = section.as_str();
        for spec in tensors_of(&parts, (section, values)).unwrap_or_default() {
            let tensor = Tensor::of_section(section, spec);
            if ![VECTORS[0], STATE].contains(&section) && !file.has(&tensor.name) {
                return Err(file
                    .wrong(format_args!(
                        "has no tensor '{}': export with --state, or give --fresh-state",
                        tensor.name
                    ))
                    .into());
            }
            file.check(&tensor)?;
            let values = &mut values[spec.range.clone()];
            file.read(&tensor.name, 0, bytemuck::cast_slice_mut(values))?;
            let wrong = |why| file.wrong(format_args!("tensor '{}': {why}", tensor.name));
            let part = if section == STATE { last_of(&spec.name) } else { section };
            values.iter().try_for_each(|value| check_value(part, *value)).map_err(wrong)?;
        }
    }
    if state == State::Dropped {
        let parameters = dense.sections[0].1.clone();
        let means = dense.sections.iter_mut().filter(|(name, _)| name == MEAN);
        means.for_each(|(_, values)| values.clone_from(&parameters));
        dense.sections.retain(|(name, _)| !name.starts_with(STALE));
        let steps = dense.sections.iter_mut().filter(|(name, _)| name == STEP);
        steps.for_each(|(_, values)| values.fill(0.0));
    }
    Ok(dense)
}

/// The part of a layer that a name ends with.
fn last_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
