//! Attention to sequences on a device.
//!
//! The steps of a block that count are packed, as on the processor, but products have a row for
//! every step that could count: their numbers don't depend on the data, so a pass can be captured.
//! They have chunks of [`CHUNK`] steps, padded with zeros, and add up in the processor's order, so
//! bits are the same.

use stepwell_device::{Arg, Layout, Shape};
use stepwell_nn::NodeView;

use super::attention_room::AttentionRoom;
use super::block_layers::{Attention, CHUNK};
use super::passes::{Alike, Passes, Target, View};
use super::replica::{flag, number};
use crate::{Error, Result};

/// An attention over the blocks of a device.
struct Attending<'a> {
    of: Attention,
    room: &'a AttentionRoom,
    target: View<'a>,
    vectors: View<'a>,
    lengths: View<'a>,
    /// First lanes of the steps' weights in the sum, and of their hidden layers, in `values`.
    parts: usize,
    hidden: usize,
    /// Lane at which the node's parameters begin.
    start: usize,
}

impl Attending<'_> {
    /// Lane at which the bias of the hidden layer begins.
    fn hidden_bias(&self) -> usize {
        self.start + 4 * self.of.dim * self.of.hidden
    }

    /// Lane at which the weight of the last sum begins, before its bias.
    fn weight(&self) -> usize {
        self.hidden_bias() + self.of.hidden
    }

    /// Lanes of A.
    fn lanes_of_a(&self) -> usize {
        self.of.dim * self.of.hidden
    }
}

/// Layout of chunks with `columns` columns.
fn by_chunk(columns: usize) -> Layout {
    Layout { batch_stride: CHUNK * columns, ..Layout::rows(columns) }
}

