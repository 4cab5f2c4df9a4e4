//! A device's part of the dense part: a copy of the parameters, and room for its blocks.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use stepwell_device::{Arg, Buffer, Device, Event, Pinned, Stream};
use stepwell_engine::{Blocks, PooledAt};
use stepwell_kernels::named;
use stepwell_nn::{Loss, NodeView, Objective};
use stepwell_optim::{Rule, StepNumbers, gain};

use super::attention_room::AttentionRoom;
use super::captured::CapturedPasses;
use super::sizes::{PART_SUMS, Sizes};
use crate::Result;

/// Device memory, with a pinned host buffer of the same size.
#[derive(Debug)]
pub(super) struct Both<T> {
    pub(super) host: Pinned<T>,
    pub(super) device: Buffer<T>,
}

/// Vectors that checkpoints store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Vector {
    Parameters,
    /// The optimizer's vector with this number.
    State(usize),
    /// The mean of the parameters over steps.
    Averaged,
    /// The graph's state.
    OfGraph,
}

/// Buffers for clipping the gradient.
struct Clip {
    /// Sums of squares. // (parts, 16)
    sums: Buffer<f32>,
    norm_max: f64,
    factor: Buffer<f32>,
}

impl<T: Pod> Both<T> {
    fn new(device: &Device, count: usize, what: &'static str) -> Result<Self> {
        let count = count.max(1);
        Ok(Self { host: device.pinned(count, what)?, device: device.buffer(count, what)? })
    }
}

impl Clip {
    /// Buffers, if the norm has a bound.
    fn new(device: &Device, sizes: Sizes) -> Result<Option<Self>> {
        if sizes.norm_max <= 0.0 {
            return Ok(None);
        }
        let sums = device.buffer(sizes.square_sums().max(1), "squares of gradients")?;
        let factor = device.buffer(1, "factor of gradients")?;
        Ok(Some(Self { sums, norm_max: sizes.norm_max, factor }))
    }
}

/// The buffers of one device. Its work is in the order of one stream; the host waits for `done`
/// before it reads downloads and before it writes uploads.
pub(super) struct Replica {
    pub(super) stream: Stream,
    pub(super) done: Event,
    pub(super) captured: CapturedPasses,
    /// The blocks of the last pass, as a share of this rank's.
    pub(super) share: Blocks,
    /// Input of the graph and its gradient, which the device's rows may share.
    pub(super) at: Arc<PooledAt>,
    /// Upload buffer of the input: all of it, or only dense features. // (rows, columns)
    pub(super) x: Pinned<f32>,
    pub(super) first_order: Pinned<f32>, // (rows)
    /// Dense features, if uploaded alone. // (rows, features)
    pub(super) features: Buffer<f32>,
    pub(super) targets: Both<f32>, // (rows, labels)
    pub(super) weights: Both<f32>, // (rows)
    /// Examples of each block. // (slots)
    pub(super) rows_of: Both<u32>,
    /// Random streams of layers that drop lanes. // (rows, layers)
    pub(super) streams: Both<u64>,
    /// Kind of each label's loss. // (labels)
    pub(super) kinds: Buffer<u32>,
    /// What emphasizes some examples of each label: weight of positives, smoothing, gamma of the
    /// focal loss. // (labels, 3)
    pub(super) emphases: Buffer<f64>,
    /// Outputs of nodes and what they keep, placed by the graph's plan.
    pub(super) values: Buffer<f32>,
    /// Gradients of the outputs, likewise.
    pub(super) d_values: Buffer<f32>,
    /// Intermediate results of the layer that runs. // (rows, lanes)
    pub(super) terms: Buffer<f32>,
    /// Intermediate results of attention to sequences, if a layer has it.
    pub(super) attention: Option<AttentionRoom>,
    /// Scores of the examples of a block with each other. // (rows, rows of a slot)
    pub(super) scores: Buffer<f32>,
    /// Terms of losses. // (rows, labels + 1)
    pub(super) loss_terms: Buffer<f64>,
    parameters: Buffer<f32>,
    /// The mean of the parameters over steps, if evaluations use it.
    averaged: Option<Buffer<f32>>,
    /// Vectors of the optimizer, one after another.
    state: Buffer<f32>,
    clip: Option<Clip>,
    /// State of the graph, which evaluations read.
    pub(super) graph_state: Buffer<f32>,
    /// Moments of blocks, and sums over their examples, layer by layer. // (lanes, slots)
    pub(super) moments: Buffer<f32>,
    /// Gradient of the parameters and statistics by block. // (slots, apart)
    pub(super) gradients: Buffer<f32>,
    /// Sums of gradients and statistics. // (subtrees, summed lanes)
    pub(super) sums: Buffer<f32>,
    pub(super) logits: Pinned<f32>, // (rows, labels)
    /// Losses, predictions and weights. // (slots, 3)
    pub(super) loss_sums: Both<f64>,
    pub(super) d_x: Pinned<f32>,           // (rows, embedding)
    pub(super) d_first_order: Pinned<f32>, // (rows)
    /// Download buffer of sums and other vectors. // (subtrees, lanes)
    carried: Mutex<Pinned<f32>>,
    /// Upload buffer of a vector. // (lanes)
    total: Pinned<f32>,
    sizes: Sizes,
}

