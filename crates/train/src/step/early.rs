//! Rows that owners send a step ahead: they come while this rank computes, and are kept until their
//! step.

use std::sync::Arc;

use stepwell_engine::{EarlyRows, EmbeddingBags, Group, WorkingRows};
use stepwell_fabric::{Error, Fabric, Malformed, Message};

use crate::batch::MiniBatch;
use crate::{Result, talk};

/// What this rank sends and has got ahead.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Whether it has sent rows for the step after the one at hand.
    is_ahead: bool,
    /// What came for the next step, by owner; nothing where none of them sent any.
    came: Vec<Option<Message>>,
    /// Rows that it sent to others so far.
    sent: u64,
}

impl Early {
    /// Sends what the step at hand, whose rows are `held`, leaves alone of what `next` needs.
    pub(super) fn send(
        &mut self,
        fabric: &Fabric,
        embeddings: &EmbeddingBags,
        (held, next): (WorkingRows<'_>, Option<&mut MiniBatch>),
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

    /// Rows that it sent to others so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Takes what came for the next step of the ranks that say they are `ahead`. What a rank sends
    /// arrives in order, so it is here.
    pub(super) fn receive(&mut self, fabric: &Fabric, ahead: &[bool]) -> Result<()> {
        self.came.clear();
        self.came.resize(ahead.len(), None);
        for (from, came) in self.came.iter_mut().enumerate().filter(|(from, _)| ahead[*from]) {
            let missing = Malformed::Wrong("it says that it sent rows for the next step");
            let message = fabric.receive(from, talk::EARLY)?;
            *came = Some(message.ok_or_else(|| Error::malformed(from, missing))?);
        }
        Ok(())
    }

    /// What came for the step at hand, by owner.
    pub(super) fn came(&self) -> &[Option<Message>] {
        &self.came
    }

    /// It was taken.
    pub(super) fn taken(&mut self, fabric: &Fabric) {
        self.came.drain(..).flatten().for_each(|message| fabric.keep(message));
    }
}
