//! Windows of workers and a server, which they put into.
//!
//! ```text
//! of the server   for each worker:  gradient | its version
//! of a worker                       model | for each worker, the version that was used last
//! ```
//!
//! The writer's version is written after its data. Puts of one rank into another's memory appear in
//! order, so a visible version implies its data. Both are copied out, as others put at any time;
//! the data of a version does not change until it is answered. A version is the number of gradients
//! so far: 0 means none (the paper counts from -1). Source: Lim et al., RDMA-wild, figure 4.

use bytemuck::cast_slice;
use stepwell_fabric::collective::{Barrier, Collective};
use stepwell_fabric::{Fabric, Result, Tag, WindowNumber};
use stepwell_nn::tree_sum;

use crate::hazard_rules::{Rule, Rules};
use crate::number::Number;
use crate::protocol::Work;

/// No rank puts before all windows are open.
const OPEN: Tag = Tag(0x5310);
/// The window of each rank.
const WINDOW: WindowNumber = WindowNumber(0x53);
const WORD: usize = size_of::<u64>();
/// Lanes of each gradient that a sum takes out of the window at a time: they stay in a core's
/// cache.
const LANES_AT_ONCE: usize = 1024;

/// Bytes of `lanes` numbers, in whole words.
fn padded<T>(lanes: usize) -> usize {
    (lanes * size_of::<T>()).next_multiple_of(WORD)
}

/// Barrier after which all windows are open.
#[derive(Debug)]
pub(crate) struct Opening(Option<Barrier>);

impl Default for Opening {
    fn default() -> Self {
        Self(Some(Barrier::start(OPEN)))
    }
}

impl Opening {
    /// Waits for the other ranks' windows; `None` once all are open.
    pub(crate) fn poll(&mut self, fabric: &Fabric) -> Result<Option<Work>> {
        let Some(barrier) = &mut self.0 else { return Ok(None) };
        if barrier.poll(fabric)?.is_none() {
            return Ok(Some(Work::NONE));
        }
        self.0 = None;
        Ok(Some(Work::STEP))
    }

    /// Whether all windows are open.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_none()
    }
}

/// Workers' gradients at the server. Workers are numbered from 0: worker w is rank w + 1.
#[derive(Debug)]
pub(crate) struct GradientTable {
    lanes: usize,
    workers: usize,
}

impl GradientTable {
    /// Opens the window.
    pub(crate) fn open<T: Number>(fabric: &Fabric, lanes: usize) -> Self {
        let workers = fabric.size() - 1;
        fabric.open_window(WINDOW, workers * (padded::<T>(lanes) + WORD));
        Self { lanes, workers }
    }

    /// The version of a worker's gradient.
    pub(crate) fn version<T: Number>(&self, fabric: &Fabric, worker: usize) -> u64 {
        word(fabric, self.start::<T>(worker) + padded::<T>(self.lanes))
    }

    /// Copies a worker's gradient out.
    pub(crate) fn read<T: Number>(&self, fabric: &Fabric, worker: usize, gradient: &mut [T]) {
        assert_eq!(gradient.len(), self.lanes, "the length it was opened with");
        fabric.read(WINDOW, self.start::<T>(worker), gradient);
    }

    /// Sums the gradients of all workers by the tree over them, some lanes at a time, through
    /// `scratch`.
    pub(crate) fn sum<T: Number>(&self, fabric: &Fabric, scratch: &mut Vec<T>, sum: &mut [T]) {
        assert_eq!(sum.len(), self.lanes, "the length it was opened with");
        scratch.resize(self.workers * LANES_AT_ONCE.min(self.lanes), T::ZERO);
        for (number, sum) in sum.chunks_mut(LANES_AT_ONCE).enumerate() {
            let start = number * LANES_AT_ONCE * size_of::<T>();
            let all = &mut scratch[..self.workers * sum.len()];
            for (worker, lanes) in all.chunks_exact_mut(sum.len()).enumerate() {
                fabric.read(WINDOW, self.start::<T>(worker) + start, lanes);
            }
            tree_sum(&all.chunks_exact(sum.len()).collect::<Vec<_>>(), sum);
        }
    }

    /// First byte of a worker's gradient.
    fn start<T>(&self, worker: usize) -> usize {
        worker * (padded::<T>(self.lanes) + WORD)
    }

    /// Pushes the model and the used versions to a worker.
    pub(crate) fn push<T: Number>(
        &self,
        fabric: &Fabric,
        worker: usize,
        model: &[T],
        used: &[u64],
    ) -> Result<()> {
        assert_eq!(
            (model.len(), used.len()),
            (self.lanes, self.workers),
            "the length it was opened with"
        );
        fabric.put(worker + 1, WINDOW, 0, cast_slice(model))?;
        fabric.put(worker + 1, WINDOW, padded::<T>(self.lanes), cast_slice(used))
    }
}

/// A worker's copy of the model, which the server pushes.
#[derive(Debug)]
pub(crate) struct ModelWindow {
    lanes: usize,
    worker: usize,
}

impl ModelWindow {
    /// Opens the window.
    pub(crate) fn open<T: Number>(fabric: &Fabric, lanes: usize) -> Self {
        let workers = fabric.size() - 1;
        fabric.open_window(WINDOW, padded::<T>(lanes) + workers * WORD);
        Self { lanes, worker: fabric.rank() - 1 }
    }

    /// The last used version of this worker's gradients.
    pub(crate) fn used<T: Number>(&self, fabric: &Fabric) -> u64 {
        word(fabric, padded::<T>(self.lanes) + self.worker * WORD)
    }

    /// Number of gradients of all workers in the model.
    pub(crate) fn used_of_all<T: Number>(&self, fabric: &Fabric) -> u64 {
        let versions = padded::<T>(self.lanes);
        (0..fabric.size() - 1).map(|worker| word(fabric, versions + worker * WORD)).sum()
    }

    /// Copies the model out.
    pub(crate) fn read<T: Number>(&self, fabric: &Fabric, model: &mut [T]) {
        assert_eq!(model.len(), self.lanes, "the length it was opened with");
        fabric.read(WINDOW, 0, model);
    }

    /// Pushes this worker's gradient to the server, then its version.
    pub(crate) fn push<T: Number>(
        &self,
        fabric: &Fabric,
        gradient: &[T],
        version: u64,
        rules: Rules,
    ) -> Result<()> {
        assert_eq!(gradient.len(), self.lanes, "the length it was opened with");
        let start = self.worker * (padded::<T>(self.lanes) + WORD);
        let data = || fabric.put(0, WINDOW, start, cast_slice(gradient));
        let number =
            || fabric.put(0, WINDOW, start + padded::<T>(self.lanes), &version.to_ne_bytes());
        if rules.hold(Rule::VersionLast) {
            data().and_then(|()| number())
        } else {
            number().and_then(|()| data())
        }
    }
}

/// The version at `offset`.
fn word(fabric: &Fabric, offset: usize) -> u64 {
    let mut word = [0];
    fabric.read(WINDOW, offset, &mut word);
    word[0]
}
