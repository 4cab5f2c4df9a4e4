//! The dense part on devices: a replica on each, blocks shared out among them.
//!
//! ```text
//!  host      rows ─► x, pinned ──┐                    ┌─► logits, losses, d_x ─► rows
//!  device d            up ─► forward ─► loss ─► backward ─► down
//!                                  gradients of its blocks ─► sums by subtree
//!  host                                      sums of all devices (and ranks), in the one tree
//!  device d                                  the sum ─► optimizer ─► parameters, everywhere alike
//! ```
//!
//! - **Why.** Products are what a device is best at, and all that a step sends it is what it pools.
//! - **How.** Devices have neighbouring blocks, as ranks do. What a device does is in the order of
//!   one stream; the host waits for it before it looks. With one device and no other ranks the sum
//!   over blocks stays there, and the optimizer runs while the host updates rows.
//! - **Invariants.** D2 what a block gives does not depend on where it is computed (`passes`), and
//!   sums meet in the tree of the processor (D1): so neither the number of devices nor of ranks
//!   shows in the bits. D3 replicas are equal after every step: they begin so, and take the same
//!   step. Bits are the processor's own, but for products, which are the device's; emulated devices
//!   that multiply by [`HostProducts`] have all of them.
//! - **Failure.** A device that fails ends the run; the last checkpoint stays.
//! - **Bounds.** [`DeviceDense::bytes_max`]; all of it is taken when it is made.

mod layers;
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
use stepwell_device::{Buffer, Device, Pinned};
use stepwell_engine::{Blocks, Dense, DenseView, PoolShape, PooledAt};
use stepwell_nn::{LossSums, tree_sum_of_subtrees};
use stepwell_optim::DenseOptimizer;
use stepwell_settings::Config;

use self::passes::Passes;
pub use self::products::HostProducts;
use self::replica::Replica;
use self::sizes::Sizes;
use super::sections::{Sections, sections};
use super::{DenseExecutor, LANES, Outputs, Pieces, Processor, Summed, Work, copy_pieces, front};
use crate::models::{Model, rule};
use crate::{Error, Result};

/// Parameters, state and gradients on devices.
pub(crate) struct DeviceDense {
    replicas: Vec<Replica>,
    optimizer: DenseOptimizer,
    sizes: Sizes,
}

/// The part of a pass that one block is, on the host.
struct Part<'a> {
    /// Its examples.
    examples: Range<usize>,
    x: &'a mut [f32],
    first_order: &'a mut [f32],
    targets: &'a mut [f32],
    weights: &'a mut [f32],
}

