//! Ranks whose parcels are delivered by a scheduler: any delay, any order between pairs, ranks that
//! die.
//!
//! Fault model: parcels of a pair arrive in order; the scheduler chooses which pair's comes next. A
//! put arrives in two parts, the last one first. A rank that dies sends nothing more; parcels that
//! it sent, and parcels for it, may never arrive. The others learn that it is lost when the
//! scheduler decides, as by a deadline.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Result;
use crate::carrier::{Carrier, Parcel};
use crate::fabric::Fabric;
use crate::inbox::Inbox;
use crate::message::Message;

/// All parcels in flight among some ranks.
#[derive(Debug)]
pub struct Post {
    inboxes: Vec<Arc<Inbox>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By sender and receiver. // (ranks, ranks)
    ways: Vec<VecDeque<Parcel>>,
    dead: Vec<bool>,
    /// Whether parcels are delivered as they are sent.
    at_once: bool,
}

impl Post {
    /// The ends of `size` ranks, by rank, and the post that delivers between them.
    pub fn new(size: usize) -> (Arc<Self>, Vec<Fabric>) {
        let inboxes: Vec<_> = (0..size).map(|_| Inbox::new(size)).collect();
        let ways = (0..size * size).map(|_| VecDeque::new()).collect();
        let state = Mutex::new(State { ways, dead: vec![false; size], at_once: false });
        let post = Arc::new(Self { inboxes, state });
        let end = |from| {
            let carrier = Sender { from, post: Arc::clone(&post) };
            Fabric::new(from, size, Arc::clone(&post.inboxes[from]), Arc::new(carrier))
        };
        let ends = (0..size).map(end).collect();
        (post, ends)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers one parcel: `pick` gets the number of pairs with parcels in flight, and chooses
    /// one. Returns false if there is none.
    pub fn deliver(&self, pick: impl FnOnce(usize) -> usize) -> bool {
        let mut state = self.lock();
        let busy: Vec<usize> =
            (0..state.ways.len()).filter(|way| !state.ways[*way].is_empty()).collect();
        if busy.is_empty() {
            return false;
        }
        let way = busy[pick(busy.len())];
        let parcel = state.ways[way].pop_front();
        drop(state);
        let (from, to) = (way / self.inboxes.len(), way % self.inboxes.len());
        parcel.into_iter().for_each(|parcel| self.inboxes[to].deliver(from, parcel));
        true
    }

    /// Delivers all parcels in flight, and later ones as they are sent.
    pub fn deliver_at_once(&self) {
        self.lock().at_once = true;
        while self.deliver(|_| 0) {}
    }

    /// Makes later parcels wait until they are delivered.
    pub fn hold(&self) {
        self.lock().at_once = false;
    }

    /// Number of parcels in flight.
    pub fn under_way(&self) -> usize {
        self.lock().ways.iter().map(VecDeque::len).sum()
    }

    /// Kills rank `rank`: only its first `arrive` parcels to each other rank still arrive, and
    /// nothing reaches it.
    pub fn kill(&self, rank: usize, arrive: usize) {
        let (mut state, size) = (self.lock(), self.inboxes.len());
        state.dead[rank] = true;
        for other in 0..size {
            state.ways[rank * size + other].truncate(arrive);
            state.ways[other * size + rank].clear();
        }
    }

    /// Ends the deadline of a dead rank: all others learn that it is lost.
    pub fn give_up(&self, rank: usize) {
        let others = self.inboxes.iter().enumerate().filter(|(other, _)| *other != rank);
        others.for_each(|(_, inbox)| inbox.lost(rank, "nothing was heard of it"));
    }
}

#[derive(Debug)]
struct Sender {
    from: usize,
    post: Arc<Post>,
}

impl Carrier for Sender {
    fn carry(&self, to: usize, parcel: Parcel) -> Result<Option<Message>> {
        let (mut state, size) = (self.post.lock(), self.post.inboxes.len());
        if !state.dead[self.from] && !state.dead[to] {
            state.ways[self.from * size + to].extend(in_parts(parcel));
        }
        let at_once = state.at_once;
        drop(state);
        if at_once {
            self.post.deliver_at_once();
        }
        Ok(None)
    }
}

/// A put may become visible in any order, in whole words: here its second half comes first.
fn in_parts(parcel: Parcel) -> Vec<Parcel> {
    let Parcel::Put(window, offset, message) = &parcel else { return vec![parcel] };
    let Ok(bytes) = message.reader().take::<u8>() else { return vec![parcel] };
    let (first, second) = bytes.split_at(bytes.len() / 2 / size_of::<u64>() * size_of::<u64>());
    let part = |offset, bytes: &[u8]| {
        let mut message = Message::new();
        message.put(bytes);
        Parcel::Put(*window, offset, message)
    };
    vec![part(offset.saturating_add(first.len() as u64), second), part(*offset, first)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Tag};

    fn numbered(number: u64) -> Message {
        let mut message = Message::new();
        message.put(&[number]);
        message
    }

    #[test]
    fn pairs_overtake_each_other_and_a_pair_never_itself() {
        let (post, ends) = Post::new(3);
        for number in 0..3 {
            ends[0].send(2, Tag(1), numbered(number)).unwrap();
        }
        ends[1].send(2, Tag(1), numbered(9)).unwrap();
        assert_eq!(ends[2].receive(0, Tag(1)), Ok(None), "nothing comes by itself");
        assert!(post.deliver(|pairs| pairs - 1));
        assert_eq!(ends[2].receive(1, Tag(1)), Ok(Some(numbered(9))));
        while post.deliver(|_| 0) {}
        let numbers = (0..3).map(|_| ends[2].receive(0, Tag(1)).unwrap());
        assert!(numbers.eq((0..3).map(|number| Some(numbered(number)))));
    }

    #[test]
    fn a_dead_rank_sends_nothing_and_is_named() {
        let (post, ends) = Post::new(3);
        (0..3).for_each(|number| ends[1].send(0, Tag(1), numbered(number)).unwrap());
        post.kill(1, 1);
        ends[1].send(2, Tag(1), numbered(7)).unwrap();
        ends[0].send(1, Tag(1), numbered(8)).unwrap();
        assert_eq!(post.under_way(), 1);
        assert!(post.deliver(|_| 0));
        assert_eq!(ends[0].receive(1, Tag(1)), Ok(Some(numbered(0))));
        assert_eq!(ends[0].receive(1, Tag(1)), Ok(None), "the others wait");
        post.give_up(1);
        for rank in [0, 2] {
            let lost = ends[rank].receive(1, Tag(1));
            assert!(matches!(lost, Err(Error::Lost { rank: 1, .. })), "{lost:?}");
            assert!(ends[rank].send(2, Tag(1), numbered(1)).is_err());
        }
    }
}
