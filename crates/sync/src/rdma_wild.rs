//! RDMA-wild: workers push gradients when they have them; a server uses each as it finds it and
//! answers exactly the workers whose gradients it used.
//!
//! ```text
//! worker   wait until the last gradient was used ─► compute ─► put gradient, then version
//! server   for each worker: a new version? ─► w = w - rate / N g, note the version
//!          ─► put model, then versions, to those workers
//! ```
//!
//! - **Invariants.** Between two puts of a worker the server has used the first (SYNC-I1), so none
//!   is lost; the server records what it used (SYNC-I2), so none is used twice; a version appears
//!   after its data (SYNC-I3). A worker's gradient is at most N - 1 updates old when all are
//!   equally fast.
//! - **Cost.** The server copies each gradient out of its window, rewrites the model for it on one
//!   thread, and sends the model as often. The paper's server uses a gradient in place; here memory
//!   that another process may write to is not lent to an optimizer.
//! - **Source.** Lim, Halpin, Jha, Birman, De Sa, "RDMA-wild", section 4.2, algorithms 1 and 2.

use stepwell_fabric::{Fabric, Result};

use crate::hazard_rules::Rule;
use crate::number::Number;
use crate::optimizers::{Optimizer, Share};
use crate::options::Options;
use crate::protocol::{Counts, OpenEnded, Protocol, Work, replace};
use crate::windows::{GradientTable, Opening};

/// Algorithm 1.
#[derive(Debug)]
pub(crate) struct Server<T> {
    options: Options,
    opening: Opening,
    table: GradientTable,
    model: Vec<T>,
    /// The gradient in use, copied out of the table.
    gradient: Vec<T>,
    optimizer: Box<dyn Optimizer<T>>,
    /// By worker, the version that was used last: LGVnum.
    used: Vec<u64>,
    /// By worker, the number of updates in its model.
    seen: Vec<u64>,
    receivers: Vec<usize>,
    /// The next worker to look at; the number of workers once all were looked at.
    turn: usize,
    counts: Counts,
}

impl<T: Number> Server<T> {
    pub(crate) fn new(
        fabric: &Fabric,
        model: Vec<T>,
        optimizer: Box<dyn Optimizer<T>>,
        options: &Options,
    ) -> Self {
        let workers = fabric.size() - 1;
        Self {
            opening: Opening::default(),
            table: GradientTable::open::<T>(fabric, model.len()),
            optimizer,
            options: options.clone(),
            gradient: vec![T::ZERO; model.len()],
            model,
            used: vec![0; workers],
            seen: vec![0; workers],
            receivers: Vec::new(),
            turn: 0,
            counts: Counts::default(),
        }
    }

    /// Lines 12 to 16, for worker `worker`.
    fn look_at(&mut self, fabric: &Fabric, worker: usize) -> Work {
        let version = self.table.version::<T>(fabric, worker);
        if version <= self.used[worker] {
            return Work::NONE;
        }
        let workers = self.used.len();
        let rounds = self.counts.used as f64 / workers as f64;
        let (optimizer, model) = (&mut self.optimizer, &mut self.model);
        self.table.read(fabric, worker, &mut self.gradient);
        optimizer.apply(model, &self.gradient, Share::of(1, workers), rounds);
        let forgets =
            !self.options.rules.hold(Rule::NoteUsed) && self.counts.used.is_multiple_of(2);
        if !forgets {
            self.used[worker] = version;
        }
        self.counts.age_max = self.counts.age_max.max(self.counts.updates - self.seen[worker]);
        self.counts.used += 1;
        self.counts.updates += 1;
        self.receivers.push(worker);
        Work::additions::<T>(1, self.model.len())
    }

    /// Lines 18 to 21.
    fn answer(&mut self, fabric: &Fabric) -> Result<Work> {
        if self.receivers.is_empty() {
            return Ok(Work::NONE);
        }
        for worker in std::mem::take(&mut self.receivers) {
            self.table.push(fabric, worker, &self.model, &self.used)?;
            self.seen[worker] = self.counts.updates;
        }
        Ok(Work::STEP)
    }
}

impl<T: Number> Protocol<T> for Server<T> {
    fn poll(&mut self, fabric: &Fabric) -> Result<Work> {
        if let Some(work) = self.opening.poll(fabric)? {
            return Ok(work);
        }
        fabric.check()?;
        // One gradient at a time, so that a cost model sees when each was used.
        while self.turn < self.used.len() {
            let work = self.look_at(fabric, self.turn);
            self.turn += 1;
            if work.progressed {
                return Ok(work);
            }
        }
        self.turn = 0;
        self.answer(fabric)
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
        let all = self.used.iter().all(|used| *used >= self.options.steps);
        all && self.receivers.is_empty()
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl<T: Number> OpenEnded<T> for Server<T> {
    fn end_after(&mut self, gradients: u64) {
        self.options.steps = gradients;
    }

    fn resume(&mut self, parameters: &[T]) {
        replace(self.ended(), &mut self.model, parameters);
        self.options.steps = u64::MAX;
    }
}
