//! The dense part on devices: each has a replica and a share of the blocks.
//!
//! ```text
//!  host      rows ─► x, pinned ──┐                    ┌─► logits, losses, d_x ─► rows
//!  device d            up ─► forward ─► loss ─► backward ─► down
//!                                  gradients of its blocks ─► sums by subtree
//!  host                                      sums of all devices (and ranks), in the one tree
//!  device d                                  the sum ─► optimizer ─► parameters, everywhere alike
//! ```
//!
//! - **Why.** Devices are best at matrix products, and a step only sends them its pooled
//!   embeddings.
//! - **How.** Each device has consecutive blocks, as ranks do. Its work is in the order of one
//!   stream; the host waits for it before reading results. With one device and no other ranks, the
//!   sum over blocks stays there, and the optimizer runs while the host updates rows.
//! - **Invariants.**
//!   - TRAIN-I2: a block's results do not depend on where it is computed (`passes`), and sums
//!     follow the tree of the processor (TRAIN-I1): so neither the number of devices nor of ranks
//!     changes the bits.
//!   - TRAIN-I3: replicas are equal after every step: they begin equal and take the same step. Only
//!     products have bits of the device; everything else has the processor's, as have products of
//!     emulated devices that multiply by [`HostProducts`].
//! - **Failure.** A device that fails ends the run; the last checkpoint stays.
//! - **Bounds.** [`DeviceDense::bytes_max`]; all memory is allocated at the start.

mod attention;
mod attention_room;
mod block_layers;
mod blockwise;
mod captured;
mod heads;
mod in_batch;
mod interactions;
mod layers;
mod pass;
mod passes;
mod products;
mod replica;
mod sizes;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use stepwell_device::Device;
use stepwell_engine::{Blocks, Dense, DenseView, PoolShape, PooledAt};
use stepwell_nn::{LossSums, tree_sum_of_subtrees};
use stepwell_optim::{DenseOptimizer, Schedule};

pub use self::products::HostProducts;
use self::replica::{Replica, Vector};
use self::sizes::Sizes;
use super::sections::{Sections, moved, sections};
use super::{
    AVERAGED, DenseExecutor, LANES, Outputs, Pieces, Processor, STATE, Summed, Work, copy_pieces,
};
use crate::models::Model;
use crate::run_plan::RunPlan;
use crate::{Error, Result};

/// Parameters, state and gradients on devices.
pub(crate) struct DeviceDense {
    model: Arc<Model>,
    replicas: Vec<Replica>,
    optimizer: DenseOptimizer,
    schedule: Schedule,
    /// Decay of the mean of the parameters, if evaluations use it.
    decay: Option<f64>,
    seed: u64,
    sizes: Sizes,
}

impl DeviceDense {
    /// Creates the dense part of `model` on `devices` with the content of `dense`.
    ///
    /// # Errors
    /// If settings are invalid, if a device cannot multiply or lacks room, and if `dense` is of
    /// another model.
    pub(crate) fn new(
        model: &Arc<Model>,
        plan: &RunPlan<'_>,
        devices: &[Device],
        dense: &Dense,
    ) -> Result<Self> {
        let refused = |why: String| {
            Error::Config(format!("train.dense = device: {why}; or choose train.dense = host"))
        };
        if devices.is_empty() {
            return Err(refused("there is no device: choose one with device".to_owned()));
        }
        if let Some(why) = passes::refusal(model.graph()) {
            let why = format!("train.dense = device: {why}: choose train.dense = host");
            return Err(Error::Config(why));
        }
        for device in devices {
            device.check_can_multiply().map_err(|error| refused(error.to_string()))?;
        }
        let sizes = Sizes::new(model, plan, devices.len());
        if u32::try_from(sizes.parameters.max(sizes.rows())).is_err() {
            let (count, rows) = (sizes.parameters, sizes.rows());
            return Err(refused(format!(
                "{count} dense parameters and {rows} examples on a device, which takes at most {} \
                 of each: lower model.hidden or data.mini_batch",
                u32::MAX
            )));
        }
        let optimizer = plan.dense.optimizer()?;
        let objectives: Vec<_> = model.labels().iter().map(|label| label.objective).collect();
        let replicas = devices.iter().take(sizes.devices);
        let replicas = replicas.map(|device| Replica::new(device, sizes, &objectives));
        let mut made = Self {
            model: Arc::clone(model),
            replicas: replicas.collect::<Result<_>>()?,
            optimizer,
            schedule: plan.dense.schedule,
            decay: plan.dense.ema,
            seed: plan.dense.seed,
            sizes,
        };
        made.put(dense)?.map_err(refused)?;
        Ok(made)
    }

