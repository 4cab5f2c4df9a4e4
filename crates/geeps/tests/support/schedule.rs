//! Ranks under a scheduler: one thing happens at a time, in an order that a seed draws.

use std::sync::Arc;
use std::task::Poll;

use stepwell_base::TableId;
use stepwell_base::clock::ManualClock;
use stepwell_base::random::Stream;
use stepwell_base::stage::{BoxedStage, Progress};
use stepwell_fabric::Post;
use stepwell_geeps::{Error, Geeps, Result, Settings, Statistics};

use super::oracle::Rows;
use super::worker::Worker;

/// What is left after a run.
#[derive(Debug)]
pub struct Run {
    pub rows: Rows,
    pub found: Vec<String>,
    pub statistics: Vec<Statistics>,
    /// How much happened.
    pub steps: u64,
}

struct Rank {
    geeps: Geeps,
    machines: Vec<Option<BoxedStage<Error>>>,
    worker: Worker,
    is_closed: bool,
    /// How much rather than others it is polled.
    weights: Vec<u64>,
}

impl Rank {
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
        if self.worker.is_over() {
            if !self.is_closed {
                self.geeps.close()?;
            }
            return Ok(!std::mem::replace(&mut self.is_closed, true));
        }
        self.worker.poll(&self.geeps)
    }

    fn is_over(&self) -> bool {
        self.is_closed && self.machines.iter().all(Option::is_none)
    }
}

/// What ranks are set up with, by rank.
pub struct Setup<'a> {
    pub seed: u64,
    pub ranks: usize,
    pub settings: &'a dyn Fn(usize) -> Settings,
    pub worker: &'a dyn Fn(usize) -> Worker,
    /// Whether the sequence is gathered.
    pub gathers: bool,
}

/// Trains until all workers are over.
///
/// # Errors
/// The first that any rank has, or that nobody can move.
pub fn run(setup: &Setup<'_>) -> std::result::Result<Run, String> {
    let mut stream = Stream::named(setup.seed, b"schedule");
    let (post, ends) = Post::new(setup.ranks);
    let mut ranks = Vec::new();
    for (rank, end) in ends.into_iter().enumerate() {
        let clock = Arc::new(ManualClock::default());
        let (geeps, machines) =
            Geeps::new(&(setup.settings)(rank), end, clock).map_err(|error| error.to_string())?;
        let mut worker = (setup.worker)(rank);
        if setup.gathers {
            worker.gather(&geeps).map_err(|error| error.to_string())?;
        }
        let weights = (0..=machines.len()).map(|_| 1 + stream.next_u64() % 8).collect();
        let machines = machines.into_iter().map(Some).collect();
        ranks.push(Rank { geeps, machines, worker, is_closed: false, weights });
    }
    let delivers = 1 + stream.next_u64() % 24;
    let (mut steps, mut idle) = (0, 0);
    while !ranks.iter().all(Rank::is_over) {
        let weights = ranks.iter().map(|rank| rank.weights.iter().sum::<u64>());
        let all = delivers + weights.sum::<u64>();
        let moved = draw(&mut ranks, &post, (&mut stream, all)).map_err(|e| e.to_string())?;
        (steps, idle) = (steps + 1, if moved { 0 } else { idle + 1 });
        if idle > 4000 {
            return Err(format!("nobody moves any more, after {steps} steps"));
        }
        if steps > 3_000_000 {
            return Err("it goes on for ever".to_owned());
        }
    }
    let mut left = Run { rows: Rows::new(), found: Vec::new(), statistics: Vec::new(), steps };
    for rank in &mut ranks {
        left.found.append(&mut rank.worker.found);
        left.statistics.push(rank.geeps.statistics());
        let Ok(Poll::Ready(shard)) = rank.geeps.poll_closed() else {
            return Err("not all is over".to_owned());
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

/// Lets something happen; whether anything did.
fn draw(ranks: &mut [Rank], post: &Post, (stream, all): (&mut Stream, u64)) -> Result<bool> {
    let mut drawn = stream.next_u64() % all;
    for rank in &mut *ranks {
        for number in 0..rank.weights.len() {
            match drawn.checked_sub(rank.weights[number]) {
                Some(rest) => drawn = rest,
                None => return rank.poll(number),
            }
        }
    }
    Ok(post.deliver(|ways| stream.next_u64() as usize % ways))
}
