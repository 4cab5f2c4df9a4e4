//! A worker that trains the model through a parameter server, one operation at a time, so that it
//! runs on a separate thread and under a scheduler.

use std::task::Poll;

use stepwell_base::Key;
use stepwell_device::{Device, Stream};
use stepwell_geeps::{Access, Fetch, Geeps, Request, Result, Save, Staleness};

use super::{Model, Values, backward, forward};

/// The next step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Read, local output, local state; then the forward pass.
    Forward(usize),
    GiveForward(usize),
    Backward(usize),
    GiveBackward(usize),
    /// The update of shared weights.
    Again(usize),
    GiveAgain(usize),
    Clock(usize),
}

/// Where a worker computes.
pub struct Bench {
    pub on: Option<(Device, Stream)>,
}

impl Bench {
    /// Runs `compute` on the values of `access`.
    fn with(&self, access: &mut Access, compute: impl FnOnce(&mut [f32])) -> Result<()> {
        let Some((device, stream)) = &self.on else {
            compute(access.values()?);
            return Ok(());
        };
        let floats = access.floats();
        let mut memory = device.pinned::<f32>(floats, "values of a test")?;
        stream.down(access.on(stream)?, 0..floats, &memory, 0)?;
        stream.finish()?;
        compute(memory.write(floats)?);
        stream.up(&memory, 0..floats, access.on(stream)?, 0)?;
        access.done_on(stream)?;
        stream.finish()?;
        Ok(())
    }

    fn read(&self, access: &mut Access) -> Result<Vec<f32>> {
        let mut copy = Vec::new();
        self.with(access, |values| copy = values.to_vec())?;
        Ok(copy)
    }
}

/// How a worker deviates from the sequence that it recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departs {
    /// Clocks from one visit of the layers in another order to the next.
    pub order_every: Option<u64>,
    /// Whether it reads, before that, data that was in no virtual iteration.
    pub reads_other: bool,
    /// Whether it clocks each table twice in an iteration, the first time between two reads.
    pub clocks_twice: bool,
    /// Whether it records again, after two clocks.
    pub gathers_again: bool,
}

/// A worker.
pub struct Worker {
    pub model: Model,
    bench: Bench,
    rank: usize,
    steps: Vec<Step>,
    at: usize,
    pub clock: u64,
    clocks: u64,
    departs: Departs,
    requests: Vec<Request>,
    held: Vec<Access>,
    /// Parameters read in the forward pass, by layer, and the update of the last backward pass.
    params: Vec<Vec<f32>>,
    last_update: Vec<f32>,
    /// Reads that were too old, or changed within a clock.
    pub found: Vec<String>,
    is_virtual: bool,
}

impl Worker {
    pub fn new(model: &Model, rank: usize, clocks: u64) -> Self {
        let mut worker = Self {
            model: model.clone(),
            bench: Bench { on: None },
            rank,
            steps: Vec::new(),
            at: 0,
            clock: 0,
            clocks,
            departs: Departs::default(),
            requests: Vec::new(),
            held: Vec::new(),
            params: vec![Vec::new(); model.layers.len()],
            last_update: Vec::new(),
            found: Vec::new(),
            is_virtual: false,
        };
        worker.steps = worker.plan();
        worker
    }

    /// The same worker, deviating from its recording.
    pub fn departing(self, departs: Departs) -> Self {
        Self { departs, ..self }
    }

    /// The same worker, computing on `bench`.
    pub fn at(self, bench: Bench) -> Self {
        Self { bench, ..self }
    }

    fn plan(&self) -> Vec<Step> {
        let layers = self.model.layers.len();
        let turns = |every: u64| self.clock % every == every - 1 && !self.is_virtual;
        let departs = self.departs.order_every.is_some_and(turns);
        let mut steps = Vec::new();
        for layer in 0..layers {
            let layer = if departs { (layer + 1) % layers } else { layer };
            steps.extend([Step::Forward(layer), Step::GiveForward(layer)]);
            if self.departs.clocks_twice && turns(2) {
                steps.push(Step::Clock(layer));
            }
        }
        for layer in (0..layers).rev() {
            let layer = if departs { (layer + 1) % layers } else { layer };
            steps.extend([Step::Backward(layer), Step::GiveBackward(layer)]);
            if self.model.values == Values::Fractions {
                steps.extend([Step::Again(layer), Step::GiveAgain(layer)]);
            }
            steps.push(Step::Clock(layer));
        }
        steps
    }

    /// Records the sequence of an iteration.
    pub fn gather(&mut self, geeps: &Geeps) -> Result<stepwell_geeps::placement::Placement> {
        geeps.begin_virtual()?;
        self.is_virtual = true;
        for step in self.plan() {
            while !self.step(geeps, step)? {}
        }
        self.is_virtual = false;
        geeps.end_virtual()
    }

    /// Whether all clocks are done.
    pub fn is_over(&self) -> bool {
        self.clock == self.clocks
    }

    /// Advances by an operation, if possible.
    pub fn poll(&mut self, geeps: &Geeps) -> Result<bool> {
        if self.departs.gathers_again && (self.at, self.clock) == (0, 2) {
            self.departs.gathers_again = false;
            self.gather(geeps)?;
        }
        let moved = self.step(geeps, self.steps[self.at])?;
        if moved {
            self.at += 1;
            if self.at == self.steps.len() {
                (self.at, self.clock) = (0, self.clock + 1);
                self.steps = self.plan();
            }
        }
        Ok(moved)
    }

