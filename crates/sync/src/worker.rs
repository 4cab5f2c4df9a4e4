//! A worker of a server: it pushes a gradient, and computes the next one on the model that it
//! receives. Which gradients the server waits for in between is the server's decision, so
//! `sync_dsgd` and `rdma_wild` have the same workers.
//!
//! - **Invariants.** A worker puts a gradient only after the server has used the previous one
//!   (SYNC-I1).
//! - **Cost.** The model is copied out of its window, since its learner must not delay others'
//!   puts; the paper's workers compute on the window itself.
//! - **Source.** Lim et al., "RDMA-wild", algorithm 2.

use stepwell_fabric::{Fabric, Result};

use crate::hazard_rules::Rule;
use crate::number::Number;
use crate::options::Options;
use crate::protocol::{Counts, OpenEnded, Protocol, Work, replace};
use crate::windows::{ModelWindow, Opening};

/// The gradients of one update by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateOf {
    /// Each worker's alone.
    Each,
    /// All workers' together.
    All,
}

/// A worker of a server.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    options: Options,
    opening: Opening,
    window: ModelWindow,
    model: Vec<T>,
    gradient: Vec<T>,
    state: State,
    counts: Counts,
    /// Number of updates in the model, if each gradient is one update.
    clock: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Computing,
    Given,
    /// The gradient was pushed, and is not known to be used.
    Waiting,
}

impl<T: Number> Worker<T> {
    /// A worker that begins with `model`.
    pub(crate) fn new(
        fabric: &Fabric,
        model: Vec<T>,
        options: &Options,
        updates: UpdateOf,
    ) -> Self {
        Self {
            clock: (updates == UpdateOf::Each).then_some(0),
            opening: Opening::default(),
            window: ModelWindow::open::<T>(fabric, model.len()),
            gradient: vec![T::ZERO; model.len()],
            options: options.clone(),
            model,
            state: State::Ready,
            counts: Counts::default(),
        }
    }
}

impl<T: Number> Protocol<T> for Worker<T> {
    fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        if let Some(work) = self.opening.poll(fabric)? {
            return Ok(work);
        }
        fabric.check()?;
        match self.state {
            State::Given => {
                let version = self.counts.given;
                self.window.push(fabric, &self.gradient, version, self.options.rules)?;
                self.state = State::Waiting;
                Ok(Work::STEP)
            }
            State::Waiting => {
                let waits = self.options.rules.hold(Rule::WaitForUsed);
                let used = self.window.used::<T>(fabric);
                let last = self.counts.given == self.options.steps;
                if used < self.counts.given && (waits || last) {
                    return Ok(Work::NONE);
                }
                if used > 0 {
                    self.window.read(fabric, &mut self.model);
                }
                if let Some(clock) = &mut self.clock {
                    *clock = self.window.used_of_all::<T>(fabric);
                }
                self.counts.updates += 1;
                self.state = State::Ready;
                Ok(Work::copy::<T>(self.model.len()))
            }
            State::Ready | State::Computing => Ok(Work::NONE),
        }
    }

    fn begin(&mut self) -> Option<u64> {
        if self.state != State::Ready || !self.opening.is_over() || self.ended() {
            return None;
        }
        self.state = State::Computing;
        Some(self.counts.given)
    }

    fn parameters(&self) -> &[T] {
        &self.model
    }

    fn give(&mut self, gradient: &mut Vec<T>) {
        assert_eq!(self.state, State::Computing, "the gradient was begun");
        assert_eq!(gradient.len(), self.gradient.len(), "the gradient covers all parameters");
        std::mem::swap(&mut self.gradient, gradient);
        self.counts.given += 1;
        self.state = State::Given;
    }

    fn ended(&self) -> bool {
        self.counts.given == self.options.steps && self.state == State::Ready
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn clock(&self) -> u64 {
        self.clock.unwrap_or(self.counts.updates)
    }
}

impl<T: Number> OpenEnded<T> for Worker<T> {
    fn end_after(&mut self, gradients: u64) {
        assert!(self.counts.given <= gradients, "more gradients than the last one");
        self.options.steps = gradients;
    }

    fn resume(&mut self, parameters: &[T]) {
        replace(self.ended(), &mut self.model, parameters);
        self.options.steps = u64::MAX;
    }
}
