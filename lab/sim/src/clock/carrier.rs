//! Links between ranks with transmission times: each rank has one outgoing and one incoming link,
//! and each transmits one parcel at a time.
//!
//! ```text
//! sender    out link free ─► first byte leaves ──────────► last byte leaves
//!                               │ latency
//! receiver                      └─► in link free ─► first byte ─────► last byte: arrived
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use stepwell_fabric::{Carrier, Fabric, Inbox, Message, Network, Parcel, Result};

/// A sent parcel without an arrival time yet.
#[derive(Debug)]
pub struct Sent {
    /// Sender.
    pub from: usize,
    /// Receiver.
    pub to: usize,
    /// The parcel.
    pub parcel: Parcel,
}

/// Parcels sent since the last call of [`Self::take`].
#[derive(Clone, Debug, Default)]
pub struct Outbox(Arc<Mutex<Vec<Sent>>>);

impl Outbox {
    /// Takes all parcels, in the order of sending.
    pub fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The ends of `size` ranks, their inboxes, and their common outbox.
pub fn ends(size: usize) -> (Vec<Fabric>, Vec<Arc<Inbox>>, Outbox) {
    let inboxes: Vec<_> = (0..size).map(|_| Inbox::new(size)).collect();
    let outbox = Outbox::default();
    let end = |from| {
        let carrier = Links { from, outbox: outbox.clone() };
        Fabric::new(from, size, Arc::clone(&inboxes[from]), Arc::new(carrier))
    };
    ((0..size).map(end).collect(), inboxes, outbox)
}

#[derive(Debug)]
struct Links {
    from: usize,
    outbox: Outbox,
}

impl Carrier for Links {
    fn carry(&self, to: usize, parcel: Parcel) -> Result<Option<Message>> {
        let sent = Sent { from: self.from, to, parcel };
        self.outbox.0.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
        Ok(None)
    }
}

/// When the links of ranks are free.
#[derive(Debug)]
pub struct Traffic {
    network: Network,
    out_free: Vec<f64>,
    in_free: Vec<f64>,
}

impl Traffic {
    /// Idle links of `ranks` ranks.
    pub fn new(network: Network, ranks: usize) -> Self {
        Self { network, out_free: vec![0.0; ranks], in_free: vec![0.0; ranks] }
    }

    /// Arrival time of `sent`, sent at `now`; parcels between two ranks arrive in order.
    pub fn arrival(&mut self, sent: &Sent, now: f64) -> f64 {
        let takes = sent.parcel.bytes() as f64 / self.network.bytes_per_second;
        let leaves = now.max(self.out_free[sent.from]);
        self.out_free[sent.from] = leaves + takes;
        let comes = (leaves + self.network.latency_seconds).max(self.in_free[sent.to]);
        self.in_free[sent.to] = comes + takes;
        comes + takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_fabric::Tag;

    #[test]
    fn links_carry_one_parcel_after_the_other() {
        let network = Network { bytes_per_second: 1000.0, latency_seconds: 0.5 };
        let mut traffic = Traffic::new(network, 3);
        let sent = |from, to, bytes: usize| {
            let message = Message::from_words(vec![0; bytes / 8]);
            Sent { from, to, parcel: Parcel::Message(Tag(1), message) }
        };
        assert_eq!(traffic.arrival(&sent(0, 1, 2000), 1.0), 1.0 + 0.5 + 2.0);
        // The sender's link is busy until 3.
        assert_eq!(traffic.arrival(&sent(0, 2, 1000), 1.0), 3.0 + 0.5 + 1.0);
        // And the receiver's until 3.5.
        assert_eq!(traffic.arrival(&sent(2, 1, 1000), 1.0), 3.5 + 1.0);
        // Both are free again.
        assert_eq!(traffic.arrival(&sent(1, 0, 0), 9.0), 9.5);
    }
}