    /// The most bytes of each of `devices` devices, and of pinned host memory for each.
    pub(crate) fn bytes_max(model: &Model, plan: &RunPlan<'_>, devices: usize) -> (u64, u64) {
        Sizes::new(model, plan, devices).bytes()
    }

    /// The vectors beside the parameters, by the names of their sections.
    fn named(&self) -> impl Iterator<Item = (&'static str, Vector)> {
        let state = self.optimizer.rule().state_names().iter().enumerate();
        let averaged = self.decay.map(|_| (AVERAGED, Vector::Averaged));
        state.map(|(number, name)| (*name, Vector::State(number))).chain(averaged)
    }

    /// Loads a dense part; returns the step count, or what does not fit.
    fn put(&mut self, dense: &Dense) -> Result<std::result::Result<u64, String>> {
        let sections = Sections { dense, count: self.sizes.parameters };
        let named = self.named().map(|(name, vector)| Ok((vector, sections.vector(name)?)));
        let parameters = sections.parameters().map(|of| (Vector::Parameters, of));
        let state = sections.state(self.sizes.state).map(|of| (Vector::OfGraph, of));
        let vectors = [parameters].into_iter().chain(named).chain([state]);
        let vectors: Vec<(Vector, &[f32])> = match vectors.collect() {
            Ok(vectors) => vectors,
            Err(why) => return Ok(Err(why)),
        };
        match sections.optimizer(&self.optimizer) {
            Ok(optimizer) => self.optimizer = optimizer,
            Err(why) => return Ok(Err(why)),
        }
        for replica in &mut self.replicas {
            let vectors = vectors.iter().filter(|(_, values)| !values.is_empty());
            vectors.clone().try_for_each(|(vector, values)| replica.write(*vector, values))?;
        }
        Ok(Ok(self.optimizer.step()))
    }

    /// The buffers that each device's rows may share with its replica.
    pub(crate) fn pooled_at(&self) -> Vec<Arc<PooledAt>> {
        self.replicas.iter().map(|replica| Arc::clone(&replica.at)).collect()
    }

    /// How rows may be pooled for the dense part of `model` on `devices` devices; `None` if the
    /// model cannot read rows in that form.
    pub(crate) fn pool_shape<'a>(
        model: &'a Model,
        plan: &RunPlan<'_>,
        devices: usize,
    ) -> Option<PoolShape<'a>> {
        let Sizes { devices, slots, slot_rows, .. } = Sizes::new(model, plan, devices);
        let shape = PoolShape {
            columns: model.embedding(),
            blocks: plan.batching.blocks,
            devices,
            slots,
            slot_rows,
        };
        let reads_as_they_are = plan.ranks.count == 1 && plan.batching.staleness == 0;
        reads_as_they_are.then_some(shape)
    }

    /// Makes all devices sum their gradients by subtree, and waits for the sums.
    fn sum_subtrees(&mut self) -> Result<()> {
        self.replicas.iter_mut().try_for_each(Replica::sum_subtrees)?;
        self.replicas.iter().try_for_each(|replica| Ok(replica.done.wait()?))
    }

    /// Adds up the downloaded sums into the vectors to upload.
    fn sum_on_host(&mut self, on: Processor<'_>) -> Result<()> {
        let summed = self.sizes.summed;
        let (mut sums, mut totals) = (Vec::new(), Vec::new());
        for replica in &mut self.replicas {
            let (share, of_subtrees, total) = replica.summed()?;
            sums.extend(by_subtree(share, of_subtrees, summed));
            totals.push(total);
        }
        let fill = |lanes: Range<usize>, sum: &mut [f32]| {
            let parts = sums.iter().map(|(first, sum)| (*first, &sum[lanes.clone()]));
            tree_sum_of_subtrees(&parts.collect::<Vec<_>>(), sum);
        };
        fill_all(&mut totals, fill, on);
        Ok(())
    }
}

/// Sums over the subtrees of `share`, in order, by their first blocks in the whole mini-batch.
fn by_subtree(share: Blocks, sums: &[f32], summed: usize) -> impl Iterator<Item = (usize, &[f32])> {
    let firsts = share.subtrees().map(move |subtree| share.first() + subtree.start);
    firsts.zip(sums.chunks(summed.max(1)))
}

