//! Reads the dense part of a checkpoint from tensors.

use std::path::Path;

use stepwell_engine::{Checkpoint, Dense};
use stepwell_optim::Adagrad;
use stepwell_settings::{self as settings, OptimizerConfig};
use stepwell_train::{RunState, dense_parameters};

use super::origin::check_about;
use super::reader::TensorReader;
use super::rows::check_value;
use crate::export::tensors::{Kind, Tensor};
use crate::export::{MEAN, State, VECTORS, dotted};
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
    let parameters = dense_parameters(&config)?;
    let count = parameters.last().map_or(0, |last| last.range.end);
    let mut dense = like.dense.clone();
    let is_vector = |(name, values): &(String, Vec<f32>)| {
        VECTORS.contains(&name.as_str()) && values.len() == count
    };
    if dense.sections.first().is_none_or(|first| first.0 != VECTORS[0] || !is_vector(first)) {
        let path = like.path.display();
        let why = format!("{path}: its dense part does not match its settings");
        return Err(Failure::Damage(why));
    }
    let name_of = |parameter: &str, section: &str| match section {
        "parameters" => dotted(parameter),
        state => format!("{}.{state}", dotted(parameter)),
    };
    let known = |name: &str| {
        let of = |section: &str| parameters.iter().any(|of| name_of(&of.name, section) == name);
        VECTORS.iter().any(|section| of(section))
    };
    file.refuse_others(known)?;
    let mut sections: Vec<_> =
        dense.sections.iter_mut().filter(|section| is_vector(section)).collect();
    if state == State::Dropped {
        let OptimizerConfig { lr, initial, .. } = config.optim.dense;
        let initial = initial.unwrap_or(Adagrad::new(lr).initial) as f32;
        let begin = |name: &str| if name == SUM { initial } else { 0.0 };
        sections.drain(1..).for_each(|(name, values)| values.fill(begin(name)));
    }
    for (section, values) in sections {
        for parameter in &parameters {
            let tensor = Tensor {
                name: name_of(&parameter.name, section),
                kind: Kind::F32,
                shape: parameter.shape.iter().map(|extent| *extent as u64).collect(),
            };
            if section != VECTORS[0] && !file.has(&tensor.name) {
                return Err(file
                    .wrong(format_args!(
                        "has no tensor '{}': export with --state, or give --fresh-state",
                        tensor.name
                    ))
                    .into());
            }
            file.check(&tensor)?;
            let values = &mut values[parameter.range.clone()];
            file.read(&tensor.name, 0, bytemuck::cast_slice_mut(values))?;
            let wrong = |why| file.wrong(format_args!("tensor '{}': {why}", tensor.name));
            values.iter().try_for_each(|value| check_value(section, *value)).map_err(wrong)?;
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
