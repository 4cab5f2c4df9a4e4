//! The thread that makes all calls of MPI.

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ::mpi::Threading;
use stepwell_base::clock::{Clock, SystemClock};

use super::guard::Guard;
use super::last_heard::{Life, Silent, Watch};
use super::puts::{Goes, Puts};
use super::raw::{Fault, Lane, Port, Sending};
use super::shared::{
    EXPLAINED, GRACE, NAP_MAX, NAP_MIN, Options, Phase, SPIN, SPIN_UNDER_WAY, Shared, broken,
};
use super::traffic::{self, Peer};
use super::wire::{self, Came};
use crate::carrier::{Parcel, WindowNumber};
use crate::inbox::Inbox;
use crate::message::Message;
use crate::{Error, Result};

/// This rank, the number of ranks, and the ends of the thread, once ranks are joined.
pub(super) struct Joined {
    pub(super) rank: usize,
    /// Number of ranks.
    pub(super) size: usize,
    pub(super) inbox: Arc<Inbox>,
    /// State shared with the talker.
    pub(super) shared: Arc<Shared>,
}

/// Messages probed before other work has its turn.
const PROBES_MAX: usize = 64;
/// Words received from one rank before other work has its turn.
const TURN_WORDS: usize = 1 << 20;

/// Joins the other ranks, reports that to `ready`, and talks until this rank's end.
pub(super) fn run(options: Options, ready: &SyncSender<Result<Joined>>) {
    // Sent even if there is no receiver: then the process ends anyway.
    let tell = |joined| drop(ready.send(joined));
    let Some((universe, threading)) = ::mpi::initialize_with_threading(Threading::Funneled) else {
        return tell(Err(broken("MPI is in use in this process already".to_owned())));
    };
    // Finalising MPI may wait for ranks that do not come, and frees memory that may still be read.
    let universe = ManuallyDrop::new(universe);
    if threading < Threading::Funneled {
        return tell(Err(broken("this MPI does not allow threads".to_owned())));
    }
    let port = match Port::new(&universe.world()) {
        Ok(port) => port,
        Err(Fault(why)) => return tell(Err(broken(why))),
    };
    let (rank, size) = (port.rank(), port.size());
    let (inbox, shared) = (Inbox::new(size), Arc::new(Shared::new(size)));
    let over = Over(Arc::clone(&shared), Arc::clone(&inbox));
    let mut talker = Talker::new(options, port, Arc::clone(&inbox), Arc::clone(&shared));
    tell(Ok(Joined { rank, size, inbox, shared }));
    let in_order = talker.talk();
    if in_order {
        over.0.enter(Phase::Finalising);
        talker.close();
        drop(ManuallyDrop::into_inner(universe));
    } else {
        std::mem::forget(talker);
    }
}

/// Reports that the talker is gone, even if it panics.
struct Over(Arc<Shared>, Arc<Inbox>);

impl Drop for Over {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.1.breaks(broken("the thread for MPI panicked".to_owned()));
        }
        self.0.enter(Phase::Over);
    }
}

struct Talker {
    options: Options,
    clock: SystemClock,
    port: Port,
    inbox: Arc<Inbox>,
    shared: Arc<Shared>,
    watch: Watch,
    puts: Puts,
    /// `None` before the first window.
    guard: Option<Guard>,
    peers: Vec<Peer>,
    /// The first rank that is gone without having ended, and since when.
    unexplained: Option<(usize, f64)>,
    /// Whether queues hold more than there was room for.
    is_left: bool,
    /// Since when this rank is closing.
    closing: Option<f64>,
    /// Time of the last event, and how long to sleep when nothing happens.
    moved: f64,
    nap: Duration,
}

impl Talker {
    fn new(options: Options, port: Port, inbox: Arc<Inbox>, shared: Arc<Shared>) -> Self {
        let puts = Puts::new(&port, options.puts, options.piece_words);
        let clock = SystemClock::new();
        let now = clock.seconds();
        let watch = Watch::new(port.rank(), port.size(), options.patience_seconds, now);
        let peers = (0..port.size()).map(|_| Peer::default()).collect();
        Self {
            options,
            clock,
            port,
            inbox,
            shared,
            watch,
            puts,
            guard: None,
            peers,
            unexplained: None,
            is_left: false,
            closing: None,
            moved: now,
            nap: NAP_MIN,
        }
    }

    /// Talks until this rank closes; returns whether it ends normally.
    fn talk(&mut self) -> bool {
        loop {
            let now = self.clock.seconds();
            self.keep_watch(now);
            let mut moved = self.take(now);
            for rank in 0..self.peers.len() {
                moved |= self.send(rank);
            }
            match self.look(now) {
                Ok(found) => moved |= found,
                Err(Fault(why)) => {
                    self.inbox.breaks(broken(why));
                    return false;
                }
            }
            for rank in 0..self.peers.len() {
                moved |= self.receive(rank, now);
            }
            if let Some(in_order) = self.is_over(now) {
                return in_order;
            }
            self.rest(now, moved);
        }
    }

