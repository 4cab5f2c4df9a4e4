//! Workers and their parameter servers on the virtual clock: real messages and gradients, with
//! times from a cost model.
//!
//! - **How.** A layer is computed when its buffers arrive, and its buffers are released when its
//!   time is over. A server's machines are polled at every event of their rank until nothing moves;
//!   links deliver what they send. A machine's work on a rank takes no time itself.
//! - **Invariants.** Events are determined by their times and the order of their creation, so a run
//!   repeats from its seed.

use std::sync::Arc;
use std::task::Poll;

use stepwell_base::Key;
use stepwell_base::clock::ManualClock;
use stepwell_base::stage::{BoxedStage, Progress};
use stepwell_fabric::{Fabric, Inbox, Network, Parcel};
use stepwell_geeps::{Error, Geeps, Result, Settings};
use stepwell_sim::clock::{Agenda, Computing, Outbox, Traffic, ends};

use super::worker::{Job, LayerRows, Missed, Next, ROW_FLOATS, Worker};

/// An evaluation of the first worker's model.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) seconds: f64,
    /// Mini-batches that all workers have completed.
    pub(super) mini_batches: u64,
    pub(super) accuracy: f64,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) looks: Vec<Look>,
    /// Time until the last worker's last clock was over.
    pub(super) seconds: f64,
    /// Share of the time until then in which workers didn't compute.
    pub(super) stall: f64,
    pub(super) missed: Missed,
    /// Updates that shards lack or have twice.
    pub(super) lost: u64,
    /// The model, by layer.
    pub(super) model: Vec<Vec<f32>>,
}

/// Worker and server of one machine.
struct Rank<'a> {
    geeps: Geeps,
    machines: Vec<Option<BoxedStage<Error>>>,
    worker: Worker<'a>,
    /// Whether a layer is being computed.
    is_busy: bool,
    is_closed: bool,
    computed: f64,
    over: f64,
}

enum What {
    Arrives { to: usize, from: usize, parcel: Parcel },
    Computed(usize),
}

struct Clocked<'a> {
    job: Job<'a>,
    computing: &'a Computing,
    ranks: Vec<Rank<'a>>,
    inboxes: Vec<Arc<Inbox>>,
    outbox: Outbox,
    traffic: Traffic,
    clock: Arc<ManualClock>,
    agenda: Agenda<What>,
    now: f64,
    looks: Vec<Look>,
}

/// Runs a job; `look` returns the accuracy of a model.
///
/// # Errors
/// A server error.
pub(super) fn run(
    job: Job<'_>,
    settings: &Settings,
    network: Network,
    computing: &Computing,
    look: &dyn Fn(&[Vec<f32>]) -> f64,
) -> Result<Ended> {
    let clock = Arc::new(ManualClock::default());
    let (fabrics, inboxes, outbox) = ends(job.workers);
    let start = |(rank, fabric): (usize, Fabric)| {
        let mut worker = Worker::new(job, rank);
        let (geeps, machines) = Geeps::new(settings, fabric, Arc::clone(&clock) as _)?;
        worker.gather(&geeps)?;
        let machines = machines.into_iter().map(Some).collect();
        let (is_busy, is_closed, computed, over) = (false, false, 0.0, 0.0);
        Ok(Rank { geeps, machines, worker, is_busy, is_closed, computed, over })
    };
    let ranks = fabrics.into_iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
    let traffic = Traffic::new(network, job.workers);
    let (agenda, now, looks) = (Agenda::default(), 0.0, Vec::new());
    let mut run =
        Clocked { job, computing, ranks, inboxes, outbox, traffic, clock, agenda, now, looks };
    (0..job.workers).try_for_each(|rank| run.settle(rank, look))?;
    while let Some((at, what)) = run.agenda.take_next() {
        run.take(at, what, look)?;
    }
    run.end()
}

