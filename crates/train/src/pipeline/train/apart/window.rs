//! The mini-batches that are at hand: their rows are pinned, and some rank still computes them.

use std::collections::VecDeque;

use stepwell_engine::Unit;

use crate::batch::{Examples, MiniBatch};

/// Units in order, whose mini-batches are counted from the first that this run trains.
#[derive(Debug, Default)]
pub(super) struct Window {
    units: VecDeque<Unit<Examples>>,
    /// Steps before the first unit, and behind the last one.
    first: u64,
    end: u64,
}

impl Window {
    /// Steps up to its end.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds what comes next.
    pub(super) fn push(&mut self, unit: Unit<Examples>) {
        self.end += unit.minis.len() as u64;
        self.units.push_back(unit);
    }

    /// The mini-batch of step `step`.
    ///
    /// # Panics
    /// When it is not at hand.
    pub(super) fn mini(&mut self, step: u64) -> &mut MiniBatch {
        let mut place = (step - self.first) as usize;
        for unit in &mut self.units {
            match unit.minis.len() {
                count if place < count => return &mut unit.minis[place],
                count => place -= count,
            }
        }
        unreachable!("step {step} is behind the last unit")
    }

    /// The first unit, if all its steps are before `applied`; it is trained.
    pub(super) fn pop(&mut self, applied: u64) -> Option<Unit<Examples>> {
        let count = self.units.front()?.minis.len() as u64;
        if self.first + count > applied {
            return None;
        }
        self.first += count;
        let mut unit = self.units.pop_front()?;
        unit.trained = true;
        Some(unit)
    }

    /// All units that are left, where `applied` steps were trained: no more are.
    pub(super) fn drain(&mut self, applied: u64) -> Vec<Unit<Examples>> {
        let mut first = std::mem::replace(&mut self.first, self.end);
        let mut units: Vec<_> = self.units.drain(..).collect();
        for unit in &mut units {
            unit.trained |= first < applied;
            first += unit.minis.len() as u64;
        }
        units
    }
}
