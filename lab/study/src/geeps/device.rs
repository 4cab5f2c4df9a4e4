//! The application on a device: a deep fully connected model. Kernels compute layers in buffers of
//! its parameter server, each in a given time.
//!
//! - **Time.** A layer starts when its data has arrived. It is really computed, and ends after its
//!   given time, as on a device with that speed; the application waits for that, then releases its
//!   buffers. Data moves concurrently, on separate threads and streams.
//! - **Loss.** The logits are copied to the host, and their gradients back, in the time of the last
//!   layer's forward pass. Gradients are scaled there, so that updates are steps.

use std::sync::Arc;
use std::time::Duration;

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_device::{Arg, Buffer, Device, Pinned, Product, Shape, Stream};
use stepwell_geeps::{Access, Geeps, Running, Settings, ShardRows, Statistics};
use stepwell_kernels::named;
use stepwell_nn::softmax_losses;

use super::steps::{COLUMNS, LAYERS, Pass, ROWS, Step, parameters};
use crate::Result;
use crate::images::{CLASSES, Images};

/// Learning rate along the mean gradient.
const RATE: f32 = 0.1;

/// How to run the application.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) device: &'a Device,
    pub(super) settings: &'a Settings,
    pub(super) steps: &'a [Step],
    /// Total time of all layers' passes.
    pub(super) iteration_seconds: f64,
    /// Number of iterations; the first isn't timed.
    pub(super) iterations: usize,
    /// Whether operations are announced beforehand.
    pub(super) gathers: bool,
    /// Images of 7 x 7 pixels.
    pub(super) images: &'a Images,
}

/// Result of a run.
#[derive(Debug)]
pub(super) struct Came {
    /// Seconds of the timed iterations. // (iterations - 1)
    pub(super) seconds: Vec<f64>,
    /// Mean loss of the first mini-batch, and of the last.
    pub(super) losses: [f64; 2],
    /// The model, by table.
    pub(super) model: Vec<ShardRows>,
    pub(super) statistics: Statistics,
}

/// Runs the application.
///
/// # Errors
/// A server or device error.
pub(super) fn run(run: &Run<'_>) -> Result<Came> {
    let clock = Arc::new(SystemClock::new());
    let fabric = stepwell_fabric::threads(1).remove(0);
    let server = Running::start(run.settings, fabric, Arc::clone(&clock) as _)?;
    let mut application = Application::new(run, &clock)?;
    if run.gathers {
        server.begin_virtual()?;
        application.gather(&server)?;
        server.end_virtual()?;
    }
    let (mut seconds, mut losses) = (Vec::new(), Vec::new());
    for iteration in 0..run.iterations {
        let begin = clock.seconds();
        losses.push(application.iterate(&server, iteration)?);
        seconds.push(clock.seconds() - begin);
    }
    drop(application);
    let finished = server.finish()?;
    let losses = [losses[0], losses[losses.len() - 1]];
    seconds.remove(0);
    Ok(Came { seconds, losses, model: finished.shard, statistics: finished.statistics })
}

struct Application<'a> {
    run: &'a Run<'a>,
    clock: &'a SystemClock,
    stream: Stream,
    pixels: Pinned<f32>,
    logits: Pinned<f32>,
    /// Number of rows, as a kernel argument.
    rows_of: Buffer<u32>,
    loss: f64,
}

impl<'a> Application<'a> {
    fn new(run: &'a Run<'a>, clock: &'a SystemClock) -> Result<Self> {
        let device = run.device;
        let stream = device.stream("application")?;
        let mut count = device.pinned::<u32>(1, "the number of rows")?;
        count.write(1)?[0] = ROWS as u32;
        let rows_of = device.buffer::<u32>(1, "the number of rows")?;
        stream.up(&count, 0..1, &rows_of, 0)?;
        stream.finish()?;
        let pixels = device.pinned(ROWS * COLUMNS[0], "images")?;
        let logits = device.pinned(ROWS * CLASSES, "logits")?;
        Ok(Self { run, clock, stream, pixels, logits, rows_of, loss: 0.0 })
    }

    /// Performs the operations of a mini-batch without computing.
    fn gather(&self, server: &Geeps) -> Result<()> {
        for step in self.run.steps {
            let held = step.acquire(server, self.run.settings)?;
            step.release(server, held)?;
        }
        Ok(())
    }

    /// Performs all passes of a mini-batch; returns its mean loss.
    fn iterate(&mut self, server: &Geeps, iteration: usize) -> Result<f64> {
        for step in self.run.steps {
            let mut held = step.acquire(server, self.run.settings)?;
            // Wait for transfers first: a layer's time starts when its data has arrived.
            for access in &mut held {
                access.on(&self.stream)?;
            }
            self.stream.finish()?;
            let over = self.clock.seconds() + step.share * self.run.iteration_seconds;
            self.compute(step.pass, iteration, &mut held)?;
            for access in &mut held {
                access.done_on(&self.stream)?;
            }
            self.stream.finish()?;
            let left = (over - self.clock.seconds()).max(0.0);
            std::thread::sleep(Duration::from_secs_f64(left));
            step.release(server, held)?;
        }
        Ok(self.loss)
    }

