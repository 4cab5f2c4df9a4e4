//! Stages of a pipeline: state machines that a thread or a scheduler drives.
//!
//! A stage never waits for another one inside `poll`: it does what it can and returns whether
//! anything moved. If it can only wait for the outside world, it returns `Pending`, and
//! [`Stage::wait`] waits, as `pull` does for disk reads. A poll may take time: stages read files,
//! wait until the store took some rows, and wait for work that they divide among other threads.
//!
//! [`drive`] is the production driver, with one thread per stage: it polls, and if nothing moved,
//! waits for the pipeline's events or for the outside world. A simulated scheduler polls the same
//! stages in any order.

use std::marker::PhantomData;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use crate::clock::Clock;
use crate::queue::Events;

pub use self::yielding::give_way;

/// Result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something moved; poll again.
    Progressed,
    /// Nothing can move until another stage does something.
    Blocked,
    /// Nothing can move until the outside world completes a request of the stage; [`Stage::wait`]
    /// waits for it.
    Pending,
    /// There is nothing left to do, ever.
    Done,
}

/// One stage of the pipeline, as a state machine.
pub trait Stage: Send {
    /// Error of the stage.
    type Error;

    /// Name in reports.
    fn name(&self) -> &'static str;

    /// Does what can be done at the moment.
    ///
    /// # Errors
    /// An error ends the whole pipeline.
    fn poll(&mut self) -> Result<Progress, Self::Error>;

    /// After [`Progress::Pending`], waits until the outside world has completed some request.
    ///
    /// # Errors
    /// Like [`Stage::poll`].
    fn wait(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Whether its thread doesn't preempt other threads when it wakes up. Stages that run ahead
    /// return true, so they don't preempt compute.
    fn gives_way(&self) -> bool {
        true
    }

    /// When to poll again after [`Progress::Blocked`] even if nothing happens, in seconds of the
    /// pipeline's clock; later than the poll that returned it.
    fn due(&self) -> Option<f64> {
        None
    }
}

/// A stage of any type.
pub type BoxedStage<E> = Box<dyn Stage<Error = E>>;

impl<S: Stage + ?Sized> Stage for Box<S> {
    type Error = S::Error;

    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn poll(&mut self) -> Result<Progress, S::Error> {
        (**self).poll()
    }

    fn wait(&mut self) -> Result<(), S::Error> {
        (**self).wait()
    }

    fn gives_way(&self) -> bool {
        (**self).gives_way()
    }

    fn due(&self) -> Option<f64> {
        (**self).due()
    }
}

/// Boxes a stage, converting its errors to the pipeline's.
pub fn among<E, S>(stage: S) -> BoxedStage<E>
where
    E: From<S::Error> + 'static,
    S: Stage + 'static,
{
    Box::new(Among { stage, errors: PhantomData })
}

struct Among<S, E> {
    stage: S,
    errors: PhantomData<fn() -> E>,
}

impl<S: Stage, E: From<S::Error>> Stage for Among<S, E> {
    type Error = E;

    fn name(&self) -> &'static str {
        self.stage.name()
    }

    fn poll(&mut self) -> Result<Progress, E> {
        Ok(self.stage.poll()?)
    }

    fn wait(&mut self) -> Result<(), E> {
        Ok(self.stage.wait()?)
    }

    fn gives_way(&self) -> bool {
        self.stage.gives_way()
    }

    fn due(&self) -> Option<f64> {
        self.stage.due()
    }
}

/// Why a stage ended early.
#[derive(Debug)]
pub enum Stop<E> {
    /// The stage returned an error.
    Failed(E),
    /// The stage panicked.
    Panicked,
    /// The thread of the stage could not be started.
    NoThread(std::io::Error),
}

/// How a stage ended.
#[derive(Debug)]
pub struct Ended<E> {
    /// Name of the stage.
    pub name: &'static str,
    /// The stage's times, or why it ended early.
    pub outcome: Result<StageTimes, Stop<E>>,
}

/// Polls the stages of a pipeline: with threads, or in a simulation.
pub trait Driver<E>: Send + Sync {
    /// Polls all `stages` until each is done or the pipeline stops, as when a stage fails; returns
    /// how each ended, in the order of `stages`.
    fn drive(&self, stages: Vec<BoxedStage<E>>, rhythm: &Rhythm) -> Vec<Ended<E>>;
}

type Outcome<E> = Result<StageTimes, E>;

/// A thread for each stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

