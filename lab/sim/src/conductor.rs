//! One scheduler for the pipelines of several ranks, and for the network between them.
//!
//! - **How.** Each rank drives its stages on a thread of its own, and one thread alone moves at any
//!   time: the conductor says which stage of which rank is polled next, or that a parcel arrives.
//!   It begins when all ranks have come, so that a seed gives one schedule. A rank whose pipeline
//!   is over leaves; when all have, parcels arrive as they are sent.
//! - **Invariants.** As [`crate::Scheduler`]'s. Where nobody can move and nothing is under way, the
//!   ranks wait for each other for ever, and the log says who waits.
//! - **Bounds.** A job that takes too many turns is stopped.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use stepwell_base::clock::ManualClock;
use stepwell_base::queue::Events;
use stepwell_base::stage::{BoxedStage, Driver, Ended, Progress, Rhythm, StageTimes, Stop};
use stepwell_base::stop::StopRequest;
use stepwell_fabric::Post;

use crate::dice::Dice;
use crate::quiet::quietly;
use crate::scheduler::Trouble;

/// Who conducts the pipelines of some ranks.
#[derive(Debug)]
pub(crate) struct Conductor {
    post: Arc<Post>,
    clock: Arc<ManualClock>,
    turns_max: u64,
    /// Asks all ranks to stop before so many turns.
    stop: Option<(StopRequest, u64)>,
    state: Mutex<State>,
    /// By rank: its turn was decided, or nobody's.
    next: Vec<Condvar>,
}

#[derive(Debug)]
struct State {
    /// None for those that have not come.
    ranks: Vec<Option<Pipeline>>,
    /// Whose stage is polled now.
    turn: Option<(usize, usize)>,
    dice: Dice,
    turns: u64,
    /// Those before a rank left.
    turns_together: u64,
    trouble: Option<Trouble>,
}

/// Where the stages of a rank stand.
#[derive(Debug)]
struct Pipeline {
    events: Arc<Events>,
    stages: Vec<Standing>,
    left: bool,
}

impl Pipeline {
    /// Whether it is over, and its rank has not left yet.
    fn is_leaving(&self) -> bool {
        !self.left && (self.events.is_stopped() || self.stages.iter().all(|stage| stage.done))
    }
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    name: &'static str,
    done: bool,
    /// Events before it looked and found nothing.
    blocked_at: Option<u64>,
}

impl Conductor {
    /// One for the ranks of `post`, which makes the choices of `seed`.
    pub(crate) fn new(
        post: Arc<Post>,
        clock: Arc<ManualClock>,
        (ranks, seed, turns_max): (usize, u64, u64),
        stop: Option<(StopRequest, u64)>,
    ) -> Arc<Self> {
        // What ranks say to each other before they have come is said in no order that matters.
        post.deliver_at_once();
        let dice = Dice::new(seed, "conductor");
        let next = (0..ranks).map(|_| Condvar::new()).collect();
        let ranks = (0..ranks).map(|_| None).collect();
        let state = State { ranks, turn: None, dice, turns: 0, turns_together: 0, trouble: None };
        let state = Mutex::new(state);
        Arc::new(Self { post, clock, turns_max, stop, state, next })
    }

    /// What went wrong, if anything did.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.lock().trouble.clone()
    }

    /// Turns before the first rank left: after that, when a rank says what is of the time.
    pub(crate) fn turns_together(&self) -> u64 {
        self.lock().turns_together
    }

    /// Rank `rank` will never come: it ended before its pipeline began, or after.
    pub(crate) fn leaves(&self, rank: usize) {
        let mut state = self.lock();
        let gone = || Pipeline { events: Events::new(), stages: Vec::new(), left: true };
        state.ranks[rank].get_or_insert_with(gone).left = true;
        self.decide(&mut state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides who is next, as long as all have come and nobody's turn is under way.
    fn decide(&self, state: &mut State) {
        while state.turn.is_none() && state.ranks.iter().all(Option::is_some) {
            if state.ranks.iter().flatten().all(|rank| rank.left) {
                // What is said after that is said in no order that matters.
                self.post.deliver_at_once();
                break;
            }
            if state.ranks.iter().flatten().any(Pipeline::is_leaving) {
                // It says so itself, and then this is decided.
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
            // Some of them have to leave.
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
        format!("{} wait for ever", all.join("; "))
    }

    fn stop(&mut self, trouble: Trouble) {
        self.trouble.get_or_insert(trouble);
        self.ranks.iter().flatten().for_each(|rank| rank.events.stop());
    }
}

/// The driver of one rank.
#[derive(Debug)]
pub(crate) struct Conducted {
    pub(crate) conductor: Arc<Conductor>,
    pub(crate) rank: usize,
}

impl Conducted {
    /// Waits for this rank's turn: the stage to poll; none once its pipeline has stopped.
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

    /// This rank's turn is over, and its stage stands like that.
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