    fn compute(&mut self, pass: Pass, iteration: usize, held: &mut [Access]) -> Result<()> {
        match (pass, held) {
            (Pass::Forward(layer), [weights, input, output, rest @ ..]) => {
                if layer == 0 {
                    self.take_images(iteration, input)?;
                }
                self.forward(layer, weights, input, output)?;
                if let [error] = rest {
                    self.compute_loss(iteration, output, error)?;
                }
                Ok(())
            }
            (Pass::Backward(layer), [weights, update, input, error, below @ ..]) => {
                self.backward(layer, input, error, update)?;
                if let [below] = below {
                    self.propagate(layer, weights, input, error, below)?;
                }
                Ok(())
            }
            (pass, held) => unreachable!("{} buffers for {pass:?}", held.len()),
        }
    }

    /// Start of a mini-batch's examples.
    fn start(&self, iteration: usize) -> usize {
        iteration * ROWS % (self.run.images.count() + 1 - ROWS)
    }

    fn take_images(&mut self, iteration: usize, input: &mut Access) -> Result<()> {
        let (start, floats) = (self.start(iteration) * COLUMNS[0], ROWS * COLUMNS[0]);
        let features = &self.run.images.features[start..start + floats];
        self.pixels.write(floats)?.copy_from_slice(features);
        Ok(self.stream.up(&self.pixels, 0..floats, input.on(&self.stream)?, 0)?)
    }

    /// `output = relu(input Wᵀ + b)`, without relu in the last layer.
    fn forward(
        &self,
        layer: usize,
        weights: &mut Access,
        input: &mut Access,
        output: &mut Access,
    ) -> Result<()> {
        let (stream, depth, columns) = (&self.stream, COLUMNS[layer], COLUMNS[layer + 1]);
        let shape = Shape { batches: 1, rows: ROWS, columns, depth };
        let (weights, input) = (weights.on(stream)?, input.on(stream)?);
        let output = output.on(stream)?;
        let product = Product::of(shape).right_transposed();
        stream.product(&product, (input, 0), (weights, 0), (output, 0))?;
        let args = vec![
            Arg::all(output),
            Arg::part(weights, depth * columns..parameters(layer)),
            Arg::u32(ROWS as u32),
            Arg::u32(columns as u32),
            Arg::u32(1),
            Arg::u32(u32::from(layer + 1 < LAYERS)),
        ];
        Ok(stream.launch(named("dense_activate"), ROWS * columns, args)?)
    }

    fn compute_loss(
        &mut self,
        iteration: usize,
        logits: &mut Access,
        error: &mut Access,
    ) -> Result<()> {
        let (stream, floats) = (&self.stream, ROWS * CLASSES);
        stream.down(logits.on(stream)?, 0..floats, &self.logits, 0)?;
        stream.finish()?;
        let start = self.start(iteration);
        let labels = &self.run.images.labels[start..start + ROWS];
        let mut gradient = vec![0.0; floats];
        let logits = self.logits.read(floats)?;
        let sums = softmax_losses(logits, labels, CLASSES, ROWS, &mut gradient);
        self.loss = sums.loss / ROWS as f64;
        let scaled = self.logits.write(floats)?.iter_mut().zip(gradient);
        scaled.for_each(|(scaled, gradient)| *scaled = -RATE * gradient);
        stream.up(&self.logits, 0..floats, error.on(stream)?, 0)?;
        Ok(stream.finish()?)
    }

    /// Update of a layer: `errorᵀ input` for weights, the sum of errors for biases.
    fn backward(
        &self,
        layer: usize,
        input: &mut Access,
        error: &mut Access,
        update: &mut Access,
    ) -> Result<()> {
        let (stream, inputs, outputs) = (&self.stream, COLUMNS[layer], COLUMNS[layer + 1]);
        let (input, error, update) = (input.on(stream)?, error.on(stream)?, update.on(stream)?);
        let shape = Shape { batches: 1, rows: outputs, columns: inputs, depth: ROWS };
        let product = Product::of(shape).left_transposed();
        stream.product(&product, (error, 0), (input, 0), (update, 0))?;
        let args = vec![
            Arg::all(error),
            Arg::part(update, inputs * outputs..parameters(layer)),
            Arg::all(&self.rows_of),
            Arg::u32(1),
            Arg::u32(ROWS as u32),
            Arg::u32(outputs as u32),
            Arg::u64(0),
        ];
        Ok(stream.launch(named("dense_column_sums"), outputs, args)?)
    }

    /// `below = error W` where the rectified input is positive.
    fn propagate(
        &self,
        layer: usize,
        weights: &mut Access,
        input: &mut Access,
        error: &mut Access,
        below: &mut Access,
    ) -> Result<()> {
        let (stream, columns, depth) = (&self.stream, COLUMNS[layer], COLUMNS[layer + 1]);
        let shape = Shape { batches: 1, rows: ROWS, columns, depth };
        let (weights, input) = (weights.on(stream)?, input.on(stream)?);
        let (error, below) = (error.on(stream)?, below.on(stream)?);
        stream.product(&Product::of(shape), (error, 0), (weights, 0), (below, 0))?;
        let args =
            vec![Arg::all(input), Arg::all(below), Arg::u32(ROWS as u32), Arg::u32(columns as u32)];
        Ok(stream.launch(named("dense_deactivate"), ROWS * columns, args)?)
    }
}
