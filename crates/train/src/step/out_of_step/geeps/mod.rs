//! The dense part in a GeePS parameter server, with a shard on every rank and the trainer as
//! worker.
//!
//! ```text
//!  begin ─► read all tables ─► gradient … give ─► optimizer ─► updates ─► clock of every table
//!            as old as staleness lets them be       this rank's own │
//!                                                                   ▼
//!                                        shards add them: a row is the sum of ranks' updates
//! ```
//!
//! - **How.** Each tensor of the model is a table with the tensor's rows ([`Tables`]). A worker
//!   turns its gradient into an update by its own optimizer, scaled by the reciprocal of the number
//!   of ranks, and the server adds it: as the applications of the paper do. The rank's five
//!   machines are polled here, so no thread is started, and a simulating scheduler sees all that
//!   happens.
//! - **Clocks.** A clock is a gradient of each rank. A worker at clock t has all updates up to
//!   clock t - 1 - staleness; without staleness, shards add those of a clock in order of ranks, and
//!   the model depends only on the number of ranks.
//! - **Marks.** All ranks clock equally often before a mark, and then read parameters with all
//!   updates. The server is closed, with no message in flight; after the mark a new one begins with
//!   the model.
//! - **Invariants.** Each gradient is one update, which is in the tables when its clock is: at a
//!   mark, all are.
//! - **Source.** Cui et al., "GeePS: Scalable deep learning on distributed GPUs with a
//!   GPU-specialized parameter server" (EuroSys 2016).

mod tables;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt::{Debug, Formatter};
use std::sync::Arc;
use std::task::Poll;

use stepwell_base::clock::Clock;
use stepwell_base::stage::{BoxedStage, Progress};
use stepwell_fabric::Fabric;
use stepwell_geeps::{Access, Error, Geeps, Request, Result, Staleness};
use stepwell_sync::{Counts, OpenEnded, Optimizer, Protocol, Share, Work};

pub(crate) use self::tables::Tables;

/// One rank's worker, and its part of the parameter server.
#[derive(Debug)]
pub(super) struct Worker {
    tables: Tables,
    fabric: Fabric,
    clock: Arc<dyn Clock>,
    optimizer: Box<dyn Optimizer<f32>>,
    /// `None` before it begins, and after it was closed.
    server: Option<Server>,
    state: State,
    /// Number of gradients to give in all, once known.
    last: u64,
    /// Gradients given to previous servers.
    before: u64,
    /// The parameters as last read.
    parameters: Vec<f32>,
    update: Vec<f32>,
    counts: Counts,
}

/// Requests to all tables that are not yet taken, with the tensors' places.
type Requests = VecDeque<(usize, Request)>;

#[derive(Debug)]
enum State {
    /// The next gradient may be asked for.
    Ready,
    /// The next gradient was asked for.
    Wanted,
    Reading(Requests),
    /// The parameters have been read.
    Read,
    Computing,
    /// The update is ready.
    Given,
    Updating(Requests),
    /// Parameters with all updates are read.
    Settling(Requests),
    Closing,
    Ended,
}

impl Worker {
    /// Creates a worker that begins with these parameters, which are the same on all ranks.
    pub(super) fn new(
        tables: Tables,
        fabric: Fabric,
        clock: Arc<dyn Clock>,
        optimizer: Box<dyn Optimizer<f32>>,
        parameters: Vec<f32>,
    ) -> Self {
        Self {
            tables,
            fabric,
            clock,
            optimizer,
            server: None,
            state: State::Ready,
            last: u64::MAX,
            before: 0,
            update: vec![0.0; parameters.len()],
            parameters,
            counts: Counts::default(),
        }
    }

    /// Advances without waiting; returns whether anything happened.
    fn advance(&mut self) -> Result<bool> {
        if matches!(self.state, State::Ended) {
            return Ok(false);
        }
        if self.server.is_none() {
            self.open()?;
        }
        let mut any = false;
        loop {
            let mut moved = self.server.as_mut().map_or(Ok(false), Server::poll)?;
            if moved {
                self.count()?;
            }
            moved |= self.step()?;
            any |= moved;
            if !moved {
                return Ok(any);
            }
        }
    }

    fn open(&mut self) -> Result<()> {
        let settings = self.tables.begin_with(&self.parameters);
        let (geeps, machines) =
            Geeps::new(&settings, self.fabric.clone(), Arc::clone(&self.clock))?;
        self.server = Some(Server { geeps, machines });
        self.before = self.counts.given;
        Ok(())
    }

