//! Synchronous SGD through a server: it waits for a gradient of every worker, takes a step along
//! their mean, and pushes the model to all.
//!
//! - **Invariants.** A step uses exactly one gradient of each worker, computed on the model of the
//!   previous step; the sum follows the tree over workers, whatever arrived first.
//! - **Cost.** Per step: the slowest worker, N gradients into the server's link, N + 1 passes over
//!   the parameters on its thread, N models out of its link, one after the other.
//! - **Source.** Lim et al., "RDMA-wild", section 2: the baseline.

use stepwell_fabric::{Fabric, Result};

use crate::number::Number;
use crate::optimizers::{Optimizer, Share};
use crate::options::Options;
use crate::protocol::{Counts, OpenEnded, Protocol, Work, replace};
use crate::windows::{GradientTable, Opening};

#[derive(Debug)]
pub(crate) struct Server<T> {
    steps: u64,
    opening: Opening,
    table: GradientTable,
    model: Vec<T>,
    sum: Vec<T>,
    /// Some lanes of all gradients.
    scratch: Vec<T>,
    optimizer: Box<dyn Optimizer<T>>,
    workers: usize,
    /// Whether the model is yet to be pushed.
    answers: bool,
    counts: Counts,
}

impl<T: Number> Server<T> {
    pub(crate) fn new(
        fabric: &Fabric,
        model: Vec<T>,
        optimizer: Box<dyn Optimizer<T>>,
        options: &Options,
    ) -> Self {
        Self {
            steps: options.steps,
            opening: Opening::default(),
            table: GradientTable::open::<T>(fabric, model.len()),
            sum: vec![T::ZERO; model.len()],
            scratch: Vec::new(),
            optimizer,
            model,
            workers: fabric.size() - 1,
            answers: false,
            counts: Counts::default(),
        }
    }

    fn update(&mut self, fabric: &Fabric) -> Work {
        self.table.sum(fabric, &mut self.scratch, &mut self.sum);
        let (share, rounds) = (Share::whole(self.workers), self.counts.updates as f64);
        self.optimizer.apply(&mut self.model, &self.sum, share, rounds);
        self.counts.updates += 1;
        self.counts.used += self.workers as u64;
        self.answers = true;
        Work::additions::<T>(self.workers + 1, self.model.len())
    }
}

impl<T: Number> Protocol<T> for Server<T> {
    fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        if let Some(work) = self.opening.poll(fabric)? {
            return Ok(work);
        }
        fabric.check()?;
        if std::mem::take(&mut self.answers) {
            let used = vec![self.counts.updates; self.workers];
            for worker in 0..self.workers {
                self.table.push(fabric, worker, &self.model, &used)?;
            }
            return Ok(Work::STEP);
        }
        let is_there = |worker| self.table.version::<T>(fabric, worker) > self.counts.updates;
        if self.ended() || !(0..self.workers).all(is_there) {
            return Ok(Work::NONE);
        }
        Ok(self.update(fabric))
    }

    fn begin(&mut self) -> Option<u64> {
        None
    }

    fn parameters(&self) -> &[T] {
        &self.model
    }

    fn give(&mut self, _: &mut Vec<T>) {
        unreachable!("a server computes no gradient");
    }

    fn ended(&self) -> bool {
        self.counts.updates == self.steps && !self.answers
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl<T: Number> OpenEnded<T> for Server<T> {
    fn end_after(&mut self, gradients: u64) {
        self.steps = gradients;
    }

    fn resume(&mut self, parameters: &[T]) {
        replace(self.ended(), &mut self.model, parameters);
        self.steps = u64::MAX;
    }
}
