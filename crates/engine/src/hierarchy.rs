//! The hierarchy of tiers for callers without a pipeline: mini-batches are fed, come back with
//! their rows loaded, and are retired.
//!
//! ```text
//!   feed ──► plan ──► pull ──► ready ──► (gather, apply) ──► retire ──► plan
//! ```
//!
//! - **How.** The stages run on threads of their own, or the caller's thread polls them while it
//!   waits; the rows are the same. The caller has one unit at a time; the next ones are loaded
//!   concurrently.
//! - **Bounds.** At most `horizon + 1` mini-batches are fed and not retired.
//! - **Failure.** The next call returns the first error of a stage. Nothing moves after it: later
//!   calls return [`Error::Ended`] with its message.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Events, Received, Refused};
use stepwell_base::stage::{self, BoxedStage, Progress, Rhythm, StageTimes};

use crate::group::Group;
use crate::mini_batch::{Cargo, MiniBatch};
use crate::planner::Planner;
use crate::stages::{
    Counters, Ends, Finished, Item, PrefetchDepth, Ready, Retired, Spares, Times, stages,
};
use crate::{Error, Result};

/// Threads that poll the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hands {
    /// A thread for each stage.
    Threads,
    /// The caller's thread, while it waits: nothing overlaps or runs in the background.
    Caller,
}

enum Running {
    Threads(Vec<JoinHandle<Result<StageTimes>>>),
    Caller(Vec<BoxedStage<Error>>),
}

/// Tiers, and the stages that move rows between them.
pub struct Hierarchy<C> {
    groups: Vec<Arc<Group>>,
    running: Running,
    events: Arc<Events>,
    /// `None` after closing.
    ends: Option<Ends<C, ()>>,
    spares: Arc<Spares<C>>,
    finished: Finished,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    /// Maximum number of mini-batches fed and not retired.
    most: usize,
    fed: usize,
    /// Whether the caller has a unit.
    is_out: bool,
    number: u32,
    /// Message of the error that ended the stages.
    ended: Option<String>,
}

/// Outcome of [`Hierarchy::ready_within`].
#[derive(Debug)]
pub enum Next<T> {
    /// The next item, with its rows loaded.
    Ready(T),
    /// Everything fed was taken.
    End,
    /// The time ran out before the next item was ready.
    Late,
}

impl<C> std::fmt::Debug for Hierarchy<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hierarchy").field("fed", &self.fed).finish_non_exhaustive()
    }
}

