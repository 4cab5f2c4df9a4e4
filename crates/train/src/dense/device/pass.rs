//! A pass over a mini-batch: uploads, each device's operations, and downloads.

use std::ops::Range;

use rayon::prelude::*;
use stepwell_base::random::Stream;
use stepwell_device::{Buffer, Pinned};
use stepwell_nn::LossSums;

use super::DeviceDense;
use super::captured::PassKind;
use super::passes::Passes;
use super::replica::Replica;
use super::sizes::{Sizes, drops};
use crate::Result;
use crate::dense::{Outputs, Work, front};

/// The host's buffers for one block of a pass.
struct Part<'a> {
    /// Examples of the block.
    examples: Range<usize>,
    x: &'a mut [f32],
    first_order: &'a mut [f32],
    targets: &'a mut [f32],
    weights: &'a mut [f32],
    streams: &'a mut [u64],
}

/// A block's results, and their destination.
struct Found<'a> {
    from: [&'a [f32]; 3],
    to: [&'a mut [f32]; 3],
}

/// Layers that drop lanes in a pass.
struct Droppers<'a> {
    seed: u64,
    /// Number of earlier steps.
    step: u64,
    names: Vec<&'a str>,
}

impl Droppers<'_> {
    /// Writes the random streams of the examples from number `first` of the mini-batch on.
    fn write_streams(&self, first: usize, to: &mut [u64]) {
        let layers = self.names.len().max(1);
        for (example, streams) in (first as u64..).zip(to.chunks_exact_mut(layers)) {
            for (stream, layer) in streams.iter_mut().zip(&self.names) {
                *stream = Stream::of_dropping(self.seed, layer, self.step, example).state();
            }
        }
    }
}

