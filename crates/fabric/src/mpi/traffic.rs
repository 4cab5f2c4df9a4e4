//! Traffic in flight to and from another rank.

use std::collections::VecDeque;

use super::raw::{Arrival, Lane, Port, Receiving, Result, Sending};
use super::shared::PIECES_MAX;
use crate::inbox::Inbox;
use crate::message::Message;

/// Traffic in flight to and from another rank.
#[derive(Default)]
pub(super) struct Peer {
    /// In order; only the last may have pieces that were not passed to MPI.
    pub(super) sending: VecDeque<Sending>,
    pub(super) beat: Option<Sending>,
    /// A put into a window, which precedes anything else.
    pub(super) put: Option<Vec<u64>>,
    pub(super) arrivals: VecDeque<Arrival>,
    pub(super) receiving: Option<(Lane, usize, Receiving)>,
    /// Received pieces of an incomplete parcel.
    pub(super) begun: Vec<u64>,
}

impl Peer {
    fn under_way(&self) -> usize {
        self.sending.iter().map(Sending::under_way).sum()
    }

    /// Whether another parcel may be sent.
    pub(super) fn has_room(&self) -> bool {
        let all_posted = self.sending.back().is_none_or(Sending::is_posted);
        all_posted && self.put.is_none() && self.under_way() < PIECES_MAX
    }

    /// Advances sending, in pieces of `piece_words` words; returns whether anything progressed.
    /// Buffers of sent parcels go to `inbox`.
    pub(super) fn send(&mut self, port: &Port, piece_words: usize, inbox: &Inbox) -> Result<bool> {
        let mut moved = false;
        while let Some(first) = self.sending.front_mut() {
            let Some(words) = first.poll()? else { break };
            inbox.keep(Message::from_words(words));
            self.sending.pop_front();
            moved = true;
        }
        let mut room = PIECES_MAX.saturating_sub(self.under_way());
        while let Some(last) = self.sending.back_mut()
            && !last.is_posted()
            && room > 0
        {
            port.post(last, piece_words)?;
            (room, moved) = (room - 1, true);
        }
        Ok(moved)
    }
}

/// An empty buffer for `count` words.
pub(super) fn memory(inbox: &Inbox, count: usize) -> Vec<u64> {
    inbox.spare(count * size_of::<u64>()).into_words()
}
