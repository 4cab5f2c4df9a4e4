//! Stage `pull`: rows come up.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::{Progress, Stage};

use super::flow::{Cargo, Pause, Ready, Unit};
use super::rules_of;
use super::write::Down;
use crate::{Error, Group, GroupUnit, Pull, Puller, Result};

/// Units whose rows are coming up at once.
pub const UNITS_PULLED: usize = 4;

/// Stage `pull`.
pub struct PullStage<C, M> {
    pullers: Vec<Puller>,
    /// The unit at hand and how many of its groups have staged their victims.
    staging: Option<(Ready<C, M>, usize)>,
    /// Units whose rows are coming up, and what comes between them, in order.
    pulling: VecDeque<(Ready<C, M>, Vec<Pull>)>,
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

    /// Stages the victims of all groups; false while staging is full.
    fn stage_victims(&mut self, moves: &[GroupUnit], staged: &mut usize) -> bool {
        while *staged < moves.len() {
            let group = *staged;
            let down = &self.down;
            let done = self.pullers[group].stage(&moves[group].victims, &mut |chunk| {
                // The queue has room for every chunk that there is.
                let sent = down.try_send((group, chunk));
                assert!(!matches!(sent, Err(Refused::Full(_))), "more chunks than the pool has");
            });
            if !done {
                return false;
            }
            *staged += 1;
        }
        true
    }

    fn begin(&mut self, unit: &mut Unit<C>) -> Result<Vec<Pull>> {
        let parts = self.pullers.iter_mut().zip(&mut unit.moves);
        parts.map(|(puller, part)| puller.begin(&mut part.fills)).collect()
    }

    fn finish(&mut self, unit: &mut Unit<C>, pulls: Vec<Pull>) -> Result<()> {
        for ((puller, part), pull) in self.pullers.iter_mut().zip(&mut unit.moves).zip(pulls) {
            puller.finish(pull, &mut part.fills)?;
        }
        Ok(())
    }

    /// Begins with what comes next; false where there is nothing, or staging is full.
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
            let pulls = self.begin(unit)?;
            self.finish(unit, pulls)?;
        }
        let leaving = match &next {
            Ready::Unit(Unit { moves, .. }) | Ready::Checkpoint(Pause { moves }) => &moves[..],
            Ready::Mark(_) => &[],
        };
        if !self.stage_victims(leaving, &mut staged) {
            self.staging = Some((next, staged));
            return Ok(false);
        }
        let pulls = match &mut next {
            Ready::Unit(unit) => self.begin(unit)?,
            _ => Vec::new(),
        };
        self.pulling.push_back((next, pulls));
        Ok(true)
    }
}

impl<C: Cargo, M: Send> Stage for PullStage<C, M> {
    type Error = Error;

    fn name(&self) -> &'static str {
        "pull"
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
        // The disk first: it has the longest way.
        if self.pulling.len() < UNITS_PULLED && self.advance()? {
            return Ok(Progress::Progressed);
        }
        if self.ready.is_none() {
            if let Some((mut next, pulls)) = self.pulling.pop_front() {
                if let Ready::Unit(unit) = &mut next {
                    self.finish(unit, pulls)?;
                }
                self.ready = Some(next);
                return Ok(Progress::Progressed);
            }
            if self.input_closed && self.staging.is_none() {
                return Ok(Progress::Done);
            }
        }
        Ok(if any { Progress::Progressed } else { Progress::Blocked })
    }
}
