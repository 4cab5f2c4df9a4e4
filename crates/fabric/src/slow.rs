//! A network that is slower than this machine: delays the parcels of another carrier.
//!
//! - **Why.** One machine can then also measure what ranks do while they wait for a network.
//! - **How.** Each rank has one link for all its parcels, like a network card: a parcel leaves it
//!   when all earlier ones have, and its bytes have passed at the network's rate. It arrives a
//!   latency later, when a thread hands it to the inner carrier. Incoming parcels have no other
//!   delay, and an empty parcel takes only the latency.
//! - **Order.** All parcels of a rank leave in one order.
//! - **Failure.** A refusal by the inner carrier is returned by the next call.
//! - **Bounds.** [`SLOW_MAX`] parcels may be in flight; further ones are refused.
//! - **Cost.** A parcel is late by the time that the system takes to wake a thread: some tens of
//!   microseconds, which do not add up, as the link keeps its own time. Dropping the last end of
//!   the fabric waits for parcels in flight.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use stepwell_base::clock::Clock;

use crate::carrier::{Carrier, KnownBy, Parcel, WindowNumber};
use crate::fabric::Fabric;
use crate::message::Message;
use crate::network::Network;
use crate::{Error, Result};

/// The most parcels of a rank in flight.
pub const SLOW_MAX: usize = 4096;

impl Network {
    /// Gives `end` a link of this network in front of its carrier.
    ///
    /// # Errors
    /// If the system cannot start a thread for it.
    ///
    /// # Panics
    /// If the network carries less than a byte per second, or its latency is more than a minute.
    pub fn slow_down(self, end: Fabric, clock: &Arc<dyn Clock>) -> io::Result<Fabric> {
        assert!(self.bytes_per_second >= 1.0, "{self:?}");
        assert!((0.0..=60.0).contains(&self.latency_seconds), "{self:?}");
        let mut failed = None;
        let end = end.carried_by(|inner| {
            match SlowCarrier::new(Arc::clone(&inner), self, Arc::clone(clock)) {
                Ok(carrier) => Arc::new(carrier),
                Err(error) => {
                    failed = Some(error);
                    inner
                }
            }
        });
        failed.map_or(Ok(end), Err)
    }
}

/// State of a rank's link.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Time in seconds at which the link has passed all bytes sent so far.
    free_at: f64,
}

impl Link {
    /// Returns when `bytes` bytes that are sent at `now` arrive.
    fn carry(&mut self, bytes: usize, now: f64, network: Network) -> f64 {
        self.free_at = self.free_at.max(now) + bytes as f64 / network.bytes_per_second;
        self.free_at + network.latency_seconds
    }
}

#[derive(Debug)]
struct SlowCarrier {
    inner: Arc<dyn Carrier>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// State that senders and the thread share.
#[derive(Debug)]
struct Shared {
    network: Network,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct State {
    link: Link,
    /// In order of arrival.
    under_way: VecDeque<Held>,
    /// Buffers of delivered messages, for senders.
    spares: Vec<Message>,
    refused: Option<Error>,
    is_closing: bool,
}

#[derive(Debug)]
struct Held {
    arrives: f64,
    to: usize,
    parcel: Parcel,
}

impl SlowCarrier {
    fn new(inner: Arc<dyn Carrier>, network: Network, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let (state, more) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { network, clock, state, more });
        let (of_thread, within) = (Arc::clone(&shared), Arc::clone(&inner));
        let thread = Builder::new().name("slow network".to_owned());
        let thread = thread.spawn(move || of_thread.deliver(&*within))?;
        Ok(Self { inner, shared, thread: Some(thread) })
    }
}

impl Carrier for SlowCarrier {
    fn carry(&self, to: usize, parcel: Parcel) -> Result<Option<Message>> {
        let now = self.shared.clock.seconds();
        let mut state = self.shared.lock();
        state.refused.clone().map_or(Ok(()), Err)?;
        let is_last = matches!(parcel, Parcel::Failed(_) | Parcel::Ended);
        if state.under_way.len() >= SLOW_MAX && !is_last {
            let why = format!("{SLOW_MAX} parcels are under way on a slow network");
            return Err(Error::Refused { rank: to, why });
        }
        let arrives = state.link.carry(parcel.bytes(), now, self.shared.network);
        let is_awaited = state.under_way.is_empty();
        state.under_way.push_back(Held { arrives, to, parcel });
        let spare = state.spares.pop();
        drop(state);
        if is_awaited {
            self.shared.more.notify_one();
        }
        Ok(spare)
    }

