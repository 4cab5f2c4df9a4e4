//! Stage `pull`: fills slots, and concurrently sorts the bags of the mini-batches by row.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::{Progress, Stage};

use super::items::{Pause, Ready, Unit};
use super::write::Down;
use crate::group::{Group, rules_of};
use crate::mini_batch::{Cargo, MiniBatch};
use crate::pull::{Pull, Puller};
use crate::unit::{GroupUnit, UNITS_PULLED};
use crate::{Error, Result};

/// A unit being filled, or an item between units.
struct Pulling<C, M> {
    next: Ready<C, M>,
    pulls: Vec<Pull>,
    /// Number of the unit's mini-batches whose bags are sorted by row.
    sorted: usize,
}

impl<C, M> Pulling<C, M> {
    /// The first mini-batch whose bags are not sorted.
    fn unsorted(&mut self) -> Option<&mut MiniBatch<C>> {
        match &mut self.next {
            Ready::Unit(unit) => unit.minis.get_mut(self.sorted),
            _ => None,
        }
    }
}

/// Stage `pull`.
pub struct PullStage<C, M> {
    pullers: Vec<Puller>,
    /// The current unit and how many of its groups have staged their victims.
    staging: Option<(Ready<C, M>, usize)>,
    /// Items whose victims were staged, in order.
    pulling: VecDeque<Pulling<C, M>>,
    ready: Option<Ready<C, M>>,
    rules: Rules,
    input: Receiver<Ready<C, M>>,
    input_closed: bool,
    output: Sender<Ready<C, M>>,
    down: Sender<Down>,
}

impl<C: Cargo, M: Send> PullStage<C, M> {
    pub(super) fn new(
        groups: &[Arc<Group>],
        input: Receiver<Ready<C, M>>,
        output: Sender<Ready<C, M>>,
        down: Sender<Down>,
    ) -> Self {
        let pullers = groups.iter().map(|group| Puller::new(Arc::clone(group))).collect();
        let rules = rules_of(groups);
        Self {
            pullers,
            staging: None,
            pulling: VecDeque::new(),
            ready: None,
            rules,
            input,
            input_closed: false,
            output,
            down,
        }
    }

    /// Stages the victims of all groups, after the `staged` ones already done.
    fn stage_victims(&mut self, moves: &[GroupUnit], staged: &mut usize) -> Progress {
        while let Some(GroupUnit { victims, .. }) = moves.get(*staged) {
            let (group, down) = (*staged, &self.down);
            let progress = self.pullers[group].stage(victims, |buffer| {
                // The queue has room for every buffer of the pool.
                let sent = down.try_send(Down { group, buffer });
                assert!(!matches!(sent, Err(Refused::Full(_))), "more buffers than the pool has");
            });
            if progress != Progress::Done {
                return progress;
            }
            *staged += 1;
        }
        Progress::Done
    }

    fn begin(&mut self, unit: &mut Unit<C>) -> Result<Vec<Pull>> {
        let parts = self.pullers.iter_mut().zip(&mut unit.moves);
        parts.map(|(puller, part)| puller.begin(&mut part.fills)).collect()
    }

    /// Continues with the next item: stages some of its victims, or begins it; `false` if there
    /// is no item or staging is full.
    fn advance(&mut self) -> Result<bool> {
        let (mut next, mut staged) = match self.staging.take() {
            Some(at_hand) => at_hand,
            None => match self.input.try_recv() {
                Received::Item(next) => (next, 0),
                Received::Empty => return Ok(false),
                Received::Closed => {
                    self.input_closed = true;
                    return Ok(false);
                }
            },
        };
        if let Ready::Unit(unit) = &mut next
            && staged == 0
            && !self.rules.hold(Rule::CopyBeforeFill)
        {
            self.fill_first(unit)?;
        }
        let leaving = match &next {
            Ready::Unit(Unit { moves, .. }) | Ready::Checkpoint(Pause { moves, .. }) => &moves[..],
            Ready::Mark(_) => &[],
        };
        let progress = self.stage_victims(leaving, &mut staged);
        if progress != Progress::Done {
            self.staging = Some((next, staged));
            return Ok(progress == Progress::Progressed);
        }
        let pulls = match &mut next {
            Ready::Unit(unit) => self.begin(unit)?,
            _ => Vec::new(),
        };
        self.pulling.push_back(Pulling { next, pulls, sorted: 0 });
        Ok(true)
    }

