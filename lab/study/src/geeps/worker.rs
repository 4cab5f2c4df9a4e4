//! A worker: trains a model through a parameter server, layer by layer, and counts the updates it
//! sees.
//!
//! ```text
//!   layer 0 … top    Read ─► forward ─► PostRead
//!   layer top … 0    Read, PreUpdate ─► backward ─► PostRead, Update, TableClock
//! ```
//!
//! - **Counts.** Each layer has an additional row in which every worker adds one to its own lane
//!   per clock. So a read itself shows which updates it missed, and at the end whether any update
//!   was lost, independent of the server's own statistics.
//! - **Momentum.** Each worker has its own: steps are linear in gradients, so that together they
//!   equal the momentum of the sum.

use std::ops::Range;
use std::task::Poll;

use stepwell_base::{Key, TableId};
use stepwell_device::Device;
use stepwell_geeps::{
    Access, Applies, Geeps, Initial, Request, Result, Settings, Staleness, TableSettings,
};

use super::net::{Desk, Net};
use crate::images::Images;

/// Floats per row, as in the paper.
pub(super) const ROW_FLOATS: usize = 128;
/// Momentum factor.
const MOMENTUM: f32 = 0.9;

/// Rows of a layer.
#[derive(Clone, Debug)]
pub(super) struct LayerRows {
    pub(super) table: TableId,
    /// Keys of the rows; the last row contains the counts.
    pub(super) keys: Vec<Key>,
    /// Number of parameters of the layer; the rest of the last parameter row is unused.
    pub(super) parameters: usize,
    /// Initial values of the counts. // (ROW_FLOATS)
    counts: Vec<f32>,
    /// Whether this layer completes its table's clock.
    clocks: bool,
}

impl LayerRows {
    /// Number of updates of each worker in `values`, this layer's rows.
    pub(super) fn counts<'a>(&'a self, values: &'a [f32]) -> impl Iterator<Item = u64> + 'a {
        let row = values[self.counts_at()..].iter().zip(&self.counts);
        row.map(|(value, begin)| (value - begin).round() as u64)
    }

    fn counts_at(&self) -> usize {
        (self.keys.len() - 1) * ROW_FLOATS
    }
}

/// Tables of a model's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableLayout {
    /// A table for each layer.
    PerLayer,
    /// One table for all layers.
    Single,
}

/// The tables of a model; weights start uniform, scaled for rectifiers.
pub(super) fn tables(
    net: &Net,
    layout: TableLayout,
    applies: Applies,
    seed: u64,
) -> (Settings, Vec<LayerRows>) {
    let (mut tables, mut layers) = (Vec::<TableSettings>::new(), Vec::new());
    let is_single = layout == TableLayout::Single;
    // A single table has one initial range: the smallest that any layer needs.
    let fan_in = net.layers.iter().map(|layer| layer.fan_in);
    let largest = fan_in.clone().max().unwrap_or(1);
    let mut next = 0;
    for (number, layer) in net.layers.iter().enumerate() {
        let parameters = layer.graph.parameter_count();
        let count = parameters.div_ceil(ROW_FLOATS) as u64 + 1;
        let keys: Vec<Key> = (next..next + count).map(Key).collect();
        next += count;
        let fan_in = if is_single { largest } else { layer.fan_in };
        let range = libm::sqrtf(6.0 / fan_in as f32);
        let initial = Initial::Uniform { seed, range };
        if number == 0 || !is_single {
            let (name, keys) = (format!("layer {number}"), Vec::new());
            let row_floats = ROW_FLOATS;
            tables.push(TableSettings { name, row_floats, keys, initial, applies });
        }
        let table = TableId(tables.len() as u32 - 1);
        tables[table.0 as usize].keys.extend(&keys);
        let mut counts = vec![0.0; ROW_FLOATS];
        initial.fill(table, keys[keys.len() - 1], &mut counts);
        let clocks = number == 0 || !is_single;
        layers.push(LayerRows { table, keys, parameters, counts, clocks });
    }
    (Settings { budget_bytes: budget(&layers), tables, ..Settings::default() }, layers)
}

