//! Operations of all ranks together, made of messages: started by each, polled until complete.
//!
//! All ranks start the same operations of a tag in the same order; several of one tag may be in
//! progress, as long as each rank polls them in that order.

use std::sync::Arc;

use stepwell_base::queue::Events;

use crate::carrier::{KnownBy, Tag};
use crate::fabric::Fabric;
use crate::message::Message;
use crate::{Error, Result};

/// An operation of all ranks together.
pub trait Collective {
    /// Result of the operation.
    type Output;

    /// The result, once complete; it must not be polled after that.
    ///
    /// # Errors
    /// If a rank is gone.
    fn poll(&mut self, fabric: &Fabric) -> Result<Option<Self::Output>>;
}

impl Fabric {
    /// Blocks until `collective` is complete; for use before and after a run.
    ///
    /// # Errors
    /// The errors of its [`Collective::poll`].
    pub fn wait<C: Collective>(&self, collective: C) -> Result<C::Output> {
        self.wait_at(collective, &Events::new())
    }

    /// The same, but also polls again at other `events`.
    ///
    /// # Errors
    /// The errors of its [`Collective::poll`].
    pub fn wait_at<C: Collective>(
        &self,
        mut collective: C,
        events: &Arc<Events>,
    ) -> Result<C::Output> {
        self.wakes(events);
        loop {
            let seen = events.count();
            if let Some(output) = collective.poll(self)? {
                return Ok(output);
            }
            events.wait_past(seen);
        }
    }

    /// Changes the number of seconds after which a silent rank is lost, if ranks can vanish. All
    /// ranks call this together, with the same number; `tag` is the tag of a barrier.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn be_patient(&self, seconds: f64, tag: Tag) -> Result<()> {
        // No rank shortens its wait before all send signs of life often enough for it.
        self.carrier.be_patient(seconds, KnownBy::ThisRank);
        self.wait(Barrier::start(tag))?;
        self.carrier.be_patient(seconds, KnownBy::AllRanks);
        Ok(())
    }
}

/// Every rank sends a message to every rank.
#[derive(Debug)]
pub struct AllToAll {
    tag: Tag,
    /// Received messages, by sender.
    came: Vec<Option<Message>>,
}

impl AllToAll {
    /// Sends `messages`, one for each rank.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn start(fabric: &Fabric, tag: Tag, messages: Vec<Message>) -> Result<Self> {
        assert_eq!(messages.len(), fabric.size(), "one message for each rank");
        // Each begins with its neighbour, so that not all send to the same rank at once.
        let mut messages: Vec<_> = messages.into_iter().map(Some).collect();
        for distance in 1..=fabric.size() {
            let to = (fabric.rank() + distance) % fabric.size();
            messages[to].take().map_or(Ok(()), |message| fabric.send(to, tag, message))?;
        }
        Ok(Self { tag, came: vec![None; fabric.size()] })
    }
}

impl Collective for AllToAll {
    /// By sender.
    type Output = Vec<Message>;

    fn poll(&mut self, fabric: &Fabric) -> Result<Option<Vec<Message>>> {
        for (from, came) in self.came.iter_mut().enumerate().filter(|(_, came)| came.is_none()) {
            *came = fabric.receive(from, self.tag)?;
        }
        if self.came.iter().any(Option::is_none) {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.came).into_iter().flatten().collect()))
    }
}

/// Every rank sends every rank the same message.
///
/// # Errors
/// If a rank is gone.
pub fn all_gather(fabric: &Fabric, tag: Tag, message: Message) -> Result<AllToAll> {
    for distance in 1..fabric.size() {
        let mut copy = fabric.message_of(message.bytes());
        copy.copy_from(&message);
        fabric.send((fabric.rank() + distance) % fabric.size(), tag, copy)?;
    }
    fabric.send(fabric.rank(), tag, message)?;
    Ok(AllToAll { tag, came: vec![None; fabric.size()] })
}

/// Every rank sends a message to the root.
#[derive(Debug)]
pub struct Gather {
    /// Messages that the root waits for; `None` on other ranks.
    waits: Option<AllToAll>,
}

impl Gather {
    /// Sends `message` to `root`.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn start(fabric: &Fabric, tag: Tag, root: usize, message: Message) -> Result<Self> {
        fabric.send(root, tag, message)?;
        let waits = AllToAll { tag, came: vec![None; fabric.size()] };
        Ok(Self { waits: (fabric.rank() == root).then_some(waits) })
    }
}

impl Collective for Gather {
    /// By sender; empty except at the root.
    type Output = Vec<Message>;

    fn poll(&mut self, fabric: &Fabric) -> Result<Option<Vec<Message>>> {
        self.waits.as_mut().map_or(Ok(Some(Vec::new())), |waits| waits.poll(fabric))
    }
}

/// One rank sends every rank the same message, and ranks pass it on: a rank receives it after as
/// many steps as its distance from the root has bits.
#[derive(Debug)]
pub struct Broadcast {
    tag: Tag,
    root: usize,
    /// The root's message.
    message: Option<Message>,
}

impl Broadcast {
    /// Sends `message`, which only `root` has.
    pub fn start(fabric: &Fabric, tag: Tag, root: usize, message: Option<Message>) -> Self {
        assert_eq!(message.is_some(), fabric.rank() == root, "the root has the message");
        Self { tag, root, message }
    }
}

impl Collective for Broadcast {
    type Output = Message;

    fn poll(&mut self, fabric: &Fabric) -> Result<Option<Message>> {
        let size = fabric.size();
        let distance = (fabric.rank() + size - self.root) % size;
        let lowest =
            if distance == 0 { size.next_power_of_two() } else { 1 << distance.trailing_zeros() };
        if self.message.is_none() {
            let parent = (self.root + distance - lowest) % size;
            self.message = fabric.receive(parent, self.tag)?;
        }
        let Some(message) = self.message.take() else { return Ok(None) };
        let mut bit = lowest / 2;
        while bit > 0 {
            if distance + bit < size {
                let mut copy = fabric.message_of(message.bytes());
                copy.copy_from(&message);
                fabric.send((self.root + distance + bit) % size, self.tag, copy)?;
            }
            bit /= 2;
        }
        Ok(Some(message))
    }
}

/// Completes only after all ranks have started it.
#[derive(Debug)]
pub struct Barrier {
    tag: Tag,
    /// Distance of the next message, which doubles in each round.
    distance: usize,
    sent: bool,
}

impl Barrier {
    /// Enters the barrier.
    pub fn start(tag: Tag) -> Self {
        Self { tag, distance: 1, sent: false }
    }
}

impl Collective for Barrier {
    type Output = ();

    /// Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization" (1988).
    fn poll(&mut self, fabric: &Fabric) -> Result<Option<()>> {
        let (rank, size) = (fabric.rank(), fabric.size());
        while self.distance < size {
            if !std::mem::replace(&mut self.sent, true) {
                fabric.send((rank + self.distance) % size, self.tag, fabric.message())?;
            }
            let from = (rank + size - self.distance) % size;
            let Some(message) = fabric.receive(from, self.tag)? else { return Ok(None) };
            let empty = message.reader().end();
            empty.map_err(|why| Error::malformed(from, why))?;
            fabric.keep(message);
            (self.distance, self.sent) = (2 * self.distance, false);
        }
        Ok(Some(()))
    }
}
