//! Stages `pull` and `write`: rows come up, rows go down.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::queue::{Bell, Received, Receiver, Refused, Sender};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::{Progress, Stage};
use stepwell_engine::{Chunk, Group, Pull, Puller};

use super::rules_of;
use crate::batch::Unit;
use crate::{Error, Result};

/// A staged chunk and the number of its table group.
pub(super) type Down = (usize, Arc<Chunk>);

/// Units whose rows are coming up at once.
pub(crate) const UNITS_PULLED: usize = 4;

pub(super) struct PullStage {
    groups: Vec<Arc<Group>>,
    pullers: Vec<Puller>,
    /// The unit at hand and how many of its groups have staged their victims.
    staging: Option<(Unit, usize)>,
    /// Units whose rows are coming up, in order.
    pulling: VecDeque<(Unit, Vec<Pull>)>,
    ready: Option<Unit>,
    rules: Rules,
    input: Receiver<Unit>,
    input_closed: bool,
    output: Sender<Unit>,
    down: Sender<Down>,
}

impl PullStage {
    pub(super) fn new(
        groups: &[Arc<Group>],
        input: Receiver<Unit>,
        output: Sender<Unit>,
        down: Sender<Down>,
    ) -> Self {
        let pullers = groups.iter().map(|group| Puller::new(Arc::clone(group))).collect();
        let rules = rules_of(groups);
        Self {
            groups: groups.to_vec(),
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
    fn stage_victims(&mut self, unit: &Unit, staged: &mut usize) -> bool {
        while *staged < unit.groups.len() {
            let group = *staged;
            let down = &self.down;
            let done = self.pullers[group].stage(&unit.groups[group].victims, &mut |chunk| {
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

    fn begin(&mut self, unit: &mut Unit) -> Result<Vec<Pull>> {
        let parts = self.pullers.iter_mut().zip(&mut unit.groups);
        parts.map(|(puller, part)| Ok(puller.begin(&mut part.fills)?)).collect()
    }

    fn finish(&mut self, unit: &mut Unit, pulls: Vec<Pull>) -> Result<()> {
        for ((puller, part), pull) in self.pullers.iter_mut().zip(&mut unit.groups).zip(pulls) {
            puller.finish(pull, &mut part.fills)?;
        }
        if !self.rules.hold(Rule::ReadLate) {
            self.read_early(unit);
        }
        Ok(())
    }

    /// Reads the rows of `unit` before their step, against [`Rule::ReadLate`].
    fn read_early(&self, unit: &mut Unit) {
        for mini in &mut unit.minis {
            for (part, group) in mini.groups.iter_mut().zip(&self.groups) {
                let held = group.slab.hold(&part.lookup.slots);
                let width = group.spec.weight_count();
                part.early = vec![0.0; held.len() * width];
                for (row, early) in part.early.chunks_exact_mut(width).enumerate() {
                    group.spec.weights(held.row(row)).copy_to(early);
                }
            }
        }
    }

    /// Begins with the next unit; false where there is none, or staging is full.
    fn advance(&mut self) -> Result<bool> {
        let (mut unit, mut staged) = match self.staging.take() {
            Some(at_hand) => at_hand,
            None => match self.input.try_recv() {
                Received::Item(unit) => (unit, 0),
                Received::Empty => return Ok(false),
                Received::Closed => {
                    self.input_closed = true;
                    return Ok(false);
                }
            },
        };
        if !self.rules.hold(Rule::CopyBeforeFill) && staged == 0 {
            let pulls = self.begin(&mut unit)?;
            self.finish(&mut unit, pulls)?;
        }
        if !self.stage_victims(&unit, &mut staged) {
            self.staging = Some((unit, staged));
            return Ok(false);
        }
        let pulls = match self.rules.hold(Rule::CopyBeforeFill) {
            true => self.begin(&mut unit)?,
            false => Vec::new(),
        };
        self.pulling.push_back((unit, pulls));
        Ok(true)
    }
}

impl Stage for PullStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "pull"
    }

    fn poll(&mut self) -> Result<Progress> {
        let mut any = false;
        if let Some(unit) = self.ready.take() {
            match self.output.try_send(unit) {
                Ok(()) => any = true,
                Err(Refused::Full(unit)) => self.ready = Some(unit),
                Err(Refused::Closed(_)) => return Ok(Progress::Done),
            }
        }
        // The disk first: it has the longest way.
        if self.pulling.len() < UNITS_PULLED && self.advance()? {
            return Ok(Progress::Progressed);
        }
        if self.ready.is_none() {
            if let Some((mut unit, pulls)) = self.pulling.pop_front() {
                self.finish(&mut unit, pulls)?;
                self.ready = Some(unit);
                return Ok(Progress::Progressed);
            }
            if self.input_closed && self.staging.is_none() {
                return Ok(Progress::Done);
            }
        }
        Ok(if any { Progress::Progressed } else { Progress::Blocked })
    }
}

/// Puts what left into the store.
pub(super) struct WriteStage {
    pub(super) groups: Vec<Arc<Group>>,
    pub(super) input: Receiver<Down>,
    /// Rung when a chunk landed, which no queue shows.
    pub(super) bell: Arc<Bell>,
    pub(super) rules: Rules,
    /// A chunk that waits for what came after it: only where a rule is switched off.
    pub(super) late: Option<Down>,
}

impl WriteStage {
    fn write(&self, (group, chunk): Down) -> Result<Progress> {
        self.groups[group].write_back(chunk)?;
        self.bell.ring();
        Ok(Progress::Progressed)
    }

    /// As `poll`, against [`Rule::WriteInOrder`] or [`Rule::PutBeforeForget`].
    fn poll_wrongly(&mut self) -> Result<Progress> {
        match self.input.try_recv() {
            Received::Item((group, chunk)) => {
                let late = self.late.take();
                if self.rules.hold(Rule::PutBeforeForget) {
                    self.late = late;
                    if self.late.is_some() {
                        return self.write((group, chunk));
                    }
                } else {
                    self.groups[group].staging.forget(&chunk);
                    if let Some(late) = late {
                        self.write(late)?;
                    }
                }
                self.late = Some((group, chunk));
                Ok(Progress::Progressed)
            }
            Received::Empty | Received::Closed if self.late.is_some() => match self.late.take() {
                Some(late) => self.write(late),
                None => Ok(Progress::Blocked),
            },
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => Ok(Progress::Done),
        }
    }
}

impl Stage for WriteStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "write"
    }

    fn poll(&mut self) -> Result<Progress> {
        if !self.rules.hold(Rule::WriteInOrder) || !self.rules.hold(Rule::PutBeforeForget) {
            return self.poll_wrongly();
        }
        match self.input.try_recv() {
            Received::Item(down) => self.write(down),
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => Ok(Progress::Done),
        }
    }
}