impl<C: Cargo> Hierarchy<C> {
    /// A hierarchy over `groups`, planned by `planners` and driven by `hands`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn new(
        groups: Vec<Arc<Group>>,
        planners: Vec<Planner>,
        prefetch: PrefetchDepth,
        clock: Arc<dyn Clock>,
        hands: Hands,
    ) -> Result<Self> {
        let events = Events::new();
        let counters = Arc::new(Counters::default());
        let made =
            stages((&groups, planners), prefetch, (Times::never(), &clock), &counters, &events)?;
        let (mut stages, write, ends, finished) = made.in_order();
        stages.push(write);
        let running = match hands {
            Hands::Caller => Running::Caller(stages),
            Hands::Threads => Running::Threads(start(stages, &events, &clock)?),
        };
        let (spares, most) = (Arc::clone(&ends.spares), prefetch.horizon + 1);
        Ok(Self {
            groups,
            running,
            events,
            ends: Some(ends),
            spares,
            finished,
            counters,
            clock,
            most,
            fed: 0,
            is_out: false,
            number: 0,
            ended: None,
        })
    }

    /// The table groups.
    pub fn groups(&self) -> &[Arc<Group>] {
        &self.groups
    }

    /// Counts of the planner so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether an error ended the stages.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Fails with the error that ended the stages, if any.
    fn check(&self) -> Result<()> {
        self.ended.as_ref().map_or(Ok(()), |why| Err(Error::Ended(why.clone())))
    }

    /// Number of mini-batches fed and not retired.
    pub fn fed(&self) -> usize {
        self.fed
    }

    /// Whether another mini-batch may be fed.
    pub fn has_room(&self) -> bool {
        self.fed < self.most
    }

    /// The most mini-batches fed and not retired.
    pub fn fed_max(&self) -> usize {
        self.most
    }

    /// Memory of retired mini-batches, which later ones reuse.
    pub fn spares(&self) -> &Arc<Spares<C>> {
        &self.spares
    }

    /// Feeds a mini-batch and assigns its number.
    ///
    /// # Errors
    /// The error of a stage.
    ///
    /// # Panics
    /// If there is no room for it, or after 2^32 - 2 mini-batches.
    pub fn feed(&mut self, mut mini: MiniBatch<C>) -> Result<()> {
        assert!(self.has_room(), "{} mini-batches are fed but not retired", self.fed);
        assert!(self.number < u32::MAX - 1, "mini-batches are numbered in 32 bits");
        mini.number = self.number;
        self.number += 1;
        self.fed += 1;
        self.send(Item::Batch(vec![mini]))
    }

    /// Requests a pause after everything fed so far, in which all rows are at rest.
    ///
    /// # Errors
    /// The error of a stage.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn pause(&mut self) -> Result<()> {
        assert!(self.has_room(), "{} mini-batches are fed but not retired", self.fed);
        self.fed += 1;
        self.send(Item::Checkpoint)
    }

    fn send(&mut self, item: Item<C, ()>) -> Result<()> {
        let mut item = Some(item);
        let sent = self.until(f64::INFINITY, |ends, _| {
            match ends.feed.try_send(item.take()?) {
                Ok(()) => return Some(()),
                Err(Refused::Full(back) | Refused::Closed(back)) => item = Some(back),
            }
            None
        })?;
        assert!(sent.is_some(), "the planner accepts everything that may be fed");
        Ok(())
    }

    /// The next item in the order of feeding, with its rows loaded; `None` if nothing is left.
    ///
    /// # Errors
    /// The error of a stage.
    ///
    /// # Panics
    /// If the previous item was not retired.
    pub fn ready(&mut self) -> Result<Option<Ready<C, ()>>> {
        match self.ready_within(Duration::MAX)? {
            Next::Ready(ready) => Ok(Some(ready)),
            Next::End => Ok(None),
            Next::Late => unreachable!("an item that was fed becomes ready"),
        }
    }

    /// Like [`Hierarchy::ready`], but waits at most for `time`, unless the caller's thread polls
    /// the stages.
    ///
    /// # Errors
    /// The error of a stage.
    ///
    /// # Panics
    /// If the previous item was not retired.
    pub fn ready_within(&mut self, time: Duration) -> Result<Next<Ready<C, ()>>> {
        assert!(!self.is_out, "the previous item must be retired first");
        self.check()?;
        if self.fed == 0 {
            return Ok(Next::End);
        }
        let ready = self.until(time.as_secs_f64(), |ends, _| match ends.ready.try_recv() {
            Received::Item(ready) => Some(ready),
            Received::Empty | Received::Closed => None,
        })?;
        self.is_out = ready.is_some();
        Ok(ready.map_or(Next::Late, Next::Ready))
    }

    /// Waits, in a pause, until every dirty row is in its store.
    ///
    /// # Errors
    /// The error of a stage.
    pub fn settle(&mut self) -> Result<()> {
        let is_idle = |groups: &[Arc<Group>]| groups.iter().all(|group| group.staging.is_idle());
        self.until(f64::INFINITY, |_, groups| is_idle(groups).then_some(()))?;
        Ok(())
    }

    /// Gives back the item that [`Hierarchy::ready`] returned.
    pub fn retire(&mut self, retired: Retired<C>) {
        let Some(ends) = &self.ends else { return };
        let sent = ends.retired.try_send(retired);
        assert!(!matches!(sent, Err(Refused::Full(_))), "one unit is out at a time");
        self.fed -= 1;
        self.is_out = false;
    }

    /// Ends the stages and returns the planners.
    ///
    /// # Errors
    /// The error of a stage.
    ///
    /// # Panics
    /// If something fed is not retired.
    pub fn finish(mut self) -> Result<Vec<Planner>> {
        self.check()?;
        assert_eq!(self.fed, 0, "every item must be retired before the end");
        self.ends = None;
        match &mut self.running {
            Running::Threads(threads) => join(threads)?,
            Running::Caller(stages) => while poll(stages)? {},
        }
        let planners = self.finished.take();
        Ok(planners.unwrap_or_else(|| unreachable!("the planner ended with the other stages")))
    }

    /// Retries `attempt` until it succeeds; `None` once `seconds` have passed or nothing moves any
    /// more.
    fn until<T>(
        &mut self,
        seconds: f64,
        mut attempt: impl FnMut(&Ends<C, ()>, &[Arc<Group>]) -> Option<T>,
    ) -> Result<Option<T>> {
        self.check()?;
        let end = self.clock.seconds() + seconds;
        loop {
            let seen = self.events.count();
            let Some(ends) = &self.ends else { return Ok(None) };
            if let Some(found) = attempt(ends, &self.groups) {
                return Ok(Some(found));
            }
            let rest = end - self.clock.seconds();
            if rest <= 0.0 {
                return Ok(None);
            }
            let outcome = match &mut self.running {
                Running::Threads(threads) if self.events.is_stopped() => {
                    // `join` resumes the panic of a stage; later calls must not wait for it.
                    self.ended = Some("a stage panicked".to_owned());
                    let joined = join(threads);
                    self.ended = None;
                    joined.map(|()| false)
                }
                Running::Threads(_) => {
                    self.events.wait_past_for(seen, rest);
                    Ok(true)
                }
                Running::Caller(stages) => poll(stages),
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => {
                    self.ended = Some(error.to_string());
                    return Err(error);
                }
            }
        }
    }
}

