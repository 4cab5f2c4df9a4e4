//! The hierarchy of tiers for whoever feeds it: mini-batches go in, their rows come up, and what is
//! over goes back.
//!
//! ```text
//!   feed ──► plan ──► pull ──► ready ──► (gather, apply) ──► retire ──► plan
//! ```
//!
//! - **How.** The stages run on threads of their own, or are polled by the caller's while it waits:
//!   the rows are the same. One unit at a time is out; those behind it come up meanwhile.
//! - **Bounds.** At most `horizon + 1` mini-batches are fed and not retired.
//! - **Failure.** The first error of a stage is what the next call returns; after it nothing moves.

use std::sync::Arc;
use std::thread::JoinHandle;

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Events, Received, Refused};
use stepwell_base::stage::{self, BoxedStage, Progress, Rhythm, StageTimes};

use crate::stages::{
    Cargo, Counters, Ends, Finished, Item, MiniBatch, Ready, Retired, Times, Window,
};
use crate::{Error, Group, Planner, Result, stages};

/// Who polls the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hands {
    /// A thread for each.
    Threads,
    /// The caller's, while it waits: nothing overlaps, and nothing happens by itself.
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
    /// None once it was closed.
    ends: Option<Ends<C, ()>>,
    finished: Finished,
    counters: Arc<Counters>,
    /// Mini-batches that may be fed and not retired.
    most: usize,
    fed: usize,
    /// Whether something is with the caller.
    is_out: bool,
    number: u32,
}

impl<C> std::fmt::Debug for Hierarchy<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hierarchy").field("fed", &self.fed).finish_non_exhaustive()
    }
}

