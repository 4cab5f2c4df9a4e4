//! A single scheduler for the pipelines of several ranks and the network between them.
//!
//! - **How.** Each rank drives its stages on a separate thread, but only one thread runs at a time:
//!   the conductor chooses the stage and rank to poll next, or the parcel to deliver. It starts
//!   when all ranks have registered, so that a seed determines the schedule. A rank leaves when its
//!   pipeline ends; once all have left, parcels are delivered immediately.
//! - **Invariants.** As for [`crate::Scheduler`]. If no stage can run and no parcel is in flight,
//!   the ranks are deadlocked, and the log names the waiting stages.
//! - **Bounds.** A job with too many turns is stopped.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use stepwell_base::clock::ManualClock;
use stepwell_base::queue::Events;
use stepwell_base::stage::{BoxedStage, Driver, Ended, Progress, Rhythm, StageTimes, Stop};
use stepwell_base::stop::StopRequest;
use stepwell_fabric::Post;

use crate::dice::Dice;
use crate::expected_panics::quietly;
use crate::scheduler::Trouble;

/// Conducts the pipelines of several ranks.
#[derive(Debug)]
pub(crate) struct Conductor {
    post: Arc<Post>,
    clock: Arc<ManualClock>,
    turns_max: u64,
    /// Asks all ranks to stop before this turn.
    stop: Option<(StopRequest, u64)>,
    state: Mutex<State>,
    /// By rank: wakes it when its turn is chosen, or when pipelines end.
    next: Vec<Condvar>,
}

#[derive(Debug)]
struct State {
    /// `None` for ranks that haven't registered.
    ranks: Vec<Option<Pipeline>>,
    /// Stage that is being polled.
    turn: Option<(usize, usize)>,
    dice: Dice,
    turns: u64,
    /// Turns before any rank left.
    turns_together: u64,
    trouble: Option<Trouble>,
}

/// State of a rank's stages.
#[derive(Debug)]
struct Pipeline {
    events: Arc<Events>,
    stages: Vec<Standing>,
    left: bool,
}

impl Pipeline {
    /// Whether the pipeline has ended, but its rank hasn't left yet.
    fn is_leaving(&self) -> bool {
        !self.left && (self.events.is_stopped() || self.stages.iter().all(|stage| stage.done))
    }
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    name: &'static str,
    done: bool,
    /// Event count before its last poll, if that found nothing to do.
    blocked_at: Option<u64>,
}

impl Conductor {
    /// A conductor for the ranks of `post`, which makes the choices of `seed`.
    pub(crate) fn new(
        post: Arc<Post>,
        clock: Arc<ManualClock>,
        ranks: usize,
        seed: u64,
        turns_max: u64,
        stop: Option<(StopRequest, u64)>,
    ) -> Arc<Self> {
        // The order of messages before ranks register doesn't matter.
        post.deliver_at_once();
        let dice = Dice::new(seed, "conductor");
        let next = (0..ranks).map(|_| Condvar::new()).collect();
        let ranks = (0..ranks).map(|_| None).collect();
        let state = State { ranks, turn: None, dice, turns: 0, turns_together: 0, trouble: None };
        let state = Mutex::new(state);
        Arc::new(Self { post, clock, turns_max, stop, state, next })
    }

