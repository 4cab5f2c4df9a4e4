//! Ranks as threads of one process.
//!
//! Messages are copied, as on a wire, so that measurements hide no cost; messages to the rank
//! itself are not.

use std::sync::Arc;

use crate::Result;
use crate::carrier::{Carrier, Parcel};
use crate::fabric::Fabric;
use crate::inbox::Inbox;
use crate::message::Message;

/// The ends of `size` ranks of one process, by rank.
pub fn threads(size: usize) -> Vec<Fabric> {
    let inboxes: Arc<[Arc<Inbox>]> = (0..size).map(|_| Inbox::new(size)).collect();
    let end = |from| {
        let carrier = Threads { from, inboxes: Arc::clone(&inboxes) };
        Fabric::new(from, size, Arc::clone(&inboxes[from]), Arc::new(carrier))
    };
    (0..size).map(end).collect()
}

#[derive(Debug)]
struct Threads {
    from: usize,
    inboxes: Arc<[Arc<Inbox>]>,
}

impl Carrier for Threads {
    fn carry(&self, to: usize, parcel: Parcel) -> Result<Option<Message>> {
        let inbox = &self.inboxes[to];
        let copy = |message: &Message| {
            let mut copy = inbox.spare(message.bytes());
            copy.copy_from(message);
            copy
        };
        let (parcel, back) = match parcel {
            Parcel::Message(tag, message) => (Parcel::Message(tag, copy(&message)), Some(message)),
            Parcel::Put(window, offset, message) => {
                (Parcel::Put(window, offset, copy(&message)), Some(message))
            }
            other => (other, None),
        };
        inbox.deliver(self.from, parcel);
        Ok(back)
    }

    fn takes_time(&self) -> bool {
        false
    }
}