    /// Takes the next step of its state, if possible.
    fn step(&mut self) -> Result<bool> {
        let Some(Server { geeps, .. }) = &self.server else { return Ok(false) };
        let tensors = &self.tables.tensors;
        let ask = |staleness| {
            requests(tensors.len(), |place| {
                geeps.read(tensors[place].table, &tensors[place].keys, staleness)
            })
        };
        let is_last = self.counts.given == self.last;
        let next = match &mut self.state {
            State::Ready | State::Wanted | State::Reading(_) | State::Read if is_last => {
                // Replaces a waiting read, so that nothing precedes the last read.
                self.state = State::Ready;
                State::Settling(ask(Staleness::BSP)?)
            }
            State::Wanted => State::Reading(ask(self.tables.staleness)?),
            State::Reading(waiting) | State::Settling(waiting) => {
                let clock = self.counts.given - self.before;
                let mut age_max = self.counts.age_max;
                let all = serve(waiting, |place, mut access| {
                    let lanes = tensors[place].lanes.clone();
                    self.parameters[lanes].copy_from_slice(access.values()?);
                    age_max = age_max.max(clock.saturating_sub(access.data_age()));
                    geeps.post_read(access)
                });
                self.counts.age_max = age_max;
                match (all?, is_last) {
                    (false, _) => return Ok(false),
                    (true, false) => State::Read,
                    (true, true) => {
                        geeps.close()?;
                        State::Closing
                    }
                }
            }
            State::Given => State::Updating(requests(tensors.len(), |place| {
                geeps.pre_update(tensors[place].table, &tensors[place].keys)
            })?),
            State::Updating(waiting) => {
                let all = serve(waiting, |place, mut access| {
                    let lanes = tensors[place].lanes.clone();
                    access.values()?.copy_from_slice(&self.update[lanes]);
                    geeps.update(access)?;
                    geeps.table_clock(tensors[place].table)
                });
                if !all? {
                    return Ok(false);
                }
                State::Ready
            }
            State::Closing => {
                if geeps.poll_closed()?.is_pending() {
                    return Ok(false);
                }
                self.server = None;
                State::Ended
            }
            State::Ready | State::Read | State::Computing | State::Ended => return Ok(false),
        };
        self.state = next;
        Ok(true)
    }

    /// Counts the gradients that are in all tables.
    fn count(&mut self) -> Result<()> {
        let Some(Server { geeps, .. }) = &self.server else { return Ok(()) };
        let mut clocks = self.counts.given - self.before;
        for tensor in &self.tables.tensors {
            clocks = clocks.min(geeps.data_age(tensor.table)?);
        }
        self.counts.used = self.counts.used.max(self.before + clocks);
        // Each clock is an update of every rank.
        self.counts.updates = self.counts.used;
        Ok(())
    }
}

/// Creates one request for each table, in order.
fn requests(count: usize, ask: impl Fn(usize) -> Result<Request>) -> Result<Requests> {
    (0..count).map(|place| Ok((place, ask(place)?))).collect()
}

/// Passes served requests to `take`; returns whether all were served.
fn serve(
    requests: &mut Requests,
    mut take: impl FnMut(usize, Access) -> Result<()>,
) -> Result<bool> {
    while let Some((place, request)) = requests.front_mut() {
        let Poll::Ready(access) = request.poll()? else { return Ok(false) };
        take(*place, access)?;
        requests.pop_front();
    }
    Ok(true)
}

impl Protocol<f32> for Worker {
    fn poll(&mut self, fabric: &Fabric) -> stepwell_fabric::Result<Work> {
        match self.advance() {
            Ok(true) => Ok(Work::STEP),
            Ok(false) => Ok(Work::NONE),
            Err(Error::Fabric(error)) => Err(error),
            Err(error) => {
                let (rank, why) = (fabric.rank(), error.to_string());
                Err(stepwell_fabric::Error::Failed { rank, why })
            }
        }
    }

    fn begin(&mut self) -> Option<u64> {
        match self.state {
            State::Read if self.counts.given < self.last => {
                self.state = State::Computing;
                Some(self.counts.given)
            }
            // As late as possible, so that the read is as fresh as possible.
            State::Ready => {
                self.state = State::Wanted;
                None
            }
            _ => None,
        }
    }

    fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// The optimizer makes the update from zero parameters: none of its rules reads them.
    fn give(&mut self, gradient: &mut Vec<f32>) {
        assert!(matches!(self.state, State::Computing), "the gradient was begun");
        assert_eq!(gradient.len(), self.update.len(), "the gradient covers all parameters");
        self.update.fill(0.0);
        let rounds = self.counts.given as f64;
        self.optimizer.apply(&mut self.update, gradient, Share::whole(1), rounds);
        let share = 1.0 / self.fabric.size() as f32;
        self.update.iter_mut().for_each(|lane| *lane *= share);
        self.counts.given += 1;
        self.state = State::Given;
    }

    fn ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn counts(&self) -> Counts {
        Counts { left: self.counts.given - self.counts.used, ..self.counts }
    }
}

impl OpenEnded<f32> for Worker {
    fn end_after(&mut self, gradients: u64) {
        assert!(self.counts.given <= gradients, "more gradients than the last one");
        self.last = gradients;
    }

    fn resume(&mut self, parameters: &[f32]) {
        assert!(self.ended(), "a worker restarts only after it has ended");
        assert_eq!(
            parameters.len(),
            self.parameters.len(),
            "the parameters are those of the same model"
        );
        self.parameters.copy_from_slice(parameters);
        (self.state, self.last) = (State::Ready, u64::MAX);
    }
}

/// A rank's part of the parameter server.
struct Server {
    geeps: Geeps,
    /// The machines that have not ended.
    machines: Vec<BoxedStage<Error>>,
}

impl Server {
    /// Polls each machine; returns whether any progressed.
    fn poll(&mut self) -> Result<bool> {
        let (mut moved, mut failed) = (false, None);
        self.machines.retain_mut(|machine| match machine.poll() {
            Ok(Progress::Done) => {
                moved = true;
                false
            }
            Ok(progress) => {
                moved |= progress == Progress::Progressed;
                true
            }
            Err(error) => {
                failed.get_or_insert(error);
                true
            }
        });
        failed.map_or(Ok(moved), Err)
    }
}

impl Debug for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let left: Vec<_> = self.machines.iter().map(|machine| machine.name()).collect();
        f.debug_struct("Server").field("geeps", &self.geeps).field("machines", &left).finish()
    }
}