impl DeviceDense {
    /// Layers that drop lanes in the pass of `work`; none in evaluations.
    fn droppers<'a>(&self, work: &Work<'a>) -> Droppers<'a> {
        let nodes = work.model.graph().nodes().filter(|node| work.trains && drops(node));
        let names = nodes.map(|node| node.name).collect();
        Droppers { seed: self.seed, step: self.optimizer.step(), names }
    }

    /// Number of input columns to upload.
    fn columns_up(&self, work: &Work<'_>) -> usize {
        if work.input.rows.are_pooled() { self.sizes.features() } else { self.sizes.columns }
    }

    /// Writes the input to the buffers that each device copies from.
    pub(super) fn gather(&mut self, work: &Work<'_>) -> Result<()> {
        let Sizes { slot_rows, labels, .. } = self.sizes;
        let width = self.columns_up(work);
        let droppers = self.droppers(work);
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
            let mut streams = replica.streams.host.write(rows * droppers.names.len())?;
            parts.extend((0..slots).map(|slot| Part {
                examples: work.blocks.range(before + slot),
                x: front(&mut x, slot_rows * width),
                first_order: front(&mut first_order, slot_rows),
                targets: front(&mut targets, slot_rows * labels),
                weights: front(&mut weights, slot_rows),
                streams: front(&mut streams, slot_rows * droppers.names.len()),
            }));
        }
        let gather = |part: &mut Part<'_>| {
            let (examples, rows) = (part.examples.clone(), part.examples.len());
            let of_labels = examples.start * labels..examples.end * labels;
            part.targets[..rows * labels].copy_from_slice(&work.examples.labels[of_labels]);
            if has_weights {
                part.weights[..rows].copy_from_slice(&work.examples.weights[examples.clone()]);
            }
            let first = work.blocks.place().start + examples.start;
            droppers.write_streams(first, &mut part.streams[..rows * droppers.names.len()]);
            let x = &mut part.x[..rows * width];
            if work.input.rows.are_pooled() {
                return x.copy_from_slice(work.input.features(examples));
            }
            let input = (x, &mut part.first_order[..rows]);
            work.input.gather(examples, input, work.on.profile);
        };
        match work.input.rows.are_pooled() && droppers.names.is_empty() {
            // Copying so little is faster than waking other threads.
            true => parts.iter_mut().for_each(gather),
            false => {
                work.on.pool.install(|| parts.par_iter_mut().with_max_len(1).for_each(gather));
            }
        }
        Ok(())
    }

    /// Gives each device its operations for a pass.
    pub(super) fn start(&self, work: &Work<'_>) -> Result<()> {
        let Sizes { labels, embedding, .. } = self.sizes;
        let graph = work.model.graph();
        let kind = PassKind {
            examples: work.blocks.examples_of_all(),
            trains: work.trains,
            weighs: !work.examples.weights.is_empty(),
            pooled: work.input.rows.are_pooled(),
        };
        for replica in &self.replicas {
            let (rows, count, stream) = (replica.rows(), replica.share.count(), &replica.stream);
            if count == 0 {
                stream.record(&replica.done)?;
                continue;
            }
            self.send(replica, work)?;
            if kind.pooled {
                stream.wait(&replica.at.pooled)?;
            }
            let passes = Passes::new(graph, (replica, self.sizes), kind.trains);
            replica.captured.run(stream, kind, || passes.run(kind))?;
            stream.record(&replica.at.passed)?;
            let logits = passes.logits();
            let range = logits.start..logits.start + rows * labels;
            stream.down(logits.buffer, range, &replica.logits, 0)?;
            let sums = &replica.loss_sums;
            stream.down(&sums.device, 0..3 * count, &sums.host, 0)?;
            if kind.trains && !kind.pooled {
                let first_order = if graph.reads_first_order() { rows } else { 0 };
                replica.gradients_down((rows * embedding, first_order))?;
            }
            stream.record(&replica.done)?;
        }
        Ok(())
    }

    /// Uploads the gathered input.
    fn send(&self, replica: &Replica, work: &Work<'_>) -> Result<()> {
        let (rows, count, stream) = (replica.rows(), replica.share.count(), &replica.stream);
        let up = |from: &Pinned<f32>, to: &Buffer<f32>, lanes: usize| match lanes {
            0 => Ok(()),
            lanes => stream.up(from, 0..lanes, to, 0),
        };
        let Replica { at, x, first_order, targets, weights, features, streams, .. } = replica;
        stream.up(&replica.rows_of.host, 0..count, &replica.rows_of.device, 0)?;
        up(&targets.host, &targets.device, rows * self.sizes.labels)?;
        if !work.examples.weights.is_empty() {
            up(&weights.host, &weights.device, rows)?;
        }
        let of_dropping = if work.trains { rows * self.sizes.dropping } else { 0 };
        if of_dropping > 0 {
            stream.up(&streams.host, 0..of_dropping, &streams.device, 0)?;
        }
        if work.input.rows.are_pooled() {
            return Ok(up(x, features, rows * self.sizes.features())?);
        }
        up(x, &at.x, rows * self.sizes.columns)?;
        let reads_first_order = work.model.graph().reads_first_order();
        Ok(up(first_order, &at.first_order, if reads_first_order { rows } else { 0 })?)
    }

    /// Waits for the devices, and writes their results to `out`.
    pub(super) fn finish(&mut self, work: &Work<'_>, out: Outputs<'_>) -> Result<Vec<LossSums>> {
        let Sizes { slot_rows, labels, embedding, .. } = self.sizes;
        let first_order = usize::from(work.model.graph().reads_first_order());
        let comes_down = work.trains && !work.input.rows.are_pooled();
        let widths = if comes_down { [labels, embedding, first_order] } else { [labels, 0, 0] };
        let Outputs { mut logits, mut d_x, mut d_first_order, shown } = out;
        assert!(shown.is_empty(), "devices don't show layers");
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
        match comes_down {
            true => work.on.pool.install(|| found.par_iter_mut().with_max_len(1).for_each(copy)),
            false => found.iter_mut().for_each(copy),
        }
        Ok(sums)
    }
}
