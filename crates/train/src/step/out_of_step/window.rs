//! The current mini-batches: their rows are pinned, and some rank still computes them.

use std::collections::VecDeque;

use stepwell_engine::Unit;

use crate::batch::{Examples, MiniBatch};

/// Units in order; their mini-batches are counted from the first that this run trains.
#[derive(Debug, Default)]
pub(super) struct Window {
    units: VecDeque<Unit<Examples>>,
    /// Numbers of steps before the first unit, and up to the end of the last one.
    first: u64,
    end: u64,
}

impl Window {
    /// Number of steps up to the window's end.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Appends the next unit.
    pub(super) fn push(&mut self, unit: Unit<Examples>) {
        self.end += unit.minis.len() as u64;
        self.units.push_back(unit);
    }

    /// The mini-batch of step `step`.
    ///
    /// # Panics
    /// If the window does not contain it.
    pub(super) fn mini(&mut self, step: u64) -> &mut MiniBatch {
        let mut place = (step - self.first) as usize;
        for unit in &mut self.units {
            match unit.minis.len() {
                count if place < count => return &mut unit.minis[place],
                count => place -= count,
            }
        }
        unreachable!("step {step} is after the last unit")
    }

    /// Removes the first unit, which is trained, if all its steps are before `applied`.
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

    /// Removes all remaining units when training ends after `applied` steps.
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