/// A number as a kernel argument.
pub(super) fn number(value: usize) -> Arg<'static> {
    Arg::u32(u32::try_from(value).unwrap_or_else(|_| panic!("{value} for a kernel")))
}

/// A flag as a kernel argument.
pub(super) fn flag(is_set: bool) -> Arg<'static> {
    Arg::u32(u32::from(is_set))
}

impl Replica {
    /// Allocates a replica's buffers on `device`.
    ///
    /// # Errors
    /// If there is too little memory.
    pub(super) fn new(device: &Device, sizes: Sizes, objectives: &[Objective]) -> Result<Self> {
        let (rows, slots) = (sizes.rows(), sizes.slots);
        let buffer = |lanes: usize, what| device.buffer::<f32>(lanes.max(1), what);
        let [columns, one, labels, _] = sizes.lanes_up();
        let parameters = sizes.parameters;
        let pinned = |lanes: usize, what| device.pinned::<f32>(lanes.max(1), what);
        let at = PooledAt {
            x: buffer(rows * columns, "input of the dense part")?,
            columns,
            first_order: buffer(rows * one, "first order")?,
            d_x: buffer(rows * sizes.embedding, "gradients of embeddings")?,
            d_first_order: buffer(rows, "gradients of the first order")?,
            pooled: device.event()?,
            passed: device.event()?,
        };
        let mut replica = Self {
            stream: device.stream("dense")?,
            done: device.event()?,
            captured: CapturedPasses::default(),
            share: Blocks::new(0, 0),
            at: Arc::new(at),
            x: pinned(rows * columns, "input of the dense part")?,
            first_order: pinned(rows * one, "first order")?,
            features: buffer(rows * sizes.features(), "dense features")?,
            targets: Both::new(device, rows * labels, "labels")?,
            weights: Both::new(device, rows * one, "weights of examples")?,
            rows_of: Both::new(device, slots, "rows of blocks")?,
            streams: Both::new(device, sizes.streams(), "random streams")?,
            kinds: device.buffer(labels.max(1), "kinds of losses")?,
            emphases: device.buffer(3 * labels.max(1), "objectives")?,
            values: buffer(rows * sizes.value_lanes, "outputs of layers")?,
            d_values: buffer(rows * sizes.gradient_lanes, "gradients of outputs")?,
            terms: buffer(rows * sizes.terms, "terms of layers")?,
            attention: AttentionRoom::new(device, sizes)?,
            scores: buffer(rows * sizes.scores, "scores within blocks")?,
            loss_terms: device.buffer(rows * (labels + 1), "terms of losses")?,
            parameters: buffer(parameters, "parameters")?,
            averaged: sizes.averages.then(|| buffer(parameters, "mean of them")).transpose()?,
            state: buffer(parameters * sizes.vectors, "state of the dense optimizer")?,
            clip: Clip::new(device, sizes)?,
            gradients: buffer(slots * sizes.apart(), "gradients of parameters")?,
            graph_state: buffer(sizes.state, "state of layers")?,
            moments: buffer(slots * sizes.moments, "moments of blocks")?,
            sums: buffer(sizes.subtrees * sizes.vector(), "sums of gradients")?,
            logits: device.pinned((rows * labels).max(1), "logits")?,
            loss_sums: Both::new(device, 3 * slots, "sums of losses")?,
            d_x: pinned(rows * sizes.embedding, "gradients of embeddings")?,
            d_first_order: pinned(rows, "gradients of the first order")?,
            carried: Mutex::new(pinned(sizes.subtrees * sizes.vector(), "dense vectors down")?),
            total: pinned(sizes.vector(), "dense vectors up")?,
            sizes,
        };
        replica.put_objectives(objectives)?;
        Ok(replica)
    }

