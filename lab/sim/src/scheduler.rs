//! A driver that controls time and order: it polls one stage at a time, chosen by a seed.
//!
//! - **How.** A stage that returned `Blocked` isn't polled again until an event has occurred since
//!   its poll started, just as a thread would sleep, or until it is due. If no stage can be polled,
//!   the clock advances to the next due time. If none is due and not all are done, the pipeline is
//!   deadlocked, and the log names the waiting stages. After each turn, the clock advances by a
//!   random time.
//! - **Invariants.** The guarantees of threads hold here, too: a stage is dropped when it ends, so
//!   that its queues close; a failure or a panic stops all stages, and none is polled after it.
//! - **Not simulated.** Concurrent polls. All actions within a poll are one event.
//! - **Bounds.** A pipeline that takes too many turns, or too many without progress, is stopped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::clock::{Clock as _, ManualClock};
use stepwell_base::stage::{BoxedStage, Driver, Ended, Progress, Rhythm, StageTimes, Stop};
use stepwell_base::stop::StopRequest;

use crate::dice::Dice;
use crate::expected_panics::quietly;
use crate::styles::{Chooser, Style};

/// Turns without progress before the pipeline counts as livelocked.
const IDLE_TURNS_MAX: u64 = 20_000;

/// Why a pipeline was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No stage can run; names the waiting ones.
    Deadlock(String),
    /// Stages run without progress, or for too long.
    Livelock(String),
    /// A stage panicked: its name and the message.
    Panic(String),
}

/// Log of a scheduler.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Polls.
    pub turns: u64,
    /// Hash of the polled stages and their results.
    pub trace: u64,
    /// Why the pipeline was stopped, if it was.
    pub trouble: Option<Trouble>,
}

/// Polls one stage at a time.
#[derive(Debug)]
pub struct Scheduler {
    style: Style,
    seed: u64,
    turns_max: u64,
    clock: Arc<ManualClock>,
    /// Asks the pipeline to stop before this poll.
    stop: Option<(StopRequest, u64)>,
    log: Mutex<Log>,
}

impl Scheduler {
    /// A scheduler that makes the choices of `seed` and advances `clock`.
    pub fn new(style: Style, seed: u64, turns_max: u64, clock: Arc<ManualClock>) -> Self {
        Self { style, seed, turns_max, clock, stop: None, log: Mutex::default() }
    }

    /// Makes the request `stop` after `turns` polls.
    pub fn stopping(self, stop: StopRequest, turns: u64) -> Self {
        Self { stop: Some((stop, turns)), ..self }
    }

