//! The dense part in checkpoints and digests: the same sections wherever it is computed.

use std::borrow::Cow;

use stepwell_engine::{Dense, DenseView};
use stepwell_optim::DenseOptimizer;

const PARAMETERS: &str = "parameters";
const STEP: &str = "step";
/// Section of the mean of the parameters.
pub(crate) const AVERAGED: &str = "ema";
/// Section of the graph's state, if it has some.
pub(crate) const STATE: &str = "state";

/// The sections of `parameters`, of `others` by name, and of the optimizer's steps.
pub(super) fn sections<'a>(
    parameters: Cow<'a, [f32]>,
    others: impl Iterator<Item = (&'static str, Cow<'a, [f32]>)>,
    optimizer: &DenseOptimizer,
) -> DenseView<'a> {
    let mut sections = vec![(PARAMETERS.to_owned(), parameters)];
    sections.extend(others.map(|(name, values)| (name.to_owned(), values)));
    sections.push((STEP.to_owned(), Cow::Owned(halves(optimizer.step()).to_vec())));
    DenseView { sections }
}

/// A step count in the form of its section.
fn halves(steps: u64) -> [f32; 2] {
    [steps as u32, (steps >> 32) as u32].map(f32::from_bits)
}

/// `dense` with other parameters, as if after `steps` steps.
pub(super) fn moved(mut dense: Dense, parameters: &[f32], steps: u64) -> Dense {
    for (name, values) in &mut dense.sections {
        match name.as_str() {
            PARAMETERS => values.copy_from_slice(parameters),
            STEP => values.copy_from_slice(&halves(steps)),
            _ => {}
        }
    }
    dense
}

/// The sections of a model of `count` parameters.
#[derive(Clone, Copy)]
pub(super) struct Sections<'a> {
    pub(super) dense: &'a Dense,
    pub(super) count: usize,
}

impl<'a> Sections<'a> {
    /// The parameters.
    ///
    /// # Errors
    /// As for [`Sections::vector`].
    pub(super) fn parameters(self) -> Result<&'a [f32], String> {
        self.vector(PARAMETERS)
    }

    /// A vector with a lane for each parameter.
    ///
    /// # Errors
    /// If it is missing, or of another model.
    pub(super) fn vector(self, name: &str) -> Result<&'a [f32], String> {
        self.section(name, self.count)
    }

    /// The graph's state of `count` lanes.
    ///
    /// # Errors
    /// If it is missing, or of another model.
    pub(super) fn state(self, count: usize) -> Result<&'a [f32], String> {
        if count == 0 { Ok(&[]) } else { self.section(STATE, count) }
    }

    /// The optimizer with the rule of `optimizer`, after the step count stored here.
    ///
    /// # Errors
    /// If the count is missing.
    pub(super) fn optimizer(self, optimizer: &DenseOptimizer) -> Result<DenseOptimizer, String> {
        let step = self.section(STEP, 2)?;
        let step = u64::from(step[0].to_bits()) | u64::from(step[1].to_bits()) << 32;
        Ok(optimizer.at_step(step))
    }

    fn section(self, name: &str, count: usize) -> Result<&'a [f32], String> {
        let found = self.dense.sections.iter().find(|(known, _)| known == name);
        let values = found.map(|(_, values)| values).ok_or(format!("has no dense '{name}'"))?;
        if values.len() == count {
            return Ok(values);
        }
        Err(format!("has {} dense '{name}', this model has {count}", values.len()))
    }
}