/// Memory for all data plus twice the largest layer's buffers, as in the paper.
fn budget(layers: &[LayerRows]) -> u64 {
    let bytes = layers.iter().map(|rows| {
        Device::bytes_counted((size_of::<f32>() * rows.keys.len() * ROW_FLOATS) as u64)
    });
    // Parameters and their update.
    let peak = 2 * bytes.clone().max().unwrap_or(0);
    bytes.sum::<u64>() + 2 * peak
}

/// Parameters that all workers of a run share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) net: &'a Net,
    pub(super) rows: &'a [LayerRows],
    pub(super) images: &'a Images,
    pub(super) workers: usize,
    pub(super) mini_batch: usize,
    pub(super) clocks: u64,
    /// Learning rate along the mean of all workers' gradients.
    pub(super) rate: f32,
    pub(super) staleness: Staleness,
    /// Clocks between evaluations of the first worker's model.
    pub(super) look_every: u64,
}

/// State of a worker after polling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// Waiting for the server.
    Waits,
    /// Computing a layer, for this share of a mini-batch's time.
    Computes(f64),
    /// All clocks are over.
    Over,
}

/// Clocks missing from reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    pub(super) max: u64,
    pub(super) sum: u64,
    pub(super) reads: u64,
    /// Reads that contained updates of the current clock or of later ones.
    pub(super) ahead: u64,
}

/// A worker.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    job: Job<'a>,
    rank: usize,
    part: Range<usize>,
    shares: Vec<[f64; 2]>,
    pub(super) clock: u64,
    /// Completed passes of this clock: layers upwards, then downwards.
    pass: usize,
    asked: bool,
    requests: Vec<Request>,
    held: Vec<Access>,
    desk: Desk,
    gradient: Vec<f32>,
    velocity: Vec<Vec<f32>>,
    /// Parameters as read by the last forward pass, by layer.
    seen: Vec<Vec<f32>>,
    /// Whether `seen` is ready to be evaluated.
    pub(super) is_looked_at: bool,
    pub(super) missed: Missed,
}

impl<'a> Worker<'a> {
    /// The worker of `rank`, with its part of the examples.
    pub(super) fn new(job: Job<'a>, rank: usize) -> Self {
        let each = job.images.count() / job.workers;
        let numbers = job.rows.iter().map(|rows| rows.parameters);
        Self {
            job,
            rank,
            part: rank * each..(rank + 1) * each,
            shares: job.net.shares(),
            clock: 0,
            pass: 0,
            asked: false,
            requests: Vec::new(),
            held: Vec::new(),
            desk: Desk::new(job.net, job.mini_batch),
            gradient: Vec::new(),
            velocity: numbers.clone().map(|count| vec![0.0; count]).collect(),
            seen: numbers.map(|count| vec![0.0; count]).collect(),
            is_looked_at: false,
            missed: Missed::default(),
        }
    }

    /// The model as the worker last read it.
    pub(super) fn seen(&self) -> &[Vec<f32>] {
        &self.seen
    }

    /// The layer of the next pass, and whether it is a backward pass.
    fn place(&self) -> (usize, bool) {
        let layers = self.job.rows.len();
        match self.pass.checked_sub(layers) {
            None => (self.pass, false),
            Some(down) => (layers - 1 - down, true),
        }
    }

    /// Announces the operations of a clock to the server.
    pub(super) fn gather(&mut self, geeps: &Geeps) -> Result<()> {
        geeps.begin_virtual()?;
        let layers = self.job.rows.len();
        for pass in 0..2 * layers {
            self.pass = pass;
            self.ask(geeps)?;
            while !self.take()? {}
            self.give(geeps)?;
        }
        self.pass = 0;
        geeps.end_virtual().map(drop)
    }

    fn ask(&mut self, geeps: &Geeps) -> Result<()> {
        let (layer, is_back) = self.place();
        let LayerRows { table, keys, .. } = &self.job.rows[layer];
        self.requests.push(geeps.read(*table, keys, self.job.staleness)?);
        if is_back {
            self.requests.push(geeps.pre_update(*table, keys)?);
        }
        self.asked = true;
        Ok(())
    }

