//! What workers and a server put into each other's memory.
//!
//! ```text
//! of the server   for each worker:  gradient | its version
//! of a worker                       model | for each worker, the version that was used last
//! ```
//!
//! The writer's version goes after its data. Puts of one rank into another's memory show in their
//! order, so who sees a version sees the data of it. A version is the number of gradients so far: 0
//! says that there is none (the paper counts from -1). Source: Lim et al., RDMA-wild, figure 4.

use bytemuck::{cast_slice, cast_slice_mut};
use stepwell_fabric::collective::{Barrier, Collective};
use stepwell_fabric::{Fabric, Result, Tag, WindowNumber};

use crate::{Number, Rule, Rules, Work};

/// Nobody puts before all windows are open.
const OPEN: Tag = Tag(0x5310);
/// The window of each rank.
const WINDOW: WindowNumber = WindowNumber(0x53);
const WORD: usize = size_of::<u64>();

/// Bytes of so many numbers, whole words.
fn padded<T>(lanes: usize) -> usize {
    (lanes * size_of::<T>()).next_multiple_of(WORD)
}

/// What all ranks wait for after they have opened theirs.
#[derive(Debug)]
pub(crate) struct Opening(Option<Barrier>);

impl Default for Opening {
    fn default() -> Self {
        Self(Some(Barrier::start(OPEN)))
    }
}

impl Opening {
    /// What waiting for the others comes to, as long as it is not over.
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

/// The gradients that workers put, at the server. Workers are numbered from 0 here: worker w is
/// rank w + 1.
#[derive(Debug)]
pub(crate) struct GradientTable {
    lanes: usize,
    workers: usize,
}

impl GradientTable {
    /// Opens it.
    pub(crate) fn open<T: Number>(fabric: &Fabric, lanes: usize) -> Self {
        let workers = fabric.size() - 1;
        fabric.open_window(WINDOW, workers * (padded::<T>(lanes) + WORD));
        Self { lanes, workers }
    }

    /// The version of a worker's gradient.
    pub(crate) fn version<T: Number>(&self, fabric: &Fabric, worker: usize) -> u64 {
        let start = worker * (padded::<T>(self.lanes) + WORD) + padded::<T>(self.lanes);
        fabric.look(WINDOW, |bytes| word(&bytes[start..]))
    }

    /// Shows the gradient of a worker to `at`, where it lies.
    pub(crate) fn look<T: Number>(&self, fabric: &Fabric, worker: usize, at: impl FnOnce(&[T])) {
        let start = worker * (padded::<T>(self.lanes) + WORD);
        let end = start + self.lanes * size_of::<T>();
        fabric.look(WINDOW, |bytes| at(cast_slice(&bytes[start..end])));
    }

    /// Shows the gradients of all workers to `at`.
    pub(crate) fn look_at_all<T: Number>(&self, fabric: &Fabric, at: impl FnOnce(&[&[T]])) {
        fabric.look(WINDOW, |bytes| {
            let slots = bytes.chunks_exact(padded::<T>(self.lanes) + WORD);
            let bytes = self.lanes * size_of::<T>();
            let gradients: Vec<&[T]> = slots.map(|slot| cast_slice(&slot[..bytes])).collect();
            at(&gradients);
        });
    }

    /// Pushes the model and the versions that were used to a worker.
    pub(crate) fn push<T: Number>(
        &self,
        fabric: &Fabric,
        worker: usize,
        model: &[T],
        used: &[u64],
    ) -> Result<()> {
        assert_eq!((model.len(), used.len()), (self.lanes, self.workers), "as it was opened");
        fabric.put(worker + 1, WINDOW, 0, cast_slice(model))?;
        fabric.put(worker + 1, WINDOW, padded::<T>(self.lanes), cast_slice(used))
    }
}

/// The model that the server pushes, at a worker.
#[derive(Debug)]
pub(crate) struct ModelWindow {
    lanes: usize,
    worker: usize,
}

impl ModelWindow {
    /// Opens it.
    pub(crate) fn open<T: Number>(fabric: &Fabric, lanes: usize) -> Self {
        let workers = fabric.size() - 1;
        fabric.open_window(WINDOW, padded::<T>(lanes) + workers * WORD);
        Self { lanes, worker: fabric.rank() - 1 }
    }

    /// The version of this worker's gradients that was used last.
    pub(crate) fn used<T: Number>(&self, fabric: &Fabric) -> u64 {
        let start = padded::<T>(self.lanes) + self.worker * WORD;
        fabric.look(WINDOW, |bytes| word(&bytes[start..]))
    }

    /// How many gradients of all workers the model has.
    pub(crate) fn used_of_all<T: Number>(&self, fabric: &Fabric) -> u64 {
        let start = padded::<T>(self.lanes);
        fabric.look(WINDOW, |bytes| bytes[start..].chunks_exact(WORD).map(word).sum())
    }

    /// Copies the model out.
    pub(crate) fn read<T: Number>(&self, fabric: &Fabric, model: &mut [T]) {
        fabric.look(WINDOW, |bytes| {
            cast_slice_mut(model).copy_from_slice(&bytes[..self.lanes * size_of::<T>()]);
        });
    }

    /// Pushes this worker's gradient to the server, then its version.
    pub(crate) fn push<T: Number>(
        &self,
        fabric: &Fabric,
        gradient: &[T],
        version: u64,
        rules: Rules,
    ) -> Result<()> {
        assert_eq!(gradient.len(), self.lanes, "as it was opened");
        let start = self.worker * (padded::<T>(self.lanes) + WORD);
        let data = || fabric.put(0, WINDOW, start, cast_slice(gradient));
        let number =
            || fabric.put(0, WINDOW, start + padded::<T>(self.lanes), &version.to_le_bytes());
        if rules.hold(Rule::VersionLast) {
            data().and_then(|()| number())
        } else {
            number().and_then(|()| data())
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    let (word, _) = bytes.split_at(WORD);
    word.try_into().map_or(0, u64::from_le_bytes)
}