    /// Fills the slots of `unit` while its victims are still there, against
    /// [`Rule::CopyBeforeFill`].
    fn fill_first(&mut self, unit: &mut Unit<C>) -> Result<()> {
        let pulls = self.begin(unit)?;
        for ((puller, part), mut pull) in self.pullers.iter_mut().zip(&mut unit.moves).zip(pulls) {
            while !pull.is_done() {
                if !puller.step(&mut pull, &mut part.fills)? {
                    puller.wait()?;
                }
            }
        }
        Ok(())
    }

    /// Does a piece of the first unit being filled that has one ready; `false` if all wait for the
    /// disk.
    fn step(&mut self) -> Result<bool> {
        for Pulling { next, pulls, .. } in &mut self.pulling {
            let Ready::Unit(unit) = next else { continue };
            let parts = self.pullers.iter_mut().zip(&mut unit.moves).zip(pulls);
            for ((puller, part), pull) in parts {
                if puller.step(pull, &mut part.fills)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Sorts the bags of one mini-batch by row while its rows are loaded; `false` if all are
    /// sorted.
    fn sort_bags(&mut self) -> bool {
        self.pulling.iter_mut().any(|pulling| match pulling.unsorted() {
            Some(mini) => {
                mini.sort_bags();
                pulling.sorted += 1;
                true
            }
            None => false,
        })
    }

    /// Whether the first item is complete.
    fn is_first_done(&mut self) -> bool {
        self.pulling.front_mut().is_some_and(|first| {
            first.pulls.iter().all(Pull::is_done) && first.unsorted().is_none()
        })
    }
}

impl<C: Cargo, M: Send> Stage for PullStage<C, M> {
    type Error = Error;

    fn name(&self) -> &'static str {
        "pull"
    }

    /// A read that is requested late finishes late.
    fn gives_way(&self) -> bool {
        false
    }

    fn poll(&mut self) -> Result<Progress> {
        let mut any = false;
        if let Some(next) = self.ready.take() {
            match self.output.try_send(next) {
                Ok(()) => any = true,
                Err(Refused::Full(next)) => self.ready = Some(next),
                Err(Refused::Closed(_)) => return Ok(Progress::Done),
            }
        }
        // The disk first, as it takes longest.
        self.pullers.iter_mut().try_for_each(Puller::advance)?;
        if self.pulling.len() < UNITS_PULLED && self.advance()? {
            return Ok(Progress::Progressed);
        }
        if self.step()? {
            return Ok(Progress::Progressed);
        }
        if self.ready.is_none() && self.is_first_done() {
            self.ready = self.pulling.pop_front().map(|first| first.next);
            if let Some(Ready::Unit(unit)) = &self.ready
                && let Some(last) = unit.minis.last()
            {
                self.pullers.iter_mut().for_each(|puller| puller.filled_before(last.number + 1));
            }
            return Ok(Progress::Progressed);
        }
        if any || self.sort_bags() {
            return Ok(Progress::Progressed);
        }
        if self.pulling.iter().flat_map(|of| &of.pulls).any(|pull| !pull.is_done()) {
            return Ok(Progress::Pending);
        }
        let is_over = self.input_closed
            && self.staging.is_none()
            && self.pulling.is_empty()
            && self.ready.is_none();
        Ok(if is_over { Progress::Done } else { Progress::Blocked })
    }

    fn wait(&mut self) -> Result<()> {
        for Pulling { pulls, .. } in &self.pulling {
            if let Some(group) = pulls.iter().position(|pull| !pull.is_done()) {
                return self.pullers[group].wait();
            }
        }
        Ok(())
    }
}