    fn opened(&self, window: WindowNumber, bytes: usize) {
        self.inner.opened(window, bytes);
    }

    fn be_patient(&self, seconds: f64, known_by: KnownBy) {
        self.inner.be_patient(seconds, known_by);
    }
}

impl Drop for SlowCarrier {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.more.notify_one();
        // A panic of the thread was already reported.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers parcels as they arrive, until none is left and no rank sends any more.
    fn deliver(&self, inner: &dyn Carrier) {
        let mut state = self.lock();
        loop {
            let now = self.clock.seconds();
            match state.under_way.pop_front() {
                None if state.is_closing => return,
                None => state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(held) if held.arrives > now => {
                    let left = Duration::from_secs_f64(held.arrives - now);
                    state.under_way.push_front(held);
                    let waited = self.more.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(held) => {
                    drop(state);
                    let back = inner.carry(held.to, held.parcel);
                    state = self.lock();
                    match back {
                        Ok(spare) => state.spares.extend(spare),
                        Err(error) => {
                            state.refused.get_or_insert(error);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::clock::SystemClock;

    use super::*;
    use crate::{Faults, FaultyCarrier, Tag, threads};

    const NETWORK: Network = Network { bytes_per_second: 1000.0, latency_seconds: 0.5 };

    #[test]
    fn bytes_pass_one_after_the_other_and_latencies_side_by_side() {
        let mut link = Link::default();
        let mut arrives = |bytes, now| link.carry(bytes, now, NETWORK);
        assert_eq!(arrives(2000, 10.0), 12.5);
        assert_eq!(arrives(1000, 10.0), 13.5, "behind the first one");
        assert_eq!(arrives(0, 11.0), 13.5);
        assert_eq!(arrives(1000, 20.0), 21.5, "the link was idle");
    }

    /// Two ranks, the first with a link of `network`, and faults behind it.
    fn ranks(network: Network, faults: Faults) -> Vec<Fabric> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let mut ranks = threads(2);
        let slow = ranks.remove(0).carried_by(|inner| Arc::new(FaultyCarrier::new(inner, faults)));
        ranks.insert(0, network.slow_down(slow, &clock).unwrap());
        ranks
    }

    #[test]
    fn nothing_arrives_before_its_time_and_all_before_the_end() {
        let clock = SystemClock::new();
        let network = Network { bytes_per_second: 80_000.0, latency_seconds: 0.02 };
        let mut ranks = ranks(network, Faults::default());
        for value in 0..4u64 {
            let mut message = Message::new();
            message.put(&vec![value; 99]);
            ranks[0].send(1, Tag(1), message).unwrap();
        }
        assert_eq!(ranks[1].receive(0, Tag(1)), Ok(None));
        drop(ranks.remove(0));
        // Four times 800 bytes.
        let took = clock.seconds();
        assert!((0.06..10.0).contains(&took), "{took}");
        for value in 0..4u64 {
            let message = ranks[0].receive(0, Tag(1)).unwrap().unwrap();
            assert_eq!(message.reader().take::<u64>().unwrap(), [value; 99]);
        }
    }

    #[test]
    fn what_is_refused_later_is_said_by_the_next_call() {
        let network = Network { bytes_per_second: 1e9, latency_seconds: 0.0 };
        let ranks = ranks(network, Faults { refused: Some(1), ..Faults::default() });
        let mut refused = None;
        while refused.is_none() {
            refused = ranks[0].send(1, Tag(1), Message::new()).err();
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(refused.unwrap().to_string(), "cannot send to rank 1: as it was told to");
    }

    #[test]
    fn more_under_way_than_there_is_room_for_is_refused() {
        let network = Network { bytes_per_second: 1e9, latency_seconds: 0.3 };
        let ranks = ranks(network, Faults::default());
        let send = |tag| ranks[0].send(1, Tag(tag), Message::new());
        let sent = (0..=SLOW_MAX).map(|number| send((number / 32) as u16));
        let refused = sent.filter_map(Result::err).next().map(|error| error.to_string());
        assert!(refused.is_some_and(|why| why.contains("4096 parcels are under way")));
        ranks[0].end();
    }
}