    /// Uploads the objectives of the labels.
    fn put_objectives(&mut self, objectives: &[Objective]) -> Result<()> {
        // Uses the upload buffer of `rows_of`, and the download buffer of sums.
        for (number, of) in objectives.iter().enumerate() {
            self.rows_of.host.write(1)?[0] = match of.loss {
                Loss::LogLoss => 0,
                Loss::SquaredError => 1,
            };
            self.stream.up(&self.rows_of.host, 0..1, &self.kinds, number)?;
            let emphases = [of.positive_weight, of.smoothing, of.focal_gamma];
            self.loss_sums.host.write(3)?.copy_from_slice(&emphases);
            self.stream.up(&self.loss_sums.host, 0..3, &self.emphases, 3 * number)?;
            self.stream.finish()?;
        }
        Ok(())
    }

    pub(super) fn launch(&self, name: &str, items: usize, args: Vec<Arg<'_>>) -> Result<()> {
        Ok(self.stream.launch(named(name), items, args)?)
    }

    /// The lanes of the statistics of `node` among those that are summed over blocks.
    pub(super) fn statistics_of(&self, node: &NodeView<'_>) -> Range<usize> {
        let of = &node.statistics;
        self.sizes.parameters + of.start..self.sizes.parameters + of.end
    }

    /// Rows of the occupied slots.
    pub(super) fn rows(&self) -> usize {
        self.share.count() * self.sizes.slot_rows
    }

    /// Downloads the given number of lanes of the input's gradients.
    pub(super) fn gradients_down(&self, (d_x, d_first_order): (usize, usize)) -> Result<()> {
        let at = &self.at;
        for (from, to, lanes) in
            [(&at.d_x, &self.d_x, d_x), (&at.d_first_order, &self.d_first_order, d_first_order)]
        {
            if lanes > 0 {
                self.stream.down(from, 0..lanes, to, 0)?;
            }
        }
        Ok(())
    }

    /// Sums the gradients of all blocks of this replica.
    pub(super) fn sum_all(&self) -> Result<()> {
        self.sum_subtree(0..self.share.count(), 0)
    }

    /// Sums the gradients of this replica's blocks by subtree and downloads the sums.
    pub(super) fn sum_subtrees(&mut self) -> Result<()> {
        let subtrees = self.share.subtrees();
        let mut count = 0;
        for (number, subtree) in subtrees.enumerate() {
            self.sum_subtree(subtree, number)?;
            count = number + 1;
        }
        let lanes = count * self.sizes.summed;
        if lanes > 0 {
            self.stream.down(&self.sums, 0..lanes, &*self.carried(), 0)?;
        }
        Ok(self.stream.record(&self.done)?)
    }

    fn sum_subtree(&self, blocks: Range<usize>, number: usize) -> Result<()> {
        let (lanes, apart) = (self.sizes.summed, self.sizes.apart());
        let of_blocks = blocks.start * apart..blocks.end * apart;
        let args = vec![
            Arg::part(&self.gradients, of_blocks),
            Arg::part(&self.sums, number * lanes..(number + 1) * lanes),
            Arg::u64(lanes as u64),
            Arg::u64(apart as u64),
            self::number(blocks.len()),
        ];
        self.launch("dense_sum", lanes, args)
    }

    /// The downloaded sums, one after another, and the upload buffer.
    pub(super) fn summed(&mut self) -> Result<(Blocks, &[f32], &mut [f32])> {
        let (share, summed) = (self.share, self.sizes.summed);
        let carried = self.carried.get_mut().unwrap_or_else(PoisonError::into_inner);
        let sums = carried.read(share.subtrees().count() * summed)?;
        Ok((share, sums, self.total.write(summed)?))
    }

    /// The upload buffer for summed lanes.
    pub(super) fn total(&mut self) -> Result<&mut [f32]> {
        Ok(self.total.write(self.sizes.summed)?)
    }

    /// Uploads the buffer of [`Replica::total`] to the sums.
    pub(super) fn put_total(&self) -> Result<()> {
        let lanes = self.sizes.summed;
        Ok(self.stream.up(&self.total, 0..lanes, &self.sums, 0)?)
    }

