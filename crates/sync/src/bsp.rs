//! Bulk-synchronous steps: every rank's gradient is in every step.
//!
//! ```text
//! begin ─► gradient ─► sum over all ranks ─► step along its mean ─► begin
//! ```
//!
//! - **Invariants.** All ranks have the same parameters, to the bit, after each step; no gradient
//!   is older than the parameters that it changes; the bits do not depend on what arrives first.
//! - **Cost.** A step takes as long as the slowest rank, and two rounds of messages.

use stepwell_fabric::{Fabric, Result, Tag};

use crate::all_reduce::{AllReduce, Member};
use crate::number::Number;
use crate::optimizers::{Optimizer, Share};
use crate::options::Options;
use crate::protocol::{Counts, OpenEnded, Protocol, Work, replace};

const TAGS: [Tag; 2] = [Tag(0x5300), Tag(0x5301)];

#[derive(Debug)]
pub(crate) struct Bsp<T> {
    options: Options,
    parameters: Vec<T>,
    gradient: Vec<T>,
    optimizer: Box<dyn Optimizer<T>>,
    reduce: AllReduce<T>,
    state: State,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next gradient may begin.
    Ready,
    Computing,
    /// The gradient is computed.
    Given,
    Reducing,
}

impl<T: Number> Bsp<T> {
    pub(crate) fn new(
        fabric: &Fabric,
        parameters: Vec<T>,
        optimizer: Box<dyn Optimizer<T>>,
        options: &Options,
    ) -> Self {
        let members = (0..fabric.size()).collect();
        Self {
            gradient: vec![T::ZERO; parameters.len()],
            optimizer,
            reduce: AllReduce::new(fabric, members, TAGS, parameters.len()),
            options: options.clone(),
            parameters,
            state: State::Ready,
            counts: Counts::default(),
        }
    }
}

impl<T: Number> Protocol<T> for Bsp<T> {
    fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        match self.state {
            State::Ready | State::Computing => Ok(Work::NONE),
            State::Given => {
                self.reduce.start(fabric, 1, Member::Continues, &self.gradient)?;
                self.state = State::Reducing;
                Ok(Work::STEP)
            }
            State::Reducing => {
                let (work, reduced) = self.reduce.poll(fabric)?;
                let Some(reduced) = reduced else { return Ok(work) };
                let share = Share::whole(reduced.gradients as usize);
                let rounds = self.counts.updates as f64;
                self.optimizer.apply(&mut self.parameters, self.reduce.sum(), share, rounds);
                self.counts.updates += 1;
                self.counts.used += 1;
                self.state = State::Ready;
                Ok(work.and(Work::additions::<T>(1, self.parameters.len())))
            }
        }
    }

    fn begin(&mut self) -> Option<u64> {
        if self.state != State::Ready || self.ended() {
            return None;
        }
        self.state = State::Computing;
        Some(self.counts.given)
    }

    fn parameters(&self) -> &[T] {
        &self.parameters
    }

    fn give(&mut self, gradient: &mut Vec<T>) {
        assert_eq!(self.state, State::Computing, "the gradient was begun");
        assert_eq!(gradient.len(), self.gradient.len(), "the gradient covers all parameters");
        std::mem::swap(&mut self.gradient, gradient);
        self.counts.given += 1;
        self.state = State::Given;
    }

    fn ended(&self) -> bool {
        self.counts.updates == self.options.steps
    }

    fn counts(&self) -> Counts {
        let waits = matches!(self.state, State::Given | State::Reducing);
        Counts { left: u64::from(waits), ..self.counts }
    }
}

impl<T: Number> OpenEnded<T> for Bsp<T> {
    fn end_after(&mut self, gradients: u64) {
        assert!(self.counts.given <= gradients, "more gradients than the last one");
        self.options.steps = gradients;
    }

    fn resume(&mut self, parameters: &[T]) {
        replace(self.ended(), &mut self.parameters, parameters);
        self.options.steps = u64::MAX;
    }
}
