//! Units of mini-batches that arrive to be scored and trained, in order with checkpoints and marks.

use stepwell_base::queue::{Received, Receiver};
use stepwell_engine::{Purpose, Ready, Unit};

use crate::batch::{Examples, Mark, MiniBatch};

/// The unit at hand, and what follows it.
pub(crate) struct Incoming {
    input: Receiver<Ready<Examples, Mark>>,
    /// The unit at hand, and how many of its mini-batches are done.
    unit: Option<(Unit<Examples>, usize)>,
    /// The item after the unit at hand, if received.
    next: Received<Ready<Examples, Mark>>,
}

impl Incoming {
    pub(crate) fn new(input: Receiver<Ready<Examples, Mark>>) -> Self {
        Self { input, unit: None, next: Received::Empty }
    }

    fn receive(&mut self) {
        if matches!(self.next, Received::Empty) {
            self.next = self.input.try_recv();
        }
    }

    /// The unit at hand, and the number of its finished mini-batches. If there is none, takes the
    /// next unit, if it has arrived and nothing else comes before it.
    pub(crate) fn unit(&mut self) -> Option<(&mut Unit<Examples>, usize)> {
        if self.unit.is_none() {
            self.receive();
            match std::mem::replace(&mut self.next, Received::Empty) {
                Received::Item(Ready::Unit(unit)) => self.unit = Some((unit, 0)),
                other => self.next = other,
            }
        }
        self.unit.as_mut().map(|(unit, done)| (unit, *done))
    }

    /// The next mini-batch of the unit at hand, and the one that follows it if `looks_ahead` and it
    /// has arrived.
    pub(crate) fn mini(
        &mut self,
        looks_ahead: bool,
    ) -> Option<(&mut MiniBatch, Option<&mut MiniBatch>)> {
        let (unit, done) = self.unit()?;
        if looks_ahead && done + 1 == unit.minis.len() {
            self.receive();
        }
        let (unit, done) = self.unit.as_mut()?;
        let (mini, others) = unit.minis[*done..].split_first_mut()?;
        let following = others.first_mut().or(match &mut self.next {
            Received::Item(Ready::Unit(unit)) => unit.minis.first_mut(),
            _ => None,
        });
        Some((mini, following.filter(|_| looks_ahead)))
    }

    /// Ends the current mini-batch; returns its unit if it was the last one.
    pub(crate) fn end_mini(&mut self) -> Option<Unit<Examples>> {
        let (unit, done) = self.unit.as_mut()?;
        unit.trained |= unit.minis[*done].purpose == Purpose::Train;
        *done += 1;
        if *done < unit.minis.len() { None } else { self.take_unit() }
    }

    /// Takes the unit at hand.
    pub(crate) fn take_unit(&mut self) -> Option<Unit<Examples>> {
        self.unit.take().map(|(unit, _)| unit)
    }

    /// Takes what was received last, without receiving more.
    pub(crate) fn take(&mut self) -> Received<Ready<Examples, Mark>> {
        match self.take_unit() {
            Some(unit) => Received::Item(Ready::Unit(unit)),
            None => std::mem::replace(&mut self.next, Received::Empty),
        }
    }

    /// Whether no received item waits. The end of the input counts as one.
    pub(crate) fn is_empty(&self) -> bool {
        self.unit.is_none() && matches!(self.next, Received::Empty)
    }
}