impl Clocked<'_> {
    fn take(&mut self, at: f64, what: What, look: &dyn Fn(&[Vec<f32>]) -> f64) -> Result<()> {
        assert!(at >= self.now, "time never goes back");
        self.clock.advance(at - self.now);
        self.now = at;
        let rank = match what {
            What::Arrives { to, from, parcel } => {
                self.inboxes[to].deliver(from, parcel);
                to
            }
            What::Computed(number) => {
                let rank = &mut self.ranks[number];
                rank.is_busy = false;
                rank.worker.computed(&rank.geeps)?;
                number
            }
        };
        self.settle(rank, look)
    }

    /// Polls a rank until nothing moves.
    fn settle(&mut self, number: usize, look: &dyn Fn(&[Vec<f32>]) -> f64) -> Result<()> {
        loop {
            let mut moved = self.work(number, look)?;
            for machine in &mut self.ranks[number].machines {
                let Some(running) = machine else { continue };
                match running.poll()? {
                    Progress::Progressed => moved = true,
                    Progress::Blocked => {}
                    Progress::Pending => running.wait()?,
                    Progress::Done => {
                        *machine = None;
                        moved = true;
                    }
                }
            }
            for sent in self.outbox.take() {
                let at = self.traffic.arrival(&sent, self.now);
                let (to, from, parcel) = (sent.to, sent.from, sent.parcel);
                self.agenda.add(at, What::Arrives { to, from, parcel });
            }
            if !moved {
                return Ok(());
            }
        }
    }

    /// Continues the application; returns whether it did anything.
    fn work(&mut self, number: usize, look: &dyn Fn(&[Vec<f32>]) -> f64) -> Result<bool> {
        let rank = &mut self.ranks[number];
        if rank.is_busy || rank.is_closed {
            return Ok(false);
        }
        match rank.worker.poll(&rank.geeps)? {
            Next::Waits => return Ok(false),
            Next::Computes(share) => {
                rank.is_busy = true;
                let whole = self.computing.seconds(number, rank.worker.clock, 1.0);
                let seconds = whole * share;
                rank.computed += seconds;
                if std::mem::take(&mut rank.worker.is_looked_at) {
                    let accuracy = look(rank.worker.seen());
                    let mini_batches = self.ranks.iter().map(|rank| rank.worker.clock).sum();
                    self.looks.push(Look { seconds: self.now, mini_batches, accuracy });
                }
                self.agenda.add(self.now + seconds, What::Computed(number));
            }
            Next::Over => {
                rank.geeps.close()?;
                (rank.is_closed, rank.over) = (true, self.now);
            }
        }
        Ok(true)
    }

    fn end(self) -> Result<Ended> {
        let workers = self.job.workers;
        let mut rows: Vec<std::collections::BTreeMap<Key, Vec<f32>>> =
            vec![Default::default(); self.job.rows.len()];
        let (mut missed, mut computed, mut seconds) = (Missed::default(), 0.0, 0.0f64);
        for rank in &self.ranks {
            missed.add(rank.worker.missed);
            computed += rank.computed;
            seconds = seconds.max(rank.over);
            let Poll::Ready(shard) = rank.geeps.poll_closed()? else {
                unreachable!("no event is left, but not everything has ended");
            };
            for (table, shard) in shard.into_iter().enumerate() {
                rows[table].extend(shard);
            }
        }
        let (mut lost, mut model) = (0, Vec::new());
        for layer in self.job.rows {
            let values = layer_values(layer, &rows[layer.table.0 as usize]);
            let differs = |count: u64| count.abs_diff(self.job.clocks);
            lost += layer.counts(&values).take(workers).map(differs).sum::<u64>();
            model.push(values[..layer.parameters].to_vec());
        }
        let whole: f64 = self.ranks.iter().map(|rank| rank.over).sum();
        let stall = 1.0 - computed / whole;
        Ok(Ended { looks: self.looks, seconds, stall, missed, lost, model })
    }
}

fn layer_values(layer: &LayerRows, rows: &std::collections::BTreeMap<Key, Vec<f32>>) -> Vec<f32> {
    let mut values = Vec::with_capacity(layer.keys.len() * ROW_FLOATS);
    layer.keys.iter().for_each(|key| values.extend_from_slice(&rows[key]));
    values
}