    fn asks(&self, geeps: &Geeps, step: Step) -> Result<Vec<Request>> {
        let (Step::Forward(layer) | Step::Backward(layer) | Step::Again(layer)) = step else {
            return Ok(Vec::new());
        };
        let layer = &self.model.layers[layer];
        let read = |keys: &[Key]| geeps.read(layer.table, keys, self.model.staleness);
        let kept = || geeps.local_access(layer.kept, &layer.kept_keys, Fetch::Fetch);
        let output = |fetch| geeps.local_access(layer.output, &layer.output_keys, fetch);
        let mut requests = Vec::new();
        if self.departs.reads_other && !self.is_virtual && self.clock % 3 == 1 {
            requests.push(read(&layer.keys[..1])?);
        }
        requests.extend(match step {
            Step::Forward(_) => vec![read(&layer.keys)?, output(Fetch::NoFetch)?, kept()?],
            Step::Backward(_) => vec![
                read(&layer.keys)?,
                geeps.pre_update(layer.table, &layer.keys)?,
                output(Fetch::Fetch)?,
                kept()?,
            ],
            _ => vec![geeps.pre_update(layer.table, &layer.again)?, read(&layer.keys)?],
        });
        Ok(requests)
    }

    fn step(&mut self, geeps: &Geeps, step: Step) -> Result<bool> {
        match step {
            Step::Forward(layer) | Step::Backward(layer) | Step::Again(layer) => {
                if self.requests.is_empty() && self.held.is_empty() {
                    self.requests = self.asks(geeps, step)?;
                }
                while !self.requests.is_empty() {
                    let Poll::Ready(access) = self.requests[0].poll()? else { return Ok(false) };
                    drop(self.requests.remove(0));
                    self.held.push(access);
                }
                if !self.is_virtual {
                    self.compute(step, layer)?;
                }
            }
            Step::GiveForward(_) => {
                let kept = self.pop();
                geeps.post_local_access(kept, Save::Save)?;
                let output = self.pop();
                geeps.post_local_access(output, Save::Save)?;
                self.give_reads(geeps)?;
            }
            Step::GiveBackward(_) => {
                let kept = self.pop();
                geeps.post_local_access(kept, Save::Save)?;
                let output = self.pop();
                geeps.post_local_access(output, Save::NoSave)?;
                let update = self.pop();
                geeps.update(update)?;
                self.give_reads(geeps)?;
            }
            Step::GiveAgain(_) => {
                let read = self.pop();
                geeps.post_read(read)?;
                let update = self.pop();
                geeps.update(update)?;
                self.give_reads(geeps)?;
            }
            Step::Clock(layer) => geeps.table_clock(self.model.layers[layer].table)?,
        }
        Ok(true)
    }

    fn pop(&mut self) -> Access {
        let Some(access) = self.held.pop() else { panic!("a buffer is held") };
        access
    }

    fn give_reads(&mut self, geeps: &Geeps) -> Result<()> {
        self.held.drain(..).try_for_each(|access| geeps.post_read(access))
    }

    fn compute(&mut self, step: Step, layer: usize) -> Result<()> {
        let Self { bench, held, .. } = self;
        let row_floats = self.model.tables[layer].row_floats;
        // Other reads come first.
        let extra = held.len()
            - match step {
                Step::Forward(_) => 3,
                Step::Backward(_) => 4,
                _ => 2,
            };
        let held = &mut held[extra..];
        match (step, held) {
            (Step::Forward(_), [read, output, kept]) => {
                let params = bench.read(read)?;
                let mut made = vec![0.0; output.floats()];
                let at = (self.rank, self.clock);
                bench.with(kept, |kept| forward(at, &params, kept, &mut made))?;
                bench.with(output, |output| output.copy_from_slice(&made))?;
                self.check(layer, &params);
                self.params[layer] = params;
            }
            (Step::Backward(_), [read, update, output, kept]) => {
                let values = [read, output, kept].map(|access| bench.read(access));
                let [params, output, kept] = values;
                let (params, output, kept) = (params?, output?, kept?);
                let what = (self.model.values, self.rank);
                let values = (&params[..], &output[..], &kept[..]);
                let mut made = vec![0.0; update.floats()];
                backward(what, values, &mut made, row_floats);
                bench.with(update, |update| update.copy_from_slice(&made))?;
                self.last_update = made;
            }
            (Step::Again(_), [update, read]) => {
                let params = bench.read(read)?;
                let floats = update.floats();
                let made = &self.last_update[..floats];
                bench.with(update, |update| update.copy_from_slice(made))?;
                // Under BSP, no update is visible within its clock, neither its own nor another's.
                if self.model.staleness == Staleness::BSP && params != self.params[layer] {
                    let (rank, clock) = (self.rank, self.clock);
                    self.found.push(format!("rank {rank}: parameters change in clock {clock}"));
                }
            }
            (step, held) => panic!("{} buffers for {step:?}", held.len()),
        }
        Ok(())
    }

    /// Whether counts are as fresh as required.
    fn check(&mut self, layer: usize, params: &[f32]) {
        if self.model.values != Values::Counts {
            return;
        }
        let row_floats = self.model.tables[layer].row_floats;
        let slack = match self.model.staleness {
            Staleness::Clocks(slack) => slack,
            Staleness::Unbounded => return,
        };
        let needed = self.clock.saturating_sub(slack);
        let rows: Vec<&[f32]> = params.chunks_exact(row_floats).rev().collect();
        for (worker, row) in rows[1..].iter().enumerate() {
            let count = row[0] as u64;
            if count < needed {
                let (rank, clock) = (self.rank, self.clock);
                self.found.push(format!(
                    "rank {rank} at clock {clock} sees {count} updates of {worker}, not {needed}"
                ));
            }
        }
    }
}