/// What one block found, and where it goes.
struct Found<'a> {
    from: [&'a [f32]; 3],
    to: [&'a mut [f32]; 3],
}

impl DeviceDense {
    /// The dense part of `model` on `devices`, as it is in `dense`.
    ///
    /// # Errors
    /// When settings make no sense, when a device does not multiply or has no room, and when
    /// `dense` is of another model.
    pub(crate) fn new(
        model: &Model,
        config: &Config,
        devices: &[Device],
        dense: &Dense,
    ) -> Result<Self> {
        let refused = |why: String| {
            Error::Config(format!("train.dense = device: {why}; or choose train.dense = host"))
        };
        if devices.is_empty() {
            return Err(refused("there is no device: name some by device".to_owned()));
        }
        for device in devices {
            device.multiplies().map_err(|error| refused(error.to_string()))?;
        }
        let sizes = Sizes::new(model, config, devices.len());
        if u32::try_from(sizes.parameters.max(sizes.rows())).is_err() {
            let (count, rows) = (sizes.parameters, sizes.rows());
            return Err(refused(format!(
                "{count} dense parameters and {rows} examples of a device, of which it numbers at \
                 most {}: lower model.hidden or data.mini_batch",
                u32::MAX
            )));
        }
        let optimizer = DenseOptimizer::new(rule(&config.dense))
            .map_err(|error| Error::Config(format!("optim.dense: {error}")))?;
        let losses: Vec<_> = model.labels().iter().map(|label| label.loss).collect();
        let replicas = devices.iter().take(sizes.devices);
        let replicas = replicas.map(|device| Replica::new(device, sizes, &losses));
        let mut made = Self { replicas: replicas.collect::<Result<_>>()?, optimizer, sizes };
        made.put(dense)?.map_err(refused)?;
        Ok(made)
    }

    /// The most bytes of each of so many devices, and of the host's memory that each copies to and
    /// from.
    pub(crate) fn bytes_max(model: &Model, config: &Config, devices: usize) -> (u64, u64) {
        Sizes::new(model, config, devices).bytes()
    }

    /// Takes over a dense part; what does not fit, or the count of steps.
    fn put(&mut self, dense: &Dense) -> Result<std::result::Result<u64, String>> {
        let sections = Sections { dense, count: self.sizes.parameters };
        let names = self.optimizer.rule().state_names().iter();
        let vectors = [Ok(sections.parameters())].into_iter().chain(names.map(Err));
        let vectors = vectors.map(|of| of.unwrap_or_else(|name: &&str| sections.vector(name)));
        let vectors: Vec<&[f32]> = match vectors.collect() {
            Ok(vectors) => vectors,
            Err(why) => return Ok(Err(why)),
        };
        match sections.optimizer(&self.optimizer) {
            Ok(optimizer) => self.optimizer = optimizer,
            Err(why) => return Ok(Err(why)),
        }
        for replica in &mut self.replicas {
            for (number, values) in vectors.iter().enumerate() {
                replica.write(number.checked_sub(1), values)?;
            }
        }
        Ok(Ok(self.optimizer.step()))
    }

    /// Columns of the input that go up.
    fn columns_up(&self, work: &Work<'_>) -> usize {
        if work.input.rows.are_pooled() { self.sizes.features() } else { self.sizes.columns }
    }

    /// Writes what goes up, where each device copies it from.
    fn gather(&mut self, work: &Work<'_>) -> Result<()> {
        let Sizes { slot_rows, labels, .. } = self.sizes;
        let width = self.columns_up(work);
        let has_weights = !work.examples.weights.is_empty();
        let mut parts = Vec::new();
        for replica in &mut self.replicas {
            let (slots, rows) = (replica.share.count(), replica.rows());
            let before = replica.share.first() - work.blocks.first();
            let rows_of = replica.rows_of.host.write(slots)?;
            for (number, of) in rows_of.iter_mut().enumerate() {
                *of = replica.share.range(number).len() as u32;
            }
            let mut x = replica.x.write(rows * width)?;
            let mut targets = replica.targets.host.write(rows * labels)?;
            let mut first_order = replica.first_order.write(rows)?;
            let mut weights = replica.weights.host.write(rows)?;
            parts.extend((0..slots).map(|slot| Part {
                examples: work.blocks.range(before + slot),
                x: front(&mut x, slot_rows * width),
                first_order: front(&mut first_order, slot_rows),
                targets: front(&mut targets, slot_rows * labels),
                weights: front(&mut weights, slot_rows),
            }));
        }
        let gather = |part: &mut Part<'_>| {
            let (examples, rows) = (part.examples.clone(), part.examples.len());
            let of_labels = examples.start * labels..examples.end * labels;
            part.targets[..rows * labels].copy_from_slice(&work.examples.labels[of_labels]);
            if has_weights {
                part.weights[..rows].copy_from_slice(&work.examples.weights[examples.clone()]);
            }
            let x = &mut part.x[..rows * width];
            if work.input.rows.are_pooled() {
                return x.copy_from_slice(work.input.features(examples));
            }
            let input = (x, &mut part.first_order[..rows]);
            work.input.gather(examples, input, work.on.profile);
        };
        work.on.pool.install(|| parts.par_iter_mut().with_max_len(1).for_each(gather));
        Ok(())
    }

    /// Gives each device what it has to do for a pass.
    fn start(&self, work: &Work<'_>) -> Result<()> {
        let Sizes { labels, embedding, .. } = self.sizes;
        let are_pooled = work.input.rows.are_pooled();
        let graph = work.model.graph();
        let reads_first_order = graph.reads_first_order();
        let has_weights = !work.examples.weights.is_empty();
        for replica in &self.replicas {
            let (rows, count, stream) = (replica.rows(), replica.share.count(), &replica.stream);
            if count == 0 {
                stream.record(&replica.done)?;
                continue;
            }
            self.send(replica, work)?;
            let passes = Passes::new(graph, replica, self.sizes);
            if are_pooled {
                stream.wait(&replica.at.pooled)?;
                passes.put_features()?;
            }
            passes.forward()?;
            passes.losses(has_weights, work.blocks.examples_of_all())?;
            let logits = passes.logits();
            let range = logits.start..logits.start + rows * labels;
            stream.down((logits.buffer, range), (&replica.logits, 0))?;
            let sums = &replica.loss_sums;
            stream.down((&sums.device, 0..3 * count), (&sums.host, 0))?;
            if work.trains {
                passes.backward()?;
                if !are_pooled {
                    replica.gradients_down((
                        rows * embedding,
                        if reads_first_order { rows } else { 0 },
                    ))?;
                }
            }
            stream.record(&replica.done)?;
        }
        Ok(())
    }

    /// Sends what was gathered up.
    fn send(&self, replica: &Replica, work: &Work<'_>) -> Result<()> {
        let (rows, count, stream) = (replica.rows(), replica.share.count(), &replica.stream);
        let up = |from: &Pinned<f32>, to: &Buffer<f32>, lanes: usize| match lanes {
            0 => Ok(()),
            lanes => stream.up((from, 0..lanes), (to, 0)),
        };
        let Replica { at, x, first_order, targets, weights, features, .. } = replica;
        stream.up((&replica.rows_of.host, 0..count), (&replica.rows_of.device, 0))?;
        up(&targets.host, &targets.device, rows * self.sizes.labels)?;
        if !work.examples.weights.is_empty() {
            up(&weights.host, &weights.device, rows)?;
        }
        if work.input.rows.are_pooled() {
            return Ok(up(x, features, rows * self.sizes.features())?);
        }
        up(x, &at.x, rows * self.sizes.columns)?;
        let reads_first_order = work.model.graph().reads_first_order();
        Ok(up(first_order, &at.first_order, if reads_first_order { rows } else { 0 })?)
    }

    /// What the rows of each device may share with its replica.
    pub(crate) fn pooled_at(&self) -> Vec<Arc<PooledAt>> {
        self.replicas.iter().map(|replica| Arc::clone(&replica.at)).collect()
    }

    /// How rows may be pooled for the dense part of `model` on so many devices; none where they
    /// are read otherwise than as they are there.
    pub(crate) fn pool_shape<'a>(
        model: &'a Model,
        config: &Config,
        devices: usize,
    ) -> Option<PoolShape<'a>> {
        let Sizes { devices, slots, slot_rows, .. } = Sizes::new(model, config, devices);
        let shape = PoolShape {
            columns: model.embedding(),
            blocks: config.model.blocks,
            devices,
            slots,
            slot_rows,
        };
        let reads_as_they_are = config.ranks.count == 1 && config.staleness == 0;
        reads_as_they_are.then_some(shape)
    }

    /// Waits for the devices, and puts out what they found.
    fn finish(&mut self, work: &Work<'_>, out: Outputs<'_>) -> Result<Vec<LossSums>> {
        let Sizes { slot_rows, labels, embedding, .. } = self.sizes;
        let first_order = usize::from(work.model.graph().reads_first_order());
        let comes_down = work.trains && !work.input.rows.are_pooled();
        let widths = if comes_down { [labels, embedding, first_order] } else { [labels, 0, 0] };
        let Outputs { mut logits, mut d_x, mut d_first_order } = out;
        let (mut found, mut sums) = (Vec::new(), Vec::new());
        for replica in &mut self.replicas {
            replica.done.wait()?;
            let (share, rows) = (replica.share, replica.rows());
            let of_blocks = replica.loss_sums.host.read(3 * share.count())?;
            sums.extend(of_blocks.as_chunks().0.iter().map(|[loss, prediction, weight]| {
                LossSums { loss: *loss, prediction: *prediction, weight: *weight }
            }));
            let from = [
                replica.logits.read(rows * widths[0])?,
                replica.d_x.read(rows * widths[1])?,
                replica.d_first_order.read(rows * widths[2])?,
            ];
            for slot in 0..share.count() {
                let (first, count) = (slot * slot_rows, share.range(slot).len());
                let part = |of: usize| &from[of][first * widths[of]..(first + count) * widths[of]];
                let to = [
                    front(&mut logits, count * widths[0]),
                    front(&mut d_x, count * widths[1]),
                    front(&mut d_first_order, count * widths[2]),
                ];
                found.push(Found { from: [part(0), part(1), part(2)], to });
            }
        }
        let copy = |found: &mut Found<'_>| {
            let pairs = found.to.iter_mut().zip(found.from);
            pairs.for_each(|(to, from)| to.copy_from_slice(from));
        };
        work.on.pool.install(|| found.par_iter_mut().with_max_len(1).for_each(copy));
        Ok(sums)
    }

    /// Has all devices sum their gradients by subtree; waits until the sums are here.
    fn sum_subtrees(&mut self) -> Result<()> {
        self.replicas.iter_mut().try_for_each(Replica::sum_subtrees)?;
        self.replicas.iter().try_for_each(|replica| Ok(replica.done.wait()?))
    }

    /// Sums what came down into what goes up.
    fn sum_on_host(&mut self, on: Processor<'_>) -> Result<()> {
        let parameters = self.sizes.parameters;
        let (mut sums, mut totals) = (Vec::new(), Vec::new());
        for replica in &mut self.replicas {
            let (share, of_subtrees, total) = replica.summed()?;
            sums.extend(by_subtree(share, of_subtrees, parameters));
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

/// Sums over the subtrees of `share`, one after another, by their first blocks in the whole.
fn by_subtree(
    share: Blocks,
    sums: &[f32],
    parameters: usize,
) -> impl Iterator<Item = (usize, &[f32])> {
    let firsts = share.subtrees().map(move |subtree| share.first() + subtree.start);
    firsts.zip(sums.chunks(parameters.max(1)))
}

/// Has the threads fill the first of `totals`, a piece at a time, and copies it to the others.
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
    fn parameter_count(&self) -> usize {
        self.sizes.parameters
    }

    /// Room was made for the blocks of a rank.
    fn share(&mut self, _: usize) {}

    fn pass(&mut self, work: &Work<'_>, out: Outputs<'_>) -> Result<Vec<LossSums>> {
        let devices = self.replicas.len();
        for (number, replica) in self.replicas.iter_mut().enumerate() {
            replica.share = work.blocks.part(number, devices);
            let (count, slots) = (replica.share.count(), self.sizes.slots);
            assert!(count <= slots, "{count} blocks of a device in {slots} slots");
        }
        self.gather(work)?;
        self.start(work)?;
        self.finish(work, out)
    }

    fn gradients(&mut self) -> Result<Summed<'_>> {
        self.sum_subtrees()?;
        let (parameters, first) = (self.sizes.parameters, self.replicas[0].share.first());
        let mut sums = Vec::new();
        for replica in &mut self.replicas {
            let (share, of_subtrees, _) = replica.summed()?;
            let of_subtrees = by_subtree(share, of_subtrees, parameters);
            sums.extend(of_subtrees.map(|(number, sum)| (number - first, sum)));
        }
        Ok(Summed::Subtrees(sums))
    }

    fn step(&mut self, total: Option<Pieces<'_>>, on: Processor<'_>) -> Result<()> {
        let numbers = self.optimizer.begin_step().numbers();
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
        self.replicas.iter().try_for_each(|replica| replica.update(rule, numbers))
    }

    fn sections(&self) -> Result<DenseView<'_>> {
        let first = &self.replicas[0];
        let names = self.optimizer.rule().state_names().iter().enumerate();
        let state = names.map(|(number, name)| Ok((*name, Cow::Owned(first.read(Some(number))?))));
        let state = state.collect::<Result<Vec<_>>>()?;
        Ok(sections(Cow::Owned(first.read(None)?), state.into_iter(), &self.optimizer))
    }

    fn load(&mut self, dense: &Dense) -> std::result::Result<u64, String> {
        self.put(dense).map_err(|error| error.to_string())?
    }

    fn is_finite(&self) -> Result<bool> {
        Ok(self.replicas[0].read(None)?.iter().all(|value| value.is_finite()))
    }
}