impl<C> Drop for Hierarchy<C> {
    fn drop(&mut self) {
        self.events.stop();
        if let Running::Threads(threads) = &mut self.running {
            threads.drain(..).for_each(|thread| drop(thread.join()));
        }
    }
}

/// Polls each stage once. If none moved, waits for one that waits for the outside world; returns
/// `false` if there is none.
fn poll(stages: &mut Vec<BoxedStage<Error>>) -> Result<bool> {
    let (mut moved, mut pending) = (false, None);
    let mut number = 0;
    while let Some(stage) = stages.get_mut(number) {
        match stage.poll()? {
            Progress::Progressed => moved = true,
            Progress::Blocked => {}
            Progress::Pending => pending = Some(number),
            Progress::Done => {
                // Dropping the stage closes its queues.
                drop(stages.remove(number));
                moved = true;
                continue;
            }
        }
        number += 1;
    }
    if let (false, Some(stage)) = (moved, pending.and_then(|number| stages.get_mut(number))) {
        stage.wait()?;
        moved = true;
    }
    Ok(moved)
}

fn start(
    stages: Vec<BoxedStage<Error>>,
    events: &Arc<Events>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<JoinHandle<Result<StageTimes>>>> {
    let rhythm = Rhythm {
        events: Arc::clone(events),
        clock: Arc::clone(clock),
        pace: Arc::new(stage::FullSpeed),
    };
    let spawn = |stage: BoxedStage<Error>| {
        let (name, rhythm) = (stage.name(), rhythm.clone());
        let thread = std::thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || stage::drive_here(stage, &rhythm));
        // Without its thread the stage is dropped, its queues close, and the others end.
        started.map_err(|source| {
            events.stop();
            Error::NoThread { name, source }
        })
    };
    stages.into_iter().map(spawn).collect()
}

fn join(threads: &mut Vec<JoinHandle<Result<StageTimes>>>) -> Result<()> {
    let mut outcome = Ok(());
    for thread in threads.drain(..) {
        let ended = match thread.join() {
            Ok(ended) => ended.map(drop),
            Err(panic) => std::panic::resume_unwind(panic),
        };
        outcome = outcome.and(ended);
    }
    outcome
}
