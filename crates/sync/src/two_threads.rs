//! Runs one rank's end on two threads: one computes, one communicates.
//!
//! ```text
//! computing      begin? ─► copy parameters ─► learner ─► give ─┐        waits for turns
//!                  ▲                                           ▼
//! communicating  poll, poll, poll … ──────────────────────── poll       waits for what arrives
//! ```
//!
//! - **Failure.** If the fabric fails, both threads end with its error, as on all other ranks. A
//!   learner that panics fails the fabric first, so that no other rank waits for this one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::queue::Events;
use stepwell_fabric::collective::Barrier;
use stepwell_fabric::{Fabric, Result, Tag};

use crate::number::Number;
use crate::protocol::{Counts, Protocol};

/// No rank ends before all have.
const CLOSE: Tag = Tag(0x53ff);

/// Computes gradients.
pub trait Learner<T>: Send {
    /// Writes the gradient of the mean over this rank's mini-batch number `step`.
    fn gradient(&mut self, step: u64, parameters: &[T], gradient: &mut [T]);

    /// Cost of that gradient, relative to a usual one: for models of time.
    fn cost(&self, _step: u64) -> f64 {
        1.0
    }
}

impl<T, F: FnMut(u64, &[T], &mut [T]) + Send> Learner<T> for F {
    fn gradient(&mut self, step: u64, parameters: &[T], gradient: &mut [T]) {
        self(step, parameters, gradient);
    }
}

/// Result of a rank's run.
#[derive(Clone, Debug, PartialEq)]
pub struct Driven<T> {
    /// The rank's part of the model: see [`Protocol::model`].
    pub model: Vec<T>,
    /// Outcomes of the rank's gradients.
    pub counts: Counts,
    /// Seconds until the protocol ended.
    pub seconds: f64,
    /// Seconds of these in which the rank computed gradients.
    pub computing: f64,
}

#[derive(Debug)]
struct Shared<T> {
    protocol: Mutex<Box<dyn Protocol<T>>>,
    /// Events that wake the communicating thread.
    arrivals: Arc<Events>,
    /// Events that wake the computing thread.
    turns: Arc<Events>,
}

impl<T> Shared<T> {
    fn protocol(&self) -> MutexGuard<'_, Box<dyn Protocol<T>>> {
        self.protocol.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a rank's end of `protocol` until it has ended on all ranks.
///
/// # Errors
/// If a rank is gone.
///
/// # Panics
/// If `learner` panics.
pub fn drive<T: Number>(
    fabric: &Fabric,
    protocol: Box<dyn Protocol<T>>,
    learner: &mut dyn Learner<T>,
) -> Result<Driven<T>> {
    let shared =
        Shared { protocol: Mutex::new(protocol), arrivals: Events::new(), turns: Events::new() };
    fabric.wakes(&shared.arrivals);
    let clock = SystemClock::new();
    let (computing, seconds, outcome) = std::thread::scope(|scope| {
        let computes = scope.spawn(|| {
            let _fails = FailsAtPanic { fabric, arrivals: &shared.arrivals };
            compute(&shared, learner, &clock)
        });
        let outcome = communicate(fabric, &shared);
        // A gradient in progress is not used.
        let seconds = clock.seconds();
        shared.turns.stop();
        let computing = computes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (computing, seconds, outcome)
    });
    outcome?;
    fabric.wait(Barrier::start(CLOSE))?;
    let protocol = shared.protocol();
    let (model, counts) = (protocol.model().to_vec(), protocol.counts());
    Ok(Driven { model, counts, seconds, computing })
}

/// Polls until the end.
fn communicate<T>(fabric: &Fabric, shared: &Shared<T>) -> Result<()> {
    loop {
        let seen = shared.arrivals.count();
        let (work, ended) = {
            let mut protocol = shared.protocol();
            (protocol.poll(fabric)?, protocol.ended())
        };
        if work.progressed {
            shared.turns.notify();
        }
        if ended || shared.arrivals.is_stopped() {
            return Ok(());
        }
        if !work.progressed {
            shared.arrivals.wait_past(seen);
            fabric.check()?;
        }
    }
}

/// Computes whenever a gradient may begin; returns the seconds spent computing.
fn compute<T: Number>(
    shared: &Shared<T>,
    learner: &mut dyn Learner<T>,
    clock: &SystemClock,
) -> f64 {
    let (mut parameters, mut gradient) = (Vec::new(), Vec::new());
    let mut seconds = 0.0;
    while !shared.turns.is_stopped() {
        let seen = shared.turns.count();
        let step = {
            let mut protocol = shared.protocol();
            let step = protocol.begin();
            if step.is_some() {
                parameters.clear();
                parameters.extend_from_slice(protocol.parameters());
            }
            step
        };
        let Some(step) = step else {
            shared.turns.wait_past(seen);
            continue;
        };
        gradient.resize(parameters.len(), T::ZERO);
        let begin = clock.seconds();
        learner.gradient(step, &parameters, &mut gradient);
        seconds += clock.seconds() - begin;
        shared.protocol().give(&mut gradient);
        shared.arrivals.notify();
    }
    seconds
}

/// Reports a learner's panic to all ranks, including this one's other thread.
struct FailsAtPanic<'a> {
    fabric: &'a Fabric,
    arrivals: &'a Events,
}

impl Drop for FailsAtPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fabric.fail("its learner panicked");
            self.arrivals.stop();
        }
    }
}
