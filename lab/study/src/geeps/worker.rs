//! A worker: trains a model through a parameter server, layer by layer, and counts what it sees.
//!
//! ```text
//!   layer 0 … top    Read ─► forward ─► PostRead
//!   layer top … 0    Read, PreUpdate ─► backward ─► PostRead, Update, TableClock
//! ```
//!
//! - **Counts.** Each layer has one more row, to which every worker adds one in its own lane in
//!   every clock. So what a read has missed is seen in the read itself, and at the end whether an
//!   update was lost, whatever the server says of itself.
//! - **Momentum.** A worker's own: steps are linear in gradients, so that all workers' together are
//!   the momentum of the sum.

use std::ops::Range;
use std::task::Poll;

use stepwell_base::{Key, TableId};
use stepwell_device::Device;
use stepwell_geeps::{
    Access, Applies, Geeps, Initial, Request, Result, Settings, Staleness, TableSettings,
};

use super::net::{Desk, Net};
use crate::Images;

/// Floats of a row, as in the paper.
pub(super) const ROW_FLOATS: usize = 128;
/// What is kept of a step for the next one.
const MOMENTUM: f32 = 0.9;

/// Where a layer's numbers are.
#[derive(Clone, Debug)]
pub(super) struct LayerRows {
    pub(super) table: TableId,
    /// The last one is that of the counts.
    pub(super) keys: Vec<Key>,
    /// Numbers of the layer; what is left of their last row means nothing.
    pub(super) parameters: usize,
    /// What the counts begin as. // (ROW_FLOATS)
    counts: Vec<f32>,
    /// Whether its table's clock is over with it.
    clocks: bool,
}

impl LayerRows {
    /// Updates of each worker that are in `values`, this layer's rows.
    pub(super) fn counts<'a>(&'a self, values: &'a [f32]) -> impl Iterator<Item = u64> + 'a {
        let row = values[self.counts_at()..].iter().zip(&self.counts);
        row.map(|(value, begin)| (value - begin).round() as u64)
    }

    fn counts_at(&self) -> usize {
        (self.keys.len() - 1) * ROW_FLOATS
    }
}

/// A table for each layer, or one for all of them; weights begin uniform, as rectifiers want them.
pub(super) fn tables(
    net: &Net,
    (is_single, applies, seed): (bool, Applies, u64),
) -> (Settings, Vec<LayerRows>) {
    let (mut tables, mut layers) = (Vec::<TableSettings>::new(), Vec::new());
    // One table has one width: that of the layer that needs the least.
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
        initial.fill((table, keys[keys.len() - 1]), &mut counts);
        let clocks = number == 0 || !is_single;
        layers.push(LayerRows { table, keys, parameters, counts, clocks });
    }
    (Settings { budget_bytes: budget(&layers), tables, ..Settings::default() }, layers)
}

/// Bytes for all data and for the largest layer's buffers twice, which is what the paper gives it.
fn budget(layers: &[LayerRows]) -> u64 {
    let bytes = layers.iter().map(|rows| {
        Device::bytes_counted((size_of::<f32>() * rows.keys.len() * ROW_FLOATS) as u64)
    });
    // Parameters and their update.
    let peak = 2 * bytes.clone().max().unwrap_or(0);
    bytes.sum::<u64>() + 2 * peak
}

/// What all workers of a run have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) net: &'a Net,
    pub(super) rows: &'a [LayerRows],
    pub(super) images: &'a Images,
    pub(super) workers: usize,
    pub(super) mini_batch: usize,
    pub(super) clocks: u64,
    /// How far a step along the mean of all workers' gradients goes.
    pub(super) rate: f32,
    pub(super) staleness: Staleness,
    /// Clocks from one look at the first worker's model to the next.
    pub(super) look_every: u64,
}

/// What a worker comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// It waits for the server.
    Waits,
    /// It computes a layer: this share of a mini-batch.
    Computes(f64),
    /// All clocks are over.
    Over,
}

/// Clocks that reads had missed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    pub(super) max: u64,
    pub(super) sum: u64,
    pub(super) reads: u64,
    /// Reads that had updates of the clock that goes on, or of later ones.
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
    /// Passes of this clock that are over: layers upwards, then downwards.
    pass: usize,
    asked: bool,
    requests: Vec<Request>,
    held: Vec<Access>,
    desk: Desk,
    gradient: Vec<f32>,
    velocity: Vec<Vec<f32>>,
    /// As the last forward pass read them, by layer.
    seen: Vec<Vec<f32>>,
    /// Whether these are to be looked at.
    pub(super) is_looked_at: bool,
    pub(super) missed: Missed,
}

impl<'a> Worker<'a> {
    /// That of `rank`, with its part of the examples.
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

    /// As the worker last read the model.
    pub(super) fn seen(&self) -> &[Vec<f32>] {
        &self.seen
    }

    /// The layer of the pass that is next, and whether that is a backward one.
    fn place(&self) -> (usize, bool) {
        let layers = self.job.rows.len();
        match self.pass.checked_sub(layers) {
            None => (self.pass, false),
            Some(down) => (layers - 1 - down, true),
        }
    }

    /// Tells the server the operations of a clock.
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

    /// Whether all that was asked for is there.
    fn take(&mut self) -> Result<bool> {
        while let Some(request) = self.requests.first_mut() {
            let Poll::Ready(access) = request.poll()? else { return Ok(false) };
            drop(self.requests.remove(0));
            self.held.push(access);
        }
        Ok(true)
    }

    /// Goes on as far as the server lets it.
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

    /// The time of a layer is over: gives back what it was computed with.
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

    /// The mini-batch of this clock: the part from its first to its last, again and again.
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
        self.missed.see(self.clock, (least, most));
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
    fn see(&mut self, clock: u64, (least, most): (u64, u64)) {
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