    /// Why the ranks were stopped, if they were.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.lock().trouble.clone()
    }

    /// Turns before the first rank left. After that, the number depends on real time.
    pub(crate) fn turns_together(&self) -> u64 {
        self.lock().turns_together
    }

    /// Records that rank `rank` has ended, before or after its pipeline started.
    pub(crate) fn leaves(&self, rank: usize) {
        let mut state = self.lock();
        let gone = || Pipeline { events: Events::new(), stages: Vec::new(), left: true };
        state.ranks[rank].get_or_insert_with(gone).left = true;
        self.decide(&mut state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses the next turn, if all ranks have registered and no turn is in progress.
    fn decide(&self, state: &mut State) {
        while state.turn.is_none() && state.ranks.iter().all(Option::is_some) {
            if state.ranks.iter().flatten().all(|rank| rank.left) {
                // The order of later messages doesn't matter.
                self.post.deliver_at_once();
                break;
            }
            if state.ranks.iter().flatten().any(Pipeline::is_leaving) {
                // The rank will report that itself, and then call this function.
                break;
            }
            if let Some((stop, turns)) = &self.stop
                && state.turns >= *turns
            {
                stop.make();
            }
            let runnable = state.runnable();
            let parcels = self.post.under_way() > 0;
            if runnable.is_empty() && !parcels {
                state.stop(Trouble::Deadlock(state.who_waits()));
                break;
            }
            state.turns += 1;
            if state.ranks.iter().flatten().all(|rank| !rank.left) {
                state.turns_together = state.turns;
            }
            if state.turns > self.turns_max {
                let what = format!("{} turns of all ranks", state.turns);
                state.stop(Trouble::Livelock(what));
                break;
            }
            self.clock.advance(state.dice.part() * 1e-3);
            let choices = runnable.len() as u64 + 2 * u64::from(parcels);
            match runnable.get(state.dice.below(choices) as usize) {
                Some(turn) => state.turn = Some(*turn),
                None => {
                    let dice = &mut state.dice;
                    self.post.deliver(|pairs| dice.below(pairs as u64) as usize);
                }
            }
        }
        match state.turn {
            Some((rank, _)) => self.next[rank].notify_one(),
            // Some of them must leave.
            None => self.next.iter().for_each(Condvar::notify_one),
        }
    }
}

impl State {
    /// Stages that may find something to do.
    fn runnable(&self) -> Vec<(usize, usize)> {
        let mut runnable = Vec::new();
        for (rank, pipeline) in self.ranks.iter().enumerate() {
            let Some(pipeline) = pipeline.as_ref().filter(|rank| !rank.left) else { continue };
            let seen = pipeline.events.count();
            let can = |stage: &Standing| {
                !stage.done && stage.blocked_at.is_none_or(|blocked| seen > blocked)
            };
            let stages = pipeline.stages.iter().enumerate().filter(|(_, stage)| can(stage));
            runnable.extend(stages.map(|(stage, _)| (rank, stage)));
        }
        runnable
    }

    fn who_waits(&self) -> String {
        let of_rank = |(rank, pipeline): (usize, &Option<Pipeline>)| {
            let stages = pipeline.iter().filter(|rank| !rank.left).flat_map(|rank| &rank.stages);
            let names: Vec<&str> =
                stages.filter(|stage| !stage.done).map(|stage| stage.name).collect();
            format!("rank {rank}: {}", names.join(", "))
        };
        let all: Vec<String> = self.ranks.iter().enumerate().map(of_rank).collect();
        format!("{} wait forever", all.join("; "))
    }

    fn stop(&mut self, trouble: Trouble) {
        self.trouble.get_or_insert(trouble);
        self.ranks.iter().flatten().for_each(|rank| rank.events.stop());
    }
}

/// Driver of one rank.
#[derive(Debug)]
pub(crate) struct Conducted {
    pub(crate) conductor: Arc<Conductor>,
    pub(crate) rank: usize,
}

impl Conducted {
    /// Waits for this rank's turn; returns the stage to poll, or `None` once its pipeline has
    /// stopped.
    fn turn(&self, events: &Events) -> Option<usize> {
        let mut state = self.conductor.lock();
        loop {
            if events.is_stopped() {
                return None;
            }
            if let Some((rank, stage)) = state.turn
                && rank == self.rank
            {
                return Some(stage);
            }
            let next = &self.conductor.next[self.rank];
            state = next.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends this rank's turn, with the new state of its stage.
    fn over(&self, stage: usize, standing: Standing) {
        let mut state = self.conductor.lock();
        state.turn = None;
        if let Some(pipeline) = &mut state.ranks[self.rank] {
            pipeline.stages[stage] = standing;
        }
        self.conductor.decide(&mut state);
    }

    fn leave(&self) {
        let mut state = self.conductor.lock();
        state.turn = state.turn.filter(|(rank, _)| *rank != self.rank);
        if let Some(pipeline) = &mut state.ranks[self.rank] {
            pipeline.left = true;
        }
        self.conductor.decide(&mut state);
    }
}

impl<E: Send> Driver<E> for Conducted {
    fn drive(&self, stages: Vec<BoxedStage<E>>, rhythm: &Rhythm) -> Vec<Ended<E>> {
        let standing =
            |stage: &BoxedStage<E>| Standing { name: stage.name(), done: false, blocked_at: None };
        let all: Vec<Standing> = stages.iter().map(standing).collect();
        {
            let mut state = self.conductor.lock();
            let events = Arc::clone(&rhythm.events);
            let pipeline = Pipeline { events, stages: all.clone(), left: false };
            state.ranks[self.rank] = Some(pipeline);
            if state.ranks.iter().all(Option::is_some) {
                self.conductor.post.hold();
            }
            self.conductor.decide(&mut state);
        }
        let mut stages: Vec<_> = stages.into_iter().map(Some).collect();
        let mut outcomes: Vec<Option<Stop<E>>> = stages.iter().map(|_| None).collect();
        let mut pending = vec![false; stages.len()];
        while stages.iter().any(Option::is_some)
            && let Some(number) = self.turn(&rhythm.events)
        {
            let seen = rhythm.events.count();
            let mut now = Standing { blocked_at: None, ..all[number] };
            let Some(stage) = &mut stages[number] else {
                self.over(number, Standing { done: true, ..now });
                continue;
            };
            let waits = std::mem::take(&mut pending[number]);
            let polled = quietly(|| match waits {
                true => stage.wait().map(|()| Progress::Progressed),
                false => stage.poll(),
            });
            match polled {
                Ok(Ok(Progress::Progressed)) => {}
                Ok(Ok(Progress::Blocked)) => now.blocked_at = Some(seen),
                Ok(Ok(Progress::Pending)) => pending[number] = true,
                Ok(Ok(Progress::Done)) => now.done = true,
                Ok(Err(error)) => outcomes[number] = Some(Stop::Failed(error)),
                Err(said) => {
                    outcomes[number] = Some(Stop::Panicked);
                    let said = format!("rank {}, {}: {said}", self.rank, now.name);
                    self.conductor.lock().stop(Trouble::Panic(said));
                }
            }
            if outcomes[number].is_some() {
                now.done = true;
                rhythm.events.stop();
            }
            if now.done {
                stages[number] = None;
                rhythm.events.notify();
            }
            self.over(number, now);
        }
        drop(stages);
        self.leave();
        let ended = |(standing, outcome): (Standing, Option<Stop<E>>)| {
            let times = Ok(StageTimes::new(standing.name));
            Ended { name: standing.name, outcome: outcome.map_or(times, Err) }
        };
        all.into_iter().zip(outcomes).map(ended).collect()
    }
}