impl<C: Cargo> Hierarchy<C> {
    /// One over `groups`, which `planners` plan, driven by `hands`.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(
        groups: Vec<Arc<Group>>,
        planners: Vec<Planner>,
        window: Window,
        clock: Arc<dyn Clock>,
        hands: Hands,
    ) -> Result<Self> {
        let events = Events::new();
        let counters = Arc::new(Counters::default());
        let made =
            stages((&groups, planners), window, (Times::never(), &clock), &counters, &events)?;
        let (mut stages, write, ends, finished) = made.in_order();
        stages.push(write);
        let running = match hands {
            Hands::Caller => Running::Caller(stages),
            Hands::Threads => Running::Threads(start(stages, &events, &clock)?),
        };
        let (ends, most) = (Some(ends), window.horizon + 1);
        Ok(Self {
            groups,
            running,
            events,
            ends,
            finished,
            counters,
            most,
            fed: 0,
            is_out: false,
            number: 0,
        })
    }

    /// The table groups.
    pub fn groups(&self) -> &[Arc<Group>] {
        &self.groups
    }

    /// What the planner counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Mini-batches that were fed and not retired.
    pub fn fed(&self) -> usize {
        self.fed
    }

    /// Whether another mini-batch may be fed.
    pub fn has_room(&self) -> bool {
        self.fed < self.most
    }

    /// Memory of a mini-batch that is over, if there is one.
    pub fn spare(&self) -> Option<MiniBatch<C>> {
        self.ends.as_ref().and_then(|ends| ends.spares.take())
    }

    /// Feeds a mini-batch, which gets its number here.
    ///
    /// # Errors
    /// What a stage failed with.
    ///
    /// # Panics
    /// When there is no room for it, or after 2^32 - 2 of them.
    pub fn feed(&mut self, mut mini: MiniBatch<C>) -> Result<()> {
        assert!(self.has_room(), "{} mini-batches are fed and not retired", self.fed);
        assert!(self.number < u32::MAX - 1, "mini-batches are numbered in 32 bits");
        mini.number = self.number;
        self.number += 1;
        self.fed += 1;
        self.send(Item::Batch(vec![mini]))
    }

    /// Asks for a pause in which everything is at rest, behind all that was fed.
    ///
    /// # Errors
    /// What a stage failed with.
    ///
    /// # Panics
    /// When there is no room for it.
    pub fn pause(&mut self) -> Result<()> {
        assert!(self.has_room(), "{} mini-batches are fed and not retired", self.fed);
        self.fed += 1;
        self.send(Item::Checkpoint)
    }

    fn send(&mut self, item: Item<C, ()>) -> Result<()> {
        let mut item = Some(item);
        let sent = self.until(|ends, _| {
            match ends.feed.try_send(item.take()?) {
                Ok(()) => return Some(()),
                Err(Refused::Full(back) | Refused::Closed(back)) => item = Some(back),
            }
            None
        })?;
        // Of what may be fed the planner takes all.
        assert!(sent.is_some(), "the planner takes what there is room for");
        Ok(())
    }

    /// What was fed, in order, its rows at hand; none where nothing is left.
    ///
    /// # Errors
    /// What a stage failed with.
    ///
    /// # Panics
    /// When what was ready before it was not retired.
    pub fn ready(&mut self) -> Result<Option<Ready<C, ()>>> {
        assert!(!self.is_out, "what was ready goes back before the next one comes");
        if self.fed == 0 {
            return Ok(None);
        }
        let ready = self.until(|ends, _| match ends.ready.try_recv() {
            Received::Item(ready) => Some(ready),
            Received::Empty | Received::Closed => None,
        })?;
        self.is_out = ready.is_some();
        assert!(self.is_out, "what was fed comes up while nothing is out");
        Ok(ready)
    }

    /// Waits, in a pause, until every row that was dirty is in its store.
    ///
    /// # Errors
    /// What a stage failed with.
    pub fn settle(&mut self) -> Result<()> {
        self.until(|_, groups| groups.iter().all(|group| group.staging.is_idle()).then_some(()))?;
        Ok(())
    }

    /// Gives back what was ready.
    pub fn retire(&mut self, retired: Retired<C>) {
        let Some(ends) = &self.ends else { return };
        let sent = ends.retired.try_send(retired);
        assert!(!matches!(sent, Err(Refused::Full(_))), "one unit is out at a time");
        self.fed -= 1;
        self.is_out = false;
    }

    /// Lets everything end, and gives the planners back.
    ///
    /// # Errors
    /// What a stage failed with.
    ///
    /// # Panics
    /// When something that was fed is not retired.
    pub fn finish(mut self) -> Result<Vec<Planner>> {
        assert_eq!(self.fed, 0, "what was fed is retired before the end");
        self.ends = None;
        match &mut self.running {
            Running::Threads(threads) => join(threads)?,
            Running::Caller(stages) => while poll(stages)? {},
        }
        let planners = self.finished.take();
        Ok(planners.unwrap_or_else(|| unreachable!("the planner ended with the others")))
    }

    /// Tries until something comes of it; none where nothing moves any more.
    fn until<T>(
        &mut self,
        mut attempt: impl FnMut(&Ends<C, ()>, &[Arc<Group>]) -> Option<T>,
    ) -> Result<Option<T>> {
        loop {
            let seen = self.events.count();
            let Some(ends) = &self.ends else { return Ok(None) };
            if let Some(found) = attempt(ends, &self.groups) {
                return Ok(Some(found));
            }
            match &mut self.running {
                Running::Threads(threads) if self.events.is_stopped() => {
                    join(threads)?;
                    return Ok(None);
                }
                Running::Threads(_) => self.events.wait_past(seen),
                Running::Caller(stages) => {
                    if !poll(stages)? {
                        return Ok(None);
                    }
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

/// Polls each stage once, and waits for the outside world where all else waits; false where none
/// moved.
fn poll(stages: &mut Vec<BoxedStage<Error>>) -> Result<bool> {
    let (mut moved, mut pending) = (false, None);
    let mut number = 0;
    while let Some(stage) = stages.get_mut(number) {
        match stage.poll()? {
            Progress::Progressed => moved = true,
            Progress::Blocked => {}
            Progress::Pending => pending = Some(number),
            Progress::Done => {
                // Its queues close.
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
        // Without a thread the stage is dropped, its queues close, and the others end.
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