    /// Sends signs of life to others, and reports silent ranks to the inbox.
    fn keep_watch(&mut self, now: f64) {
        self.watch.look(now);
        while let Some(rank) = self.watch.beat_due(now) {
            let beat = &mut self.peers[rank].beat;
            if let Some(last) = beat
                && !matches!(last.poll(), Ok(Some(_)))
            {
                // The previous one has not even been sent: neither would another one be.
                continue;
            }
            let mut next = Sending::new(rank, Lane::Beats, Vec::new());
            match self.port.post(&mut next, self.options.piece_words) {
                Ok(()) => *beat = Some(next),
                Err(Fault(why)) => self.lose(rank, &why),
            }
        }
        while let Some(Silent { rank, is_needed }) = self.watch.silent(now) {
            let patience = self.watch.patience();
            let why = format!("nothing was heard of it for {patience} s (ranks.timeout)");
            self.part_with(rank, is_needed, &why);
        }
        if let Some((rank, since)) = self.unexplained
            && now - since > EXPLAINED.as_secs_f64()
        {
            self.inbox.lost(rank, "it left without a message");
            self.unexplained = None;
        }
    }

    /// Ends communication with `rank`, without which no rank continues.
    fn lose(&mut self, rank: usize, why: &str) {
        let is_needed = self.watch.life(rank) == Life::There;
        self.watch.becomes(rank, Life::Lost);
        self.part_with(rank, is_needed, why);
    }

    fn part_with(&mut self, rank: usize, is_needed: bool, why: &str) {
        if is_needed {
            // Before parcels to it are refused: their senders look here for the reason.
            self.inbox.lost(rank, why);
        }
        self.peers[rank] = Peer::default();
        let receiver = &mut self.shared.lock().receivers[rank];
        receiver.is_lost = true;
        receiver.queue.clear();
    }

    /// Takes parcels out of the queues, one for each receiver that has room.
    fn take(&mut self, now: f64) -> bool {
        if !self.shared.is_fresh.load(Ordering::Acquire) && !self.is_left {
            return false;
        }
        let mut state = self.shared.lock();
        self.shared.is_fresh.store(false, Ordering::Relaxed);
        if state.is_closing && self.closing.is_none() {
            self.closing = Some(now);
        }
        if let Some((seconds, known_by)) = state.patience.take() {
            self.watch.be_patient(seconds, known_by, now);
            self.guard.iter().for_each(|guard| guard.be_patient(self.watch.patience()));
        }
        let opened = std::mem::take(&mut state.opened);
        opened.iter().for_each(|(window, bytes)| self.puts.opens(*window, *bytes));
        let mut found = false;
        self.is_left = false;
        for (rank, peer) in self.peers.iter_mut().enumerate() {
            let queue = &mut state.receivers[rank].queue;
            let goes = queue.front().map(|words| self.puts.goes(rank, words));
            if goes != Some(Goes::Later)
                && let Some(words) = peer.has_room().then(|| queue.pop_front()).flatten()
            {
                match goes {
                    Some(Goes::Put) => peer.put = Some(words),
                    _ => peer.sending.push_back(Sending::new(rank, Lane::Parcels, words)),
                }
                found = true;
            }
            self.is_left |= !queue.is_empty();
        }
        drop(state);
        for (window, _) in opened {
            let all_have = self.puts.has_opened(&self.port, window);
            self.expose(window, all_have);
        }
        found
    }

    /// Moves a window to memory that others reach, if all have opened it.
    fn expose(&mut self, window: WindowNumber, all_have: std::result::Result<bool, Fault>) {
        let fault = |Fault(why)| broken(why);
        let (puts, port, inbox) = (&mut self.puts, &self.port, &self.inbox);
        let (guard, patience) = (&mut self.guard, self.watch.patience());
        let expose =
            |guard: &Guard| guard.during(None, || puts.expose(port, inbox, window)).map_err(fault);
        let exposed = match all_have {
            Ok(true) => Guard::within(guard, patience, inbox, &self.shared).and_then(expose),
            all_have => all_have.map(drop).map_err(fault),
        };
        exposed.unwrap_or_else(|error| inbox.breaks(error));
    }

    /// Advances sending to `rank`.
    fn send(&mut self, rank: usize) -> bool {
        let moved = self.try_send(rank);
        moved.unwrap_or_else(|Fault(why)| {
            self.lose(rank, &why);
            true
        })
    }

    fn try_send(&mut self, rank: usize) -> std::result::Result<bool, Fault> {
        let (peer, mut is_put) = (&mut self.peers[rank], false);
        if let (Some(words), Some(guard)) = (peer.put.take(), &self.guard) {
            let words = guard.during(Some(rank), || self.puts.put(rank, words))?;
            self.inbox.keep(Message::from_words(words));
            is_put = true;
        }
        Ok(peer.send(&self.port, self.options.piece_words, &self.inbox)? || is_put)
    }

