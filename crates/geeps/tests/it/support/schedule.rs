//! Ranks under a scheduler: one event at a time, in an order drawn from a seed.

use std::sync::Arc;
use std::task::Poll;

use stepwell_base::TableId;
use stepwell_base::clock::ManualClock;
use stepwell_base::random::Stream;
use stepwell_base::stage::{BoxedStage, Progress};
use stepwell_fabric::{Fabric, Post};
use stepwell_geeps::{Error, Geeps, Result, Settings, Statistics};

use super::oracle::Rows;
use super::worker::Worker;

/// Result of a run.
#[derive(Debug)]
pub struct Run {
    pub rows: Rows,
    pub found: Vec<String>,
    pub statistics: Vec<Statistics>,
    /// Number of events.
    pub steps: u64,
}

/// Disturbances of ranks and of their connections.
pub struct Disturbed<'a> {
    /// Wraps a rank's end of the fabric.
    pub carry: &'a dyn Fn(usize, Fabric) -> Fabric,
    /// Called before each step, with its number; returns a dead rank, if any.
    pub disturb: &'a dyn Fn(u64, &Post) -> Option<usize>,
}

struct Rank {
    geeps: Geeps,
    machines: Vec<Option<BoxedStage<Error>>>,
    worker: Worker,
    is_closed: bool,
    /// Why it ended.
    failed: Option<String>,
    /// Relative frequency of polling each machine.
    weights: Vec<u64>,
}

impl Rank {
    fn start(setup: &Setup<'_>, (rank, end): (usize, Fabric), weights: Vec<u64>) -> Result<Self> {
        let clock = Arc::new(ManualClock::default());
        let (geeps, machines) = Geeps::new(&(setup.settings)(rank), end, clock)?;
        let mut worker = (setup.worker)(rank);
        if setup.gathers {
            worker.gather(&geeps)?;
        }
        assert_eq!(weights.len(), machines.len() + 1, "machines and the application");
        let machines = machines.into_iter().map(Some).collect();
        Ok(Self { geeps, machines, worker, is_closed: false, failed: None, weights })
    }

    /// Polls machine number `number`, or, after the last one, the application.
    fn poll(&mut self, number: usize) -> Result<bool> {
        let Some(machine) = self.machines.get_mut(number) else { return self.work() };
        let Some(running) = machine else { return Ok(false) };
        match running.poll()? {
            Progress::Progressed => Ok(true),
            Progress::Blocked => Ok(false),
            Progress::Pending => {
                running.wait()?;
                Ok(true)
            }
            Progress::Done => {
                *machine = None;
                Ok(true)
            }
        }
    }

    fn work(&mut self) -> Result<bool> {
        if self.failed.is_some() {
            return Ok(false);
        }
        if self.worker.is_over() {
            if !self.is_closed {
                self.geeps.close()?;
            }
            return Ok(!std::mem::replace(&mut self.is_closed, true));
        }
        self.worker.poll(&self.geeps)
    }

    fn is_over(&self) -> bool {
        self.failed.is_some() || self.is_closed && self.machines.iter().all(Option::is_none)
    }
}

/// Setup of the ranks.
pub struct Setup<'a> {
    pub seed: u64,
    pub ranks: usize,
    pub settings: &'a dyn Fn(usize) -> Settings,
    pub worker: &'a dyn Fn(usize) -> Worker,
    /// Whether the sequence is recorded.
    pub gathers: bool,
}

/// Trains until all workers are done.
///
/// # Errors
/// The errors of all ranks, a line each, or a deadlock.
pub fn run(setup: &Setup<'_>) -> std::result::Result<Run, String> {
    run_disturbed(setup, &Disturbed { carry: &|_, end| end, disturb: &|_, _| None })
}

/// The same, with disturbances.
///
/// # Errors
/// As for [`run`].
pub fn run_disturbed(
    setup: &Setup<'_>,
    disturbed: &Disturbed<'_>,
) -> std::result::Result<Run, String> {
    let mut stream = Stream::named(setup.seed, b"schedule");
    let (post, ends) = Post::new(setup.ranks);
    let mut ranks = Vec::new();
    for (rank, end) in ends.into_iter().enumerate() {
        let end = (disturbed.carry)(rank, end);
        let weights = (0..6).map(|_| 1 + stream.next_u64() % 8).collect();
        ranks.push(Rank::start(setup, (rank, end), weights).map_err(|error| error.to_string())?);
    }
    let delivers = 1 + stream.next_u64() % 24;
    let (mut steps, mut idle, mut dead) = (0, 0, None);
    while !ranks.iter().enumerate().all(|(rank, end)| end.is_over() || dead == Some(rank)) {
        let weights = ranks.iter().map(|rank| rank.weights.iter().sum::<u64>());
        let all = delivers + weights.sum::<u64>();
        dead = (disturbed.disturb)(steps, &post);
        let moved = draw(&mut ranks, &post, (&mut stream, all));
        (steps, idle) = (steps + 1, if moved { 0 } else { idle + 1 });
        if idle > 4000 {
            return Err(format!("deadlock after {steps} steps"));
        }
        if steps > 3_000_000 {
            return Err("it does not end".to_owned());
        }
    }
    left(ranks, steps)
}

fn left(mut ranks: Vec<Rank>, steps: u64) -> std::result::Result<Run, String> {
    let failed = ranks.iter().enumerate();
    let failed = failed.filter_map(|(rank, end)| Some((rank, end.failed.as_ref()?)));
    let failed: Vec<_> = failed.map(|(rank, why)| format!("rank {rank}: {why}")).collect();
    if !failed.is_empty() {
        return Err(failed.join("\n"));
    }
    let mut left = Run { rows: Rows::new(), found: Vec::new(), statistics: Vec::new(), steps };
    for rank in &mut ranks {
        left.found.append(&mut rank.worker.found);
        left.statistics.push(rank.geeps.statistics());
        let Ok(Poll::Ready(shard)) = rank.geeps.poll_closed() else {
            return Err("not everything has ended".to_owned());
        };
        for (table, rows) in shard.into_iter().enumerate() {
            for (key, row) in rows {
                let twice = left.rows.insert((TableId(table as u32).0, key), row);
                assert!(twice.is_none(), "a row has one owner");
            }
        }
    }
    Ok(left)
}

/// Makes something happen; returns whether anything did.
fn draw(ranks: &mut [Rank], post: &Post, (stream, all): (&mut Stream, u64)) -> bool {
    let mut drawn = stream.next_u64() % all;
    for rank in &mut *ranks {
        for number in 0..rank.weights.len() {
            match drawn.checked_sub(rank.weights[number]) {
                Some(rest) => drawn = rest,
                None => {
                    return rank.poll(number).unwrap_or_else(|error| {
                        rank.failed.get_or_insert_with(|| error.to_string());
                        true
                    });
                }
            }
        }
    }
    post.deliver(|ways| stream.next_u64() as usize % ways)
}
