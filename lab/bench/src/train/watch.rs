//! Records the part of a run that counts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stepwell_train::{Observer, Snapshot};

use crate::machine::cpu_time;

/// Counters at one moment of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) at: Instant,
    pub(super) cpu: Duration,
    pub(super) examples: u64,
    pub(super) refilled: u64,
    pub(super) reads: u64,
    pub(super) pages_read: u64,
}

/// Records the end of the warm-up, and the last mini-batch.
#[derive(Debug)]
pub(super) struct MeasuredSpan {
    warmup: u64,
    marks: Mutex<(Option<Mark>, Option<Mark>)>,
}

impl MeasuredSpan {
    pub(super) fn after(warmup: u64) -> Self {
        Self { warmup, marks: Mutex::default() }
    }

    /// The end of the warm-up and the last mini-batch; `None` unless both occurred.
    pub(super) fn marks(&self) -> Option<(Mark, Mark)> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        Some((marks.0?, marks.1?))
    }
}

impl Observer for MeasuredSpan {
    fn progress(&self, now: &Snapshot) {
        let mark = Mark {
            at: Instant::now(),
            cpu: cpu_time(),
            examples: now.examples,
            refilled: now.refilled,
            reads: now.reads,
            pages_read: now.pages_read,
        };
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if now.examples >= self.warmup && marks.0.is_none() {
            marks.0 = Some(mark);
        } else {
            marks.1 = Some(mark);
        }
    }
}
