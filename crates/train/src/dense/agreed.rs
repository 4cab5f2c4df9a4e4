//! The dense optimizer for protocols, which move parameters by it, and its state in checkpoints.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_engine::Dense;
use stepwell_optim::{DenseOptimizer, DenseState, Schedule, square_sum_of};
use stepwell_sync::{Optimizer, Share};

use super::LANES;
use super::sections::{Sections, sections};
use crate::Result;
use crate::run_plan::DensePlan;

/// The optimizer of a protocol's parameters; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct AgreedOptimizer(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    optimizer: DenseOptimizer,
    schedule: Schedule,
    state: DenseState,
    scaled: Vec<f32>,
}

impl AgreedOptimizer {
    /// The optimizer of `count` parameters, before its first step.
    ///
    /// # Errors
    /// If its settings are invalid.
    pub(crate) fn new(plan: DensePlan, count: usize) -> Result<Self> {
        let optimizer = plan.optimizer()?;
        let state = State {
            optimizer,
            schedule: plan.schedule,
            state: DenseState::new(&plan.rule, count),
            scaled: vec![0.0; count],
        };
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// The most bytes of an optimizer for `count` parameters.
    pub(crate) fn bytes_max(count: usize) -> usize {
        3 * count * size_of::<f32>()
    }

    /// The sections of these parameters and of its state, as in a dense part.
    pub(crate) fn sections(&self, parameters: &[f32]) -> Dense {
        let State { optimizer, state, .. } = &*self.state();
        let state = state.vectors().map(|(name, values)| (name, Cow::Borrowed(values)));
        sections(Cow::Borrowed(parameters), state, optimizer).to_dense()
    }

    /// Loads the state of a dense part; returns its parameters.
    ///
    /// # Errors
    /// Describes what does not fit this model.
    pub(crate) fn load(&self, dense: &Dense) -> std::result::Result<Vec<f32>, String> {
        let State { optimizer, state, scaled, .. } = &mut *self.state();
        let sections = Sections { dense, count: scaled.len() };
        for (name, values) in state.vectors_mut() {
            values.copy_from_slice(sections.vector(name)?);
        }
        *optimizer = sections.optimizer(optimizer)?;
        Ok(sections.parameters()?.to_vec())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Optimizer<f32> for AgreedOptimizer {
    /// Uses the optimizer's own rate times the rate of `share`, in every round.
    fn apply(&mut self, parameters: &mut [f32], gradient: &[f32], share: Share, _rounds: f64) {
        let State { optimizer, schedule, state, scaled } = &mut *self.state();
        let lanes = scaled.iter_mut().zip(gradient);
        lanes.for_each(|(scaled, lane)| *scaled = *lane * share.mean as f32);
        // Ranks out of step have no other count in common.
        let rate = schedule.factor(optimizer.step()) * share.of_round;
        let mut step = optimizer.begin_step().times(rate);
        if step.clips() {
            let parts = scaled.chunks(LANES).map(|part| f64::from(square_sum_of(part)));
            step.clip(parts.sum());
        }
        step.apply(parameters, state.whole(), scaled);
    }
}