/// Fills the first of `totals` piece by piece, in all threads, and copies it to the others.
fn fill_all(
    totals: &mut [&mut [f32]],
    fill: impl Fn(Range<usize>, &mut [f32]) + Sync,
    on: Processor<'_>,
) {
    let Some((first, others)) = totals.split_first_mut() else { return };
    on.pool.install(|| {
        first.par_chunks_mut(LANES).enumerate().for_each(|(number, piece)| {
            fill(number * LANES..number * LANES + piece.len(), piece);
        });
        others.par_iter_mut().for_each(|other| other.copy_from_slice(first));
    });
}

impl DenseExecutor for DeviceDense {
    fn summed_count(&self) -> usize {
        self.sizes.summed
    }

    /// Buffers have the size of a rank's share from the start.
    fn share(&mut self, _: usize) {}

    fn begin(&mut self, work: &Work<'_>) -> Result<()> {
        let devices = self.replicas.len();
        for (number, replica) in self.replicas.iter_mut().enumerate() {
            replica.share = work.blocks.part(number, devices);
            let (count, slots) = (replica.share.count(), self.sizes.slots);
            assert!(count <= slots, "{count} blocks of a device in {slots} slots");
        }
        self.gather(work)?;
        self.start(work)
    }

    fn pass(&mut self, work: &Work<'_>, out: Outputs<'_>) -> Result<Vec<LossSums>> {
        self.finish(work, out)
    }

    fn gradients(&mut self) -> Result<Summed<'_>> {
        self.sum_subtrees()?;
        let (summed, first) = (self.sizes.summed, self.replicas[0].share.first());
        let mut sums = Vec::new();
        for replica in &mut self.replicas {
            let (share, of_subtrees, _) = replica.summed()?;
            let of_subtrees = by_subtree(share, of_subtrees, summed);
            sums.extend(of_subtrees.map(|(number, sum)| (number - first, sum)));
        }
        Ok(Summed::Subtrees(sums))
    }

    fn step(&mut self, steps: u64, total: Option<Pieces<'_>>, on: Processor<'_>) -> Result<()> {
        let numbers = self.optimizer.begin_step().times(self.schedule.factor(steps)).numbers();
        match (total, &self.replicas[..]) {
            (None, [only]) => only.sum_all()?,
            (None, _) => {
                self.sum_subtrees()?;
                self.sum_on_host(on)?;
                self.replicas.iter().try_for_each(Replica::put_total)?;
            }
            (Some(pieces), _) => {
                let totals = self.replicas.iter_mut().map(Replica::total);
                let mut totals: Vec<_> = totals.collect::<Result<_>>()?;
                let fill = |lanes: Range<usize>, sum: &mut [f32]| copy_pieces(pieces, lanes, sum);
                fill_all(&mut totals, fill, on);
                self.replicas.iter().try_for_each(Replica::put_total)?;
            }
        }
        let rule = self.optimizer.rule();
        self.replicas.iter().try_for_each(|replica| {
            replica.clip()?;
            replica.update(rule, numbers)?;
            self.model.graph().nodes().try_for_each(|node| replica.advance(&node))?;
            self.decay.map_or(Ok(()), |decay| replica.average(decay))
        })
    }

    fn set_falls(&mut self, falls: u64) {
        self.schedule = self.schedule.fallen(falls);
    }

    fn sections(&self) -> Result<DenseView<'_>> {
        let first = &self.replicas[0];
        let read = |vector| first.read(vector).map(Cow::Owned);
        let of_graph = (self.sizes.state > 0).then_some((STATE, Vector::OfGraph));
        let others = self.named().chain(of_graph);
        let others = others.map(|(name, vector)| Ok((name, read(vector)?)));
        let others = others.collect::<Result<Vec<_>>>()?;
        Ok(sections(read(Vector::Parameters)?, others.into_iter(), &self.optimizer))
    }

    fn load(&mut self, dense: &Dense) -> std::result::Result<u64, String> {
        self.put(dense).map_err(|error| error.to_string())?
    }

    fn set_parameters(&mut self, parameters: &[f32], steps: u64) -> Result<()> {
        let dense = moved(self.sections()?.to_dense(), parameters, steps);
        self.load(&dense).map(drop).map_err(Error::Config)
    }

    fn is_finite(&self) -> Result<bool> {
        Ok(self.replicas[0].read(Vector::Parameters)?.iter().all(|value| value.is_finite()))
    }
}
