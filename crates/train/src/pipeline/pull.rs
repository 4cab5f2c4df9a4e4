//! Stages `pull` and `write`: rows come up, rows go down.

use std::sync::Arc;

use stepwell_base::queue::{Bell, Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_server::{Chunk, Group, Puller};

use crate::batch::Unit;
use crate::{Error, Result};

/// A staged chunk and the number of its table group.
pub(super) type Down = (usize, Arc<Chunk>);

pub(super) struct PullStage {
    pullers: Vec<Puller>,
    /// The unit at hand and how many of its groups have staged their victims.
    unit: Option<(Unit, usize)>,
    ready: Option<Unit>,
    input: Receiver<Unit>,
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
        Self { pullers, unit: None, ready: None, input, output, down }
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
}

impl Stage for PullStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "pull"
    }

    fn poll(&mut self) -> Result<Progress> {
        if let Some(unit) = self.ready.take() {
            return match self.output.try_send(unit) {
                Ok(()) => Ok(Progress::Progressed),
                Err(Refused::Full(unit)) => {
                    self.ready = Some(unit);
                    Ok(Progress::Blocked)
                }
                Err(Refused::Closed(_)) => Ok(Progress::Done),
            };
        }
        let (mut unit, mut staged) = match self.unit.take() {
            Some(at_hand) => at_hand,
            None => match self.input.try_recv() {
                Received::Item(unit) => (unit, 0),
                Received::Empty => return Ok(Progress::Blocked),
                Received::Closed => return Ok(Progress::Done),
            },
        };
        if !self.stage_victims(&unit, &mut staged) {
            self.unit = Some((unit, staged));
            return Ok(Progress::Blocked);
        }
        for (puller, part) in self.pullers.iter_mut().zip(&mut unit.groups) {
            puller.fill(&mut part.fills)?;
        }
        self.ready = Some(unit);
        Ok(Progress::Progressed)
    }
}

pub(super) struct WriteStage {
    pub(super) groups: Vec<Arc<Group>>,
    pub(super) input: Receiver<Down>,
    /// Rung when a chunk landed, which no queue shows.
    pub(super) bell: Arc<Bell>,
}

impl Stage for WriteStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "write"
    }

    fn poll(&mut self) -> Result<Progress> {
        match self.input.try_recv() {
            Received::Item((group, chunk)) => {
                self.groups[group].write_back(chunk)?;
                self.bell.ring();
                Ok(Progress::Progressed)
            }
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => Ok(Progress::Done),
        }
    }
}