impl<E: Send> Driver<E> for Threads {
    fn drive(&self, stages: Vec<BoxedStage<E>>, rhythm: &Rhythm) -> Vec<Ended<E>> {
        std::thread::scope(|scope| {
            let spawn = |stage: BoxedStage<E>| {
                let name = stage.name();
                let thread = std::thread::Builder::new().name(name.to_owned());
                // Without its thread the stage is dropped, its queues close, and the others end.
                let handle = thread
                    .spawn_scoped(scope, move || drive_here(stage, rhythm))
                    .inspect_err(|_| rhythm.events.stop());
                (name, handle)
            };
            let running: Vec<_> = stages.into_iter().map(spawn).collect();
            let join = |(name, handle): (_, std::io::Result<ScopedJoinHandle<'_, Outcome<E>>>)| {
                let outcome = match handle.map(ScopedJoinHandle::join) {
                    Ok(Ok(outcome)) => outcome.map_err(Stop::Failed),
                    Ok(Err(_)) => Err(Stop::Panicked),
                    Err(error) => Err(Stop::NoThread(error)),
                };
                Ended { name, outcome }
            };
            running.into_iter().map(join).collect()
        })
    }
}

/// Time that a stage spent.
#[derive(Clone, Debug, PartialEq)]
pub struct StageTimes {
    /// Name of the stage.
    pub name: &'static str,
    /// Seconds spent inside `poll` calls that moved something.
    pub busy_seconds: f64,
    /// Seconds spent waiting for other stages.
    pub wait_seconds: f64,
    /// Seconds of processor time of the stage's own thread.
    pub cpu_seconds: f64,
}

impl StageTimes {
    /// Zero times.
    pub fn new(name: &'static str) -> Self {
        Self { name, busy_seconds: 0.0, wait_seconds: 0.0, cpu_seconds: 0.0 }
    }
}

/// A pause before each poll, injected by tests to vary timings.
pub trait Pace: Send + Sync {
    /// Called before every poll of the stage `name`.
    fn pause(&self, name: &'static str);
}

/// No pauses.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullSpeed;

impl Pace for FullSpeed {
    fn pause(&self, _name: &'static str) {}
}

/// Events, clock and pace, shared by all drivers of a pipeline.
#[derive(Clone)]
pub struct Rhythm {
    /// Counts every change; can stop the pipeline early.
    pub events: Arc<Events>,
    /// Measures busy and waiting time.
    pub clock: Arc<dyn Clock>,
    /// Pauses between polls.
    pub pace: Arc<dyn Pace>,
}

impl std::fmt::Debug for Rhythm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rhythm").field("events", &self.events).finish_non_exhaustive()
    }
}

/// Stops the pipeline if a stage fails or panics.
struct StopUnlessDone<'a> {
    events: &'a Events,
    done: bool,
}

impl Drop for StopUnlessDone<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.events.stop();
        }
    }
}

/// Runs [`drive`] for `stage` on the calling thread, which it owns.
///
/// # Errors
/// The stage's error; the pipeline is then stopped.
pub fn drive_here<E>(stage: BoxedStage<E>, rhythm: &Rhythm) -> Result<StageTimes, E> {
    if stage.gives_way() {
        give_way();
    }
    drive(stage, rhythm)
}

/// Polls `stage` until it is done, fails, or the pipeline stops; drops the stage before it returns,
/// so that its queues close.
///
/// # Errors
/// The stage's error; the pipeline is then stopped.
pub fn drive<E>(mut stage: BoxedStage<E>, rhythm: &Rhythm) -> Result<StageTimes, E> {
    let mut watch = StopUnlessDone { events: &rhythm.events, done: false };
    let mut times = StageTimes::new(stage.name());
    let mut mark = rhythm.clock.seconds();
    let begin = rhythm.clock.thread_seconds();
    loop {
        let seen = rhythm.events.count();
        if rhythm.events.is_stopped() {
            break;
        }
        rhythm.pace.pause(times.name);
        match stage.poll()? {
            Progress::Progressed => times.busy_seconds += lap(rhythm, &mut mark),
            Progress::Done => break,
            Progress::Blocked => {
                match stage.due() {
                    None => rhythm.events.wait_past(seen),
                    Some(due) => rhythm.events.wait_past_for(seen, due - rhythm.clock.seconds()),
                }
                times.wait_seconds += lap(rhythm, &mut mark);
            }
            Progress::Pending => {
                times.busy_seconds += lap(rhythm, &mut mark);
                stage.wait()?;
                times.wait_seconds += lap(rhythm, &mut mark);
            }
        }
    }
    watch.done = true;
    drop(stage);
    times.cpu_seconds = rhythm.clock.thread_seconds() - begin;
    rhythm.events.notify();
    Ok(times)
}

fn lap(rhythm: &Rhythm, mark: &mut f64) -> f64 {
    let now = rhythm.clock.seconds();
    now - std::mem::replace(mark, now)
}

#[cfg(test)]
mod tests;
mod yielding;