impl<'a> Passes<'a> {
    fn attending(&self, node: &NodeView<'_>, of: Attention) -> Result<Attending<'a>> {
        let room = self.replica.attention.as_ref();
        let room = room.ok_or_else(|| Error::Config("attention without buffers".to_owned()))?;
        let [target, vectors, lengths] = [0, 1, 2].map(|index| self.input(node, index));
        let parts = self.kept(node).start;
        let hidden = parts + self.sizes.rows() * of.steps_max;
        let start = node.parameters.start;
        Ok(Attending { of, room, target, vectors, lengths, parts, hidden, start })
    }

    /// Places of steps for each block. They are whole chunks, because the rows of a slot are a
    /// suitable multiple.
    fn places(&self, of: Attention) -> usize {
        self.sizes.slot_rows * of.steps_max
    }

    /// Chunks of all blocks.
    fn chunks(&self, of: Attention) -> usize {
        self.blocks() * self.places(of) / CHUNK
    }

    /// Lengths, places of first steps, and rows of blocks.
    fn steps(&self, by: &Attending<'a>) -> [Arg<'_>; 3] {
        let rows = self.rows();
        [by.lengths.arg(rows), Arg::first(&by.room.firsts, rows), self.rows_of()]
    }

    fn parts(&self, by: &Attending<'a>) -> Arg<'_> {
        let lanes = self.blocks() * self.places(by.of);
        Arg::part(&self.replica.values, by.parts..by.parts + lanes)
    }

    fn hidden(&self, by: &Attending<'a>) -> Arg<'_> {
        let lanes = self.blocks() * self.places(by.of) * by.of.hidden;
        Arg::part(&self.replica.values, by.hidden..by.hidden + lanes)
    }

    /// Layout of packed matrices of `columns` columns.
    fn packed(&self, of: Attention, columns: usize) -> Layout {
        Layout { batch_stride: self.places(of) * columns, ..Layout::rows(columns) }
    }

    /// Finds places, gathers features, and adds up weights.
    fn gather_steps(&self, by: &Attending<'a>) -> Result<()> {
        let Attention { dim, steps_max, hidden } = by.of;
        let (rows, blocks, room) = (self.rows(), self.blocks(), by.room);
        let mut args = vec![by.lengths.arg(rows), self.rows_of(), Arg::first(&room.firsts, rows)];
        args.push(Arg::first(&room.counts, blocks));
        args.extend([blocks, self.sizes.slot_rows, by.lengths.stride, steps_max].map(number));
        self.launch("dense_attention_places", blocks, args)?;
        let features = blocks * self.places(by.of) * 2 * dim;
        self.replica.stream.clear(&room.features, 0..features)?;
        let [lengths, firsts, rows_of] = self.steps(by);
        let mut args = vec![by.target.arg(rows), by.vectors.arg(rows), lengths, firsts, rows_of];
        args.push(Arg::first(&room.features, features));
        args.extend([rows, self.sizes.slot_rows, dim, steps_max].map(number));
        args.extend([by.target.stride, by.vectors.stride, by.lengths.stride].map(number));
        self.launch("dense_attention_features", rows * steps_max, args)?;
        let a = by.lanes_of_a();
        let args = vec![
            self.parameters(by.start..by.hidden_bias()),
            Arg::part(&room.weights, 0..a),
            Arg::part(&room.weights, a..3 * a),
            number(hidden),
            number(dim),
        ];
        self.launch("dense_attention_weights", a, args)
    }

    /// `y = Σ a s` over the steps, with `a` from a hidden layer over the target and each step.
    pub(super) fn attention(&self, node: &NodeView<'_>, of: Attention) -> Result<()> {
        if self.blocks() == 0 {
            return Ok(());
        }
        let by = &self.attending(node, of)?;
        let Attention { dim, steps_max, hidden } = of;
        let (rows, room, stream) = (self.rows(), by.room, &self.replica.stream);
        self.gather_steps(by)?;
        // A stride of 0: every example begins with the bias.
        let bias =
            View { buffer: self.parameters, start: by.hidden_bias(), columns: hidden, stride: 0 };
        let of_targets =
            View { buffer: &room.of_targets, start: 0, columns: hidden, stride: hidden };
        self.copy(bias, of_targets, false)?;
        self.alike().try_for_each(|Alike { first, count, rows }| {
            let shape = Shape { batches: count, rows, columns: hidden, depth: dim };
            let right = Layout { transposed: true, ..Layout::rows(dim) };
            let layouts = [self.by_block(by.target), right, self.by_block(of_targets)];
            let product = self.product(shape, layouts, true);
            let [left, into] = [by.target, of_targets].map(|view| self.block_at(view, first));
            Ok::<(), Error>(stream.product(&product, left, (&room.weights, 0), into)?)
        })?;
        let (batches, depth) = (self.chunks(of), 2 * dim);
        let shape = Shape { batches, rows: CHUNK, columns: hidden, depth };
        let right = Layout { transposed: true, ..Layout::rows(depth) };
        let layouts = [by_chunk(depth), right, by_chunk(hidden)];
        let product = self.product(shape, layouts, false);
        let into = (&self.replica.values, by.hidden);
        stream.product(&product, (&room.features, 0), (&room.weights, by.lanes_of_a()), into)?;
        let [lengths, firsts, rows_of] = self.steps(by);
        let weight = self.parameters(by.weight()..by.weight() + hidden + 1);
        let mut args = vec![self.hidden(by), of_targets.arg(rows), weight];
        args.extend([lengths, firsts, rows_of, self.parts(by)]);
        args.extend([rows, self.sizes.slot_rows, hidden, steps_max].map(number));
        args.push(number(by.lengths.stride));
        self.launch("dense_attention_hidden", rows * steps_max, args)?;
        let [lengths, firsts, rows_of] = self.steps(by);
        let mut args = vec![by.vectors.arg(rows), self.parts(by), lengths, firsts, rows_of];
        args.push(self.value(node).arg(rows));
        args.extend([rows, self.sizes.slot_rows, dim, steps_max].map(number));
        args.extend([by.vectors.stride, by.lengths.stride].map(number));
        self.launch("dense_attention_sum", rows * dim, args)
    }

    pub(super) fn attention_back(&self, node: &NodeView<'_>, of: Attention) -> Result<()> {
        if self.blocks() == 0 {
            return Ok(());
        }
        let by = &self.attending(node, of)?;
        self.gather_steps(by)?;
        self.attention_sums(node, by)?;
        self.attention_weights(by)?;
        self.attention_inputs(node, by)
    }

    /// Gradients of the hidden sums, of the targets' parts, and of the last weight and bias.
    fn attention_sums(&self, node: &NodeView<'_>, by: &Attending<'a>) -> Result<()> {
        let Attention { dim, steps_max, hidden } = by.of;
        let (rows, room, blocks) = (self.rows(), by.room, self.blocks());
        let places = self.places(by.of);
        let d_hidden = || Arg::first(&room.d_hidden, blocks * places * hidden);
        let d_parts = || Arg::first(&room.d_parts, blocks * places);
        self.replica.stream.clear(&room.d_hidden, 0..blocks * places * hidden)?;
        let weight = self.parameters(by.weight()..by.weight() + hidden);
        let mut args = vec![by.vectors.arg(rows), self.hidden(by), weight];
        args.push(self.gradient(node).arg(rows));
        args.extend(self.steps(by));
        args.extend([d_parts(), d_hidden()]);
        args.extend([rows, self.sizes.slot_rows, dim, hidden, steps_max].map(number));
        args.extend([by.vectors.stride, by.lengths.stride].map(number));
        self.launch("dense_attention_backward", rows * steps_max, args)?;
        let mut args = vec![d_hidden()];
        args.extend(self.steps(by));
        args.push(Arg::first(&room.of_targets, rows * hidden));
        args.extend([rows, self.sizes.slot_rows, hidden, steps_max].map(number));
        args.push(number(by.lengths.stride));
        self.launch("dense_attention_to_targets", rows * hidden, args)?;
        let mut args = vec![self.hidden(by), d_parts(), Arg::first(&room.counts, blocks)];
        args.push(self.of_blocks(by.weight()..by.weight() + hidden + 1));
        args.extend([blocks, places, hidden].map(number));
        args.push(self.apart());
        self.launch("dense_attention_to_weight", blocks * (hidden + 1), args)?;
        let d_of_targets =
            View { buffer: &room.of_targets, start: 0, columns: hidden, stride: hidden };
        self.column_sums(d_of_targets, by.hidden_bias())
    }

    /// The gradient of the hidden weight, from those of A and B.
    fn attention_weights(&self, by: &Attending<'a>) -> Result<()> {
        let Attention { dim, hidden, .. } = by.of;
        let (room, blocks, a) = (by.room, self.blocks(), by.lanes_of_a());
        let (stream, places, of_b) = (&self.replica.stream, self.places(by.of), blocks * a);
        stream.clear(&room.d_weights, 0..3 * of_b)?;
        let into = Layout { batch_stride: 2 * a, ..Layout::rows(2 * dim) };
        let left = Layout { transposed: true, ..self.packed(by.of, hidden) };
        (0..places).step_by(CHUNK).try_for_each(|first| {
            let shape = Shape { batches: blocks, rows: hidden, columns: 2 * dim, depth: CHUNK };
            let product = self.product(shape, [left, self.packed(by.of, 2 * dim), into], true);
            let left = (&room.d_hidden, first * hidden);
            let right = (&room.features, first * 2 * dim);
            Ok::<(), Error>(stream.product(&product, left, right, (&room.d_weights, of_b))?)
        })?;
        let d_of_targets =
            View { buffer: &room.of_targets, start: 0, columns: hidden, stride: hidden };
        self.alike().try_for_each(|Alike { first, count, rows }| {
            let shape = Shape { batches: count, rows: hidden, columns: dim, depth: rows };
            let left = Layout { transposed: true, ..self.by_block(d_of_targets) };
            let into = Layout { batch_stride: a, ..Layout::rows(dim) };
            let product = self.product(shape, [left, self.by_block(by.target), into], false);
            let [left, right] = [d_of_targets, by.target].map(|view| self.block_at(view, first));
            Ok::<(), Error>(stream.product(&product, left, right, (&room.d_weights, first * a))?)
        })?;
        let mut args = vec![
            Arg::part(&room.d_weights, 0..of_b),
            Arg::part(&room.d_weights, of_b..3 * of_b),
            self.of_blocks(by.start..by.hidden_bias()),
        ];
        args.extend([blocks, hidden, dim].map(number));
        args.push(self.apart());
        self.launch("dense_attention_divide", blocks * a, args)
    }

    /// The gradients of targets and vectors.
    fn attention_inputs(&self, node: &NodeView<'_>, by: &Attending<'a>) -> Result<()> {
        let Attention { dim, steps_max, hidden } = by.of;
        let (rows, room, stream) = (self.rows(), by.room, &self.replica.stream);
        let (batches, a, columns) = (self.chunks(by.of), by.lanes_of_a(), 2 * dim);
        let shape = Shape { batches, rows: CHUNK, columns, depth: hidden };
        let layouts = [by_chunk(hidden), Layout::rows(columns), by_chunk(columns)];
        let product = self.product(shape, layouts, false);
        let into = (&room.d_features, 0);
        stream.product(&product, (&room.d_hidden, 0), (&room.weights, a), into)?;
        let d_features = || Arg::first(&room.d_features, batches * CHUNK * columns);
        if let Some(target) = self.target(node, 0)? {
            let mut args = vec![by.vectors.arg(rows), d_features()];
            args.extend(self.steps(by));
            args.push(Arg::first(&room.d_targets, rows * dim));
            args.extend([rows, self.sizes.slot_rows, dim, steps_max].map(number));
            args.extend([by.vectors.stride, by.lengths.stride].map(number));
            self.launch("dense_attention_to_target", rows * dim, args)?;
            self.attention_target(by, &target)?;
        }
        if let Some(target) = self.target(node, 1)? {
            let mut args = vec![by.target.arg(rows), self.parts(by), d_features()];
            args.push(self.gradient(node).arg(rows));
            args.extend(self.steps(by));
            args.push(target.view.arg(rows));
            args.extend([rows, self.sizes.slot_rows, dim, steps_max].map(number));
            args.extend([by.target.stride, by.lengths.stride].map(number));
            args.extend([target.view.columns, target.view.stride].map(number));
            args.push(flag(target.adds));
            self.launch("dense_attention_to_vectors", rows * target.view.columns, args)?;
        }
        match self.target(node, 2)? {
            Some(target) if !target.adds => self.clear_view(target.view),
            _ => Ok(()),
        }
    }

    /// Adds the gradients of the targets through A, and writes all of them.
    fn attention_target(&self, by: &Attending<'a>, target: &Target<'_>) -> Result<()> {
        let Attention { dim, hidden, .. } = by.of;
        let view = |buffer, columns| View { buffer, start: 0, columns, stride: columns };
        let (room, stream) = (by.room, &self.replica.stream);
        let d_of_targets = view(&room.of_targets, hidden);
        let d_targets = view(&room.d_targets, dim);
        self.alike().try_for_each(|Alike { first, count, rows }| {
            let shape = Shape { batches: count, rows, columns: dim, depth: hidden };
            let layouts =
                [self.by_block(d_of_targets), Layout::rows(dim), self.by_block(d_targets)];
            let product = self.product(shape, layouts, true);
            let [left, into] = [d_of_targets, d_targets].map(|view| self.block_at(view, first));
            Ok::<(), Error>(stream.product(&product, left, (&room.weights, 0), into)?)
        })?;
        self.copy(d_targets.select(0..target.view.columns), target.view, target.adds)
    }
}
