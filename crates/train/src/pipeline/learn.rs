//! Stage `learn`, for ranks that are out of step: computes this rank's part of mini-batches, while
//! stage `train` answers other ranks and moves the dense part.

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_fabric::Message;

use crate::batch::MiniBatch;
use crate::step::Trainer;
use crate::{Error, Result};

/// A mini-batch to compute.
pub(super) struct Job {
    /// The mini-batch, without other ranks' requests.
    pub(super) mini: MiniBatch,
    /// Its rows, by owner.
    pub(super) answers: Vec<Message>,
    /// The dense parameters.
    pub(super) parameters: Vec<f32>,
    /// Memory for the gradient of the parameters.
    pub(super) gradient: Vec<f32>,
}

/// The result of a job.
pub(super) struct Learned {
    pub(super) mini: MiniBatch,
    /// The message to each rank.
    pub(super) said: Vec<Message>,
    pub(super) parameters: Vec<f32>,
    /// Dense gradient of the mean over all examples of the mini-batch.
    pub(super) gradient: Vec<f32>,
}

pub(super) struct LearnStage {
    learner: Trainer,
    input: Receiver<Job>,
    output: Sender<Learned>,
}

impl LearnStage {
    pub(super) fn new(learner: Trainer, ends: (Receiver<Job>, Sender<Learned>)) -> Self {
        let (input, output) = ends;
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
        let Job { mut mini, answers, parameters, mut gradient } = match self.input.try_recv() {
            Received::Item(job) => job,
            Received::Empty => return Ok(Progress::Blocked),
            Received::Closed => return Ok(Progress::Done),
        };
        let said = self.learner.learn(&mut mini, answers, (&parameters, &mut gradient))?;
        match self.output.try_send(Learned { mini, said, parameters, gradient }) {
            Ok(()) => Ok(Progress::Progressed),
            Err(Refused::Full(_)) => unreachable!("only one mini-batch is computed at a time"),
            Err(Refused::Closed(_)) => Ok(Progress::Done),
        }
    }
}
