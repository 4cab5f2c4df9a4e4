//! Rows that owners send a step ahead: they arrive while this rank computes, and are kept until
//! their step.

use std::sync::Arc;

use stepwell_engine::{EarlyRows, EmbeddingBags, Group, WorkingRows};
use stepwell_fabric::{Error, Fabric, Malformed, Message};

use crate::batch::MiniBatch;
use crate::{Result, talk};

/// Rows sent and received ahead.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Whether this rank has sent rows for the step after the current one.
    is_ahead: bool,
    /// Messages for the next step, by owner.
    came: Vec<Option<Message>>,
    /// Number of rows sent to others so far.
    sent: u64,
}

impl Early {
    /// Sends the rows that `next` needs and the current step, whose rows are `held`, does not
    /// change.
    pub(super) fn send(
        &mut self,
        fabric: &Fabric,
        embeddings: &EmbeddingBags,
        held: WorkingRows<'_>,
        next: Option<&mut MiniBatch>,
        groups: &[Arc<Group>],
    ) -> Result<()> {
        let message = |bytes| fabric.message_of(bytes);
        let early = next.and_then(|next| {
            embeddings.answer_early(held, &mut next.parts, groups, (message, fabric.size()))
        });
        self.is_ahead = early.is_some();
        for (to, EarlyRows { message, rows }) in early.into_iter().flatten().enumerate() {
            self.sent += if to == fabric.rank() { 0 } else { rows };
            fabric.send(to, talk::EARLY, message)?;
        }
        Ok(())
    }

    /// Whether this rank has sent rows for the next step.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    /// Number of rows sent to others so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Receives rows for the next step from the ranks that are `ahead`. Messages of a rank arrive
    /// in order, so these have arrived.
    pub(super) fn receive(&mut self, fabric: &Fabric, ahead: &[bool]) -> Result<()> {
        self.came.clear();
        self.came.resize(ahead.len(), None);
        for (from, came) in self.came.iter_mut().enumerate().filter(|(from, _)| ahead[*from]) {
            let missing =
                Malformed::Wrong("it announced rows for the next step, but did not send them");
            let message = fabric.receive(from, talk::EARLY)?;
            *came = Some(message.ok_or_else(|| Error::malformed(from, missing))?);
        }
        Ok(())
    }

    /// Messages for the current step, by owner.
    pub(super) fn arrived(&mut self) -> &mut [Option<Message>] {
        &mut self.came
    }
}