    /// The log so far.
    pub fn log(&self) -> Log {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stage and its state.
struct Slot<E> {
    name: &'static str,
    stage: Option<BoxedStage<E>>,
    /// Event count before its last poll, if that found nothing to do.
    blocked_at: Option<u64>,
    /// When to poll it again without an event.
    due: Option<f64>,
    /// Whether it waits for an external operation.
    pending: bool,
    outcome: Option<Stop<E>>,
}

impl<E: Send> Driver<E> for Scheduler {
    fn drive(&self, stages: Vec<BoxedStage<E>>, rhythm: &Rhythm) -> Vec<Ended<E>> {
        let slot = |stage: BoxedStage<E>| Slot {
            name: stage.name(),
            stage: Some(stage),
            blocked_at: None,
            due: None,
            pending: false,
            outcome: None,
        };
        let mut slots: Vec<Slot<E>> = stages.into_iter().map(slot).collect();
        let dice = Dice::new(self.seed, "choices");
        let mut turns = Turns {
            chooser: Chooser::new(self.style, dice, slots.len()),
            dice: Dice::new(self.seed, "time"),
            runnable: Vec::new(),
            idle: 0,
            log: Log::default(),
        };
        while !rhythm.events.is_stopped() && turns.take(self, &mut slots, rhythm) {}
        *self.lock() = turns.log;
        let ended = |slot: Slot<E>| {
            let times = Ok(StageTimes::new(slot.name));
            Ended { name: slot.name, outcome: slot.outcome.map_or(times, Err) }
        };
        slots.into_iter().map(ended).collect()
    }
}

/// The turns of one pipeline.
struct Turns {
    chooser: Chooser,
    dice: Dice,
    runnable: Vec<usize>,
    /// Turns without progress.
    idle: u64,
    log: Log,
}

impl Turns {
    /// Polls one stage; returns false if none is left.
    fn take<E>(&mut self, around: &Scheduler, slots: &mut [Slot<E>], rhythm: &Rhythm) -> bool {
        if let Some((stop, turns)) = &around.stop
            && *turns == self.log.turns
        {
            stop.make();
        }
        let seen = rhythm.events.count();
        self.runnable.clear();
        let can_run = |slot: &Slot<E>, now: f64| {
            slot.stage.is_some()
                && (slot.blocked_at.is_none_or(|blocked| seen > blocked)
                    || slot.due.is_some_and(|due| now >= due))
        };
        let now = around.clock.seconds();
        self.runnable.extend((0..slots.len()).filter(|place| can_run(&slots[*place], now)));
        if self.runnable.is_empty() {
            let due = slots.iter().filter(|slot| slot.stage.is_some()).filter_map(|slot| slot.due);
            if let Some(due) = due.min_by(f64::total_cmp) {
                // At least enough for the clock to advance.
                around.clock.advance((due - now).max(1e-6));
                return true;
            }
            let waiting = slots.iter().filter(|slot| slot.stage.is_some()).map(|slot| slot.name);
            let waiting: Vec<&str> = waiting.collect();
            if !waiting.is_empty() {
                let who = format!("{} wait forever", waiting.join(", "));
                self.stop(Trouble::Deadlock(who), rhythm);
            }
            return false;
        }
        let place = self.chooser.choose(&self.runnable);
        around.clock.advance(self.dice.part() * 1e-3);
        let code = self.poll(&mut slots[place], seen, rhythm);
        self.log.turns += 1;
        let event = (place as u64) << 2 | code;
        self.log.trace = self.log.trace.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7) ^ event;
        if self.idle > IDLE_TURNS_MAX || self.log.turns > around.turns_max {
            let (turns, idle) = (self.log.turns, self.idle);
            let what = format!("{turns} turns, without progress in the last {idle}");
            self.stop(Trouble::Livelock(what), rhythm);
        }
        true
    }

    /// Polls a stage; returns its result as a number.
    fn poll<E>(&mut self, slot: &mut Slot<E>, seen: u64, rhythm: &Rhythm) -> u64 {
        let Some(stage) = &mut slot.stage else { return 0 };
        slot.due = None;
        let pending = std::mem::take(&mut slot.pending);
        let polled = |stage: &mut BoxedStage<E>| match pending {
            true => stage.wait().map(|()| Progress::Progressed),
            false => stage.poll(),
        };
        match quietly(|| polled(stage)) {
            Ok(Ok(Progress::Progressed)) => {
                (slot.blocked_at, self.idle) = (None, 0);
                return 0;
            }
            Ok(Ok(Progress::Blocked)) => {
                (slot.blocked_at, slot.due) = (Some(seen), stage.due());
                self.idle += 1;
                return 1;
            }
            Ok(Ok(Progress::Pending)) => {
                // The external operation is performed in its next turn.
                (slot.blocked_at, slot.pending) = (None, true);
                self.idle += 1;
                return 1;
            }
            Ok(Ok(Progress::Done)) => {}
            Ok(Err(error)) => slot.outcome = Some(Stop::Failed(error)),
            Err(said) => {
                slot.outcome = Some(Stop::Panicked);
                self.stop(Trouble::Panic(format!("{}: {said}", slot.name)), rhythm);
            }
        }
        self.idle = 0;
        if slot.outcome.is_some() {
            rhythm.events.stop();
        }
        slot.stage = None;
        rhythm.events.notify();
        2 + u64::from(slot.outcome.is_some())
    }

    fn stop(&mut self, trouble: Trouble, rhythm: &Rhythm) {
        self.log.trouble.get_or_insert(trouble);
        rhythm.events.stop();
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::queue::{Events, Received, Receiver, Refused, Sender, bounded};
    use stepwell_base::stage::{FullSpeed, Stage};

    use super::*;

    /// Counts down, or waits forever.
    struct Count(u32, Sender<u32>);
    struct Sum(u32, Receiver<u32>, u32);

    impl Stage for Count {
        type Error = String;
        fn name(&self) -> &'static str {
            "count"
        }
        fn poll(&mut self) -> Result<Progress, String> {
            if self.0 == 0 {
                return Ok(Progress::Done);
            }
            match self.1.try_send(self.0) {
                Ok(()) => self.0 -= 1,
                Err(Refused::Full(_)) => return Ok(Progress::Blocked),
                Err(Refused::Closed(_)) => return Ok(Progress::Done),
            }
            Ok(Progress::Progressed)
        }
    }

    impl Stage for Sum {
        type Error = String;
        fn name(&self) -> &'static str {
            "sum"
        }
        fn poll(&mut self) -> Result<Progress, String> {
            match self.1.try_recv() {
                Received::Item(n) if n == self.2 => panic!("met {n}"),
                Received::Item(_) if self.0 == 0 => Err("enough".to_owned()),
                Received::Item(_) => {
                    self.0 -= 1;
                    Ok(Progress::Progressed)
                }
                Received::Empty => Ok(Progress::Blocked),
                Received::Closed => Ok(Progress::Done),
            }
        }
    }

    fn run(count: u32, most: u32, fatal: u32, waits: bool) -> (Vec<Ended<String>>, Log) {
        let events = Events::new();
        let clock = Arc::new(ManualClock::default());
        let (numbers, source) = bounded(&events, 2);
        let held = waits.then(|| numbers.clone());
        let stages: Vec<BoxedStage<String>> =
            vec![Box::new(Count(count, numbers)), Box::new(Sum(most, source, fatal))];
        let scheduler = Scheduler::new(Style::Uniform, 1, 1 << 20, Arc::clone(&clock));
        let rhythm = Rhythm { events, clock, pace: Arc::new(FullSpeed) };
        let ended = scheduler.drive(stages, &rhythm);
        drop(held);
        (ended, scheduler.log())
    }

    #[test]
    fn stages_run_to_their_end_in_the_same_order_every_time() {
        let (ended, log) = run(100, 1000, 0, false);
        assert!(ended.iter().all(|stage| stage.outcome.is_ok()));
        assert_eq!((log.trouble, run(100, 1000, 0, false).1.trace), (None, log.trace));
    }

    #[test]
    fn errors_panics_and_dead_pipelines_are_told_apart() {
        let (ended, log) = run(100, 3, 0, false);
        assert!(matches!(&ended[1].outcome, Err(Stop::Failed(why)) if why == "enough"));
        assert_eq!(log.trouble, None);
        let (ended, log) = run(100, 1000, 7, false);
        assert!(matches!(ended[1].outcome, Err(Stop::Panicked)));
        assert!(matches!(log.trouble, Some(Trouble::Panic(said)) if said.contains("met 7")));
        let (_, log) = run(5, 1000, 0, true);
        assert_eq!(log.trouble, Some(Trouble::Deadlock("sum wait forever".to_owned())));
    }
}
