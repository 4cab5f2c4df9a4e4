//! Stage `write`: rows go down.

use std::sync::Arc;

use stepwell_base::queue::{Bell, Received, Receiver};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::{Progress, Stage};

use super::rules_of;
use crate::{Chunk, Error, Group, Result};

/// A staged chunk and the number of its table group.
pub(super) type Down = (usize, Arc<Chunk>);

/// Stage `write`: puts what left into the store.
pub struct WriteStage {
    groups: Vec<Arc<Group>>,
    input: Receiver<Down>,
    /// Rung when a chunk landed, which no queue shows.
    bell: Arc<Bell>,
    rules: Rules,
    /// A chunk that waits for what came after it: only where a rule is switched off.
    late: Option<Down>,
}

impl WriteStage {
    pub(super) fn new(groups: &[Arc<Group>], input: Receiver<Down>, bell: Arc<Bell>) -> Self {
        let rules = rules_of(groups);
        Self { groups: groups.to_vec(), input, bell, rules, late: None }
    }

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
