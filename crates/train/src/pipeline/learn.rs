//! Stage `learn`, for ranks that are out of step: computes this rank's part of mini-batches, while
//! stage `train` answers other ranks and moves the dense part.

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};

use crate::step::{Job, Learned, Learner};
use crate::{Error, Result};

pub(super) struct LearnStage {
    learner: Learner,
    input: Receiver<Job>,
    output: Sender<Learned>,
}

impl LearnStage {
    pub(super) fn new(learner: Learner, input: Receiver<Job>, output: Sender<Learned>) -> Self {
        Self { learner, input, output }
    }
}

impl Stage for LearnStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "learn"
    }

    fn gives_way(&self) -> bool {
        false
    }

    fn poll(&mut self) -> Result<Progress> {
        let job = match self.input.try_recv() {
            Received::Item(job) => job,
            Received::Empty => return Ok(Progress::Blocked),
            Received::Closed => return Ok(Progress::Done),
        };
        match self.output.try_send(self.learner.learn(job)?) {
            Ok(()) => Ok(Progress::Progressed),
            Err(Refused::Full(_)) => unreachable!("only one mini-batch is computed at a time"),
            Err(Refused::Closed(_)) => Ok(Progress::Done),
        }
    }
}