    /// Takes the requested buffers; returns whether all have arrived.
    fn take(&mut self) -> Result<bool> {
        while let Some(request) = self.requests.first_mut() {
            let Poll::Ready(access) = request.poll()? else { return Ok(false) };
            drop(self.requests.remove(0));
            self.held.push(access);
        }
        Ok(true)
    }

    /// Continues as far as the server allows.
    pub(super) fn poll(&mut self, geeps: &Geeps) -> Result<Next> {
        if self.clock == self.job.clocks {
            return Ok(Next::Over);
        }
        if !self.asked {
            self.ask(geeps)?;
        }
        if !self.take()? {
            return Ok(Next::Waits);
        }
        let (layer, is_back) = self.place();
        self.compute(layer, is_back)?;
        Ok(Next::Computes(self.shares[layer][usize::from(is_back)]))
    }

    /// Ends the computation of a layer, and releases its buffers.
    pub(super) fn computed(&mut self, geeps: &Geeps) -> Result<()> {
        self.give(geeps)?;
        self.pass += 1;
        if self.pass == 2 * self.job.rows.len() {
            (self.pass, self.clock) = (0, self.clock + 1);
        }
        Ok(())
    }

    fn give(&mut self, geeps: &Geeps) -> Result<()> {
        let (layer, is_back) = self.place();
        self.asked = false;
        if is_back && let Some(update) = self.held.pop() {
            geeps.update(update)?;
        }
        self.held.drain(..).try_for_each(|read| geeps.post_read(read))?;
        let rows = &self.job.rows[layer];
        if is_back && rows.clocks { geeps.table_clock(rows.table) } else { Ok(()) }
    }

    /// Mini-batch of this clock; repeatedly iterates over the part.
    fn examples(&self) -> Range<usize> {
        let mini_batches = self.part.len() / self.job.mini_batch;
        let start = self.part.start + self.clock as usize % mini_batches * self.job.mini_batch;
        start..start + self.job.mini_batch
    }

    fn compute(&mut self, layer: usize, is_back: bool) -> Result<()> {
        let Job { net, rows, images, mini_batch, .. } = self.job;
        let (rows, examples) = (&rows[layer], self.examples());
        let values = self.held[0].values()?;
        let counts = rows.counts(values).take(self.job.workers);
        let (least, most) =
            counts.fold((u64::MAX, 0), |(least, most), count| (least.min(count), most.max(count)));
        self.missed.see(self.clock, least, most);
        let parameters = &values[..rows.parameters];
        if !is_back {
            if layer == 0 {
                self.desk.begin(images, examples);
            }
            self.desk.forward(net, layer, parameters);
            self.seen[layer].copy_from_slice(parameters);
            let looks = self.rank == 0 && self.clock.is_multiple_of(self.job.look_every);
            self.is_looked_at = looks && layer + 1 == net.layers.len();
            return Ok(());
        }
        if layer + 1 == net.layers.len() {
            self.desk.loss(&images.labels[examples], mini_batch * self.job.workers);
        }
        self.gradient.resize(rows.parameters, 0.0);
        self.desk.backward(net, layer, parameters, &mut self.gradient);
        let counts_at = rows.counts_at();
        let update = self.held[1].values()?;
        let velocity = self.velocity[layer].iter_mut().zip(&self.gradient);
        for (update, (velocity, gradient)) in update.iter_mut().zip(velocity) {
            *velocity = MOMENTUM * *velocity + gradient;
            *update = -self.job.rate * *velocity;
        }
        update[counts_at + self.rank] = 1.0;
        Ok(())
    }
}

impl Missed {
    fn see(&mut self, clock: u64, least: u64, most: u64) {
        let missed = clock.saturating_sub(least);
        self.max = self.max.max(missed);
        self.sum += missed;
        self.reads += 1;
        self.ahead += u64::from(most > clock);
    }

    pub(super) fn add(&mut self, other: Self) {
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.reads += other.reads;
        self.ahead += other.ahead;
    }
}