    /// Checks for messages and puts.
    fn look(&mut self, now: f64) -> std::result::Result<bool, Fault> {
        let is_put = self.puts.look(&self.inbox)?;
        Ok(self.probe(now)? || is_put)
    }

    /// Checks for messages.
    fn probe(&mut self, now: f64) -> std::result::Result<bool, Fault> {
        for count in 0..PROBES_MAX {
            let Some(arrival) = self.port.probe()? else { return Ok(count > 0) };
            self.watch.heard(arrival.from, now);
            self.peers[arrival.from].arrivals.push_back(arrival);
        }
        Ok(true)
    }

    /// Advances receiving from `rank`.
    fn receive(&mut self, rank: usize, now: f64) -> bool {
        let moved = self.try_receive(rank, now);
        moved.unwrap_or_else(|Fault(why)| {
            self.lose(rank, &why);
            true
        })
    }

    fn try_receive(&mut self, rank: usize, now: f64) -> std::result::Result<bool, Fault> {
        let (mut moved, mut received) = (false, 0);
        while received < TURN_WORDS {
            let peer = &mut self.peers[rank];
            if let Some((lane, count, receiving)) = &mut peer.receiving {
                let Some(words) = receiving.poll()? else { return Ok(moved) };
                let (lane, count) = (*lane, *count);
                (peer.receiving, moved) = (None, true);
                received += count;
                self.watch.heard(rank, now);
                match lane {
                    Lane::Beats => {}
                    Lane::Parcels if count == self.options.piece_words => peer.begun = words,
                    Lane::Parcels => self.deliver(rank, words),
                    Lane::Windows => self.window(rank, &words),
                }
            } else if let Some(arrival) = peer.arrivals.pop_front() {
                let (lane, count) = (arrival.lane, arrival.count);
                let into = match lane {
                    Lane::Beats | Lane::Windows => Vec::new(),
                    Lane::Parcels if peer.begun.is_empty() => traffic::memory(&self.inbox, count),
                    Lane::Parcels => std::mem::take(&mut peer.begun),
                };
                let receiving = self.port.receive(arrival, into)?;
                peer.receiving = Some((lane, count, receiving));
            } else {
                break;
            }
        }
        Ok(moved)
    }

    /// Handles a message about a window.
    fn window(&mut self, rank: usize, words: &[u64]) {
        let number = words.first().and_then(|word| u16::try_from(*word).ok());
        let Some(window) = number.map(WindowNumber) else {
            return self.inbox.breaks(Error::malformed(rank, wire::MALFORMED));
        };
        let all_have = self.puts.heard(&self.port, window);
        self.expose(window, all_have);
    }

    fn deliver(&mut self, rank: usize, words: Vec<u64>) {
        match wire::unpack(words) {
            Ok(Came::Gone) => {
                if self.watch.life(rank) == Life::There {
                    self.unexplained.get_or_insert((rank, self.clock.seconds()));
                }
                self.watch.becomes(rank, Life::Gone);
            }
            Ok(Came::Parcel(parcel)) => {
                if matches!(parcel, Parcel::Failed(_) | Parcel::Ended) {
                    self.watch.becomes(rank, Life::Ended);
                }
                self.inbox.deliver(rank, parcel);
            }
            Err(why) => self.inbox.breaks(Error::malformed(rank, why)),
        }
    }

    /// Whether all communication has ended, and if so, whether normally.
    fn is_over(&mut self, now: f64) -> Option<bool> {
        let since = self.closing?;
        let state = self.shared.lock();
        let is_broken = state.has_failed || self.inbox.check().is_err();
        let all_sent = state.receivers.iter().all(|receiver| receiver.queue.is_empty())
            && self.peers.iter().all(|peer| peer.sending.is_empty() && peer.put.is_none())
            && self.puts.are_told();
        if all_sent && self.watch.is_alone() {
            return Some(self.watch.all_gone());
        }
        (is_broken && now - since > GRACE.as_secs_f64()).then_some(false)
    }

    /// Gives back windows that others no longer put into.
    fn close(self) {
        // Windows that MPI does not take back are freed with the process.
        drop(self.puts.close(&self.inbox));
    }

    /// Yields to other threads, or sleeps longer the longer nothing happens.
    fn rest(&mut self, now: f64, moved: bool) {
        if moved {
            (self.moved, self.nap) = (now, NAP_MIN);
            return;
        }
        let is_busy = |peer: &Peer| !peer.sending.is_empty() || peer.receiving.is_some();
        let spin = if self.peers.iter().any(is_busy) { SPIN_UNDER_WAY } else { SPIN };
        if now - self.moved < spin.as_secs_f64() {
            return std::thread::yield_now();
        }
        let mut state = self.shared.lock();
        if !self.shared.is_fresh.load(Ordering::Acquire) {
            state.is_asleep = true;
            let woken = self.shared.wake.wait_timeout(state, self.nap);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.is_asleep = false;
        }
        drop(state);
        self.nap = (2 * self.nap).min(NAP_MAX);
    }
}