    /// Bounds the norm of the first of the sums, if it has a bound.
    pub(super) fn clip(&self) -> Result<()> {
        let Some(Clip { sums, norm_max, factor }) = &self.clip else { return Ok(()) };
        let (lanes, squares) = (self.sizes.parameters, self.sizes.square_sums());
        let parts = squares / PART_SUMS;
        let gradient = || Arg::first(&self.sums, lanes);
        let squares = || Arg::first(sums, squares);
        let args = vec![gradient(), squares(), number(lanes)];
        self.launch("dense_squares", parts * PART_SUMS, args)?;
        self.launch("dense_square_sums", parts, vec![squares(), number(parts)])?;
        let to = Arg::first(factor, 1);
        let args = vec![squares(), to, number(parts), Arg::f64(*norm_max)];
        self.launch("dense_clip_factor", 1, args)?;
        let args = vec![gradient(), Arg::first(factor, 1), number(lanes)];
        self.launch("dense_clip", lanes, args)
    }

    /// Moves the mean of the parameters towards them, if there is one.
    pub(super) fn average(&self, decay: f64) -> Result<()> {
        let Some(averaged) = &self.averaged else { return Ok(()) };
        let lanes = self.sizes.parameters;
        let args = vec![
            Arg::first(averaged, lanes),
            Arg::first(&self.parameters, lanes),
            number(lanes),
            Arg::f32(gain(decay)),
        ];
        self.launch("dense_average", lanes, args)
    }

    /// The parameters that a pass reads: evaluations read the mean, if there is one.
    pub(super) fn parameters_of(&self, trains: bool) -> &Buffer<f32> {
        self.averaged.as_ref().filter(|_| !trains).unwrap_or(&self.parameters)
    }

    /// Updates the parameters by the first of the sums.
    pub(super) fn update(&self, rule: &Rule, numbers: StepNumbers) -> Result<()> {
        let lanes = self.sizes.parameters;
        let rule = match rule {
            Rule::Sgd(_) => stepwell_kernels::RULE_SGD,
            Rule::Adagrad(_) => stepwell_kernels::RULE_ADAGRAD,
            Rule::Adam(_) => stepwell_kernels::RULE_ADAM,
            Rule::Momentum(_) => stepwell_kernels::RULE_MOMENTUM,
        };
        let StepNumbers { gain1, beta2, gain2, rate, correction2_root, eps, .. } = numbers;
        let mut args = vec![
            Arg::first(&self.parameters, lanes),
            Arg::first(&self.state, lanes * self.sizes.vectors),
            Arg::first(&self.sums, lanes),
            number(lanes),
            Arg::u32(rule),
        ];
        args.extend([gain1, beta2, gain2, rate, correction2_root, eps].map(Arg::f32));
        args.push(Arg::u32(numbers.is_regularized.into()));
        args.extend([numbers.l2, numbers.keep].map(Arg::f32));
        self.launch("dense_update", lanes, args)
    }

    /// Reads a vector.
    pub(super) fn read(&self, vector: Vector) -> Result<Vec<f32>> {
        let mut carried = self.carried();
        let (from, lanes) = self.vector(vector);
        let count = lanes.len();
        self.stream.down(from, lanes, &*carried, 0)?;
        self.stream.finish()?;
        Ok(carried.read(count)?.to_vec())
    }

    /// Writes a vector.
    pub(super) fn write(&mut self, vector: Vector, values: &[f32]) -> Result<()> {
        // The previous upload must finish before its buffer is written.
        self.stream.finish()?;
        self.total.write(values.len())?.copy_from_slice(values);
        let (to, lanes) = self.vector(vector);
        self.stream.up(&self.total, 0..values.len(), to, lanes.start)?;
        Ok(self.stream.finish()?)
    }

    /// The buffer of a vector, and its lanes there.
    fn vector(&self, vector: Vector) -> (&Buffer<f32>, Range<usize>) {
        let count = self.sizes.parameters;
        match vector {
            Vector::Parameters => (&self.parameters, 0..count),
            Vector::State(number) => (&self.state, number * count..(number + 1) * count),
            Vector::Averaged => (self.parameters_of(false), 0..count),
            Vector::OfGraph => (&self.graph_state, 0..self.sizes.state),
        }
    }

    fn carried(&self) -> MutexGuard<'_, Pinned<f32>> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
