//! What all ranks do together, made of messages: started by each, polled until it is over.
//!
//! All ranks start the same ones of a tag in the same order; several of one tag may be under way,
//! as long as each rank polls them in that order.

use crate::{Error, Fabric, Message, Result, Tag};

/// Something that all ranks do together.
pub trait Collective {
    /// What comes of it.
    type Output;

    /// What came of it, once it is over; it is not polled after that.
    ///
    /// # Errors
    /// When some rank is gone.
    fn poll(&mut self, fabric: &Fabric) -> Result<Option<Self::Output>>;
}

/// Every rank sends every rank a message of its own.
#[derive(Debug)]
pub struct AllToAll {
    tag: Tag,
    /// Those that have come, by sender.
    came: Vec<Option<Message>>,
}

impl AllToAll {
    /// Sends `messages`, one for each rank.
    ///
    /// # Errors
    /// When some rank is gone.
    pub fn start(fabric: &Fabric, tag: Tag, messages: Vec<Message>) -> Result<Self> {
        assert_eq!(messages.len(), fabric.size(), "a message for each rank");
        // Each begins with its neighbour, so that not all send to one at a time.
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
/// When some rank is gone.
pub fn all_gather(fabric: &Fabric, tag: Tag, message: Message) -> Result<AllToAll> {
    for distance in 1..fabric.size() {
        let mut copy = fabric.message_of(message.bytes());
        copy.copy_from(&message);
        fabric.send((fabric.rank() + distance) % fabric.size(), tag, copy)?;
    }
    fabric.send(fabric.rank(), tag, message)?;
    Ok(AllToAll { tag, came: vec![None; fabric.size()] })
}

/// Every rank sends one of them a message.
#[derive(Debug)]
pub struct Gather {
    /// What the root waits for.
    waits: Option<AllToAll>,
}

impl Gather {
    /// Sends `message` to `root`.
    ///
    /// # Errors
    /// When some rank is gone.
    pub fn start(fabric: &Fabric, tag: Tag, root: usize, message: Message) -> Result<Self> {
        fabric.send(root, tag, message)?;
        let waits = AllToAll { tag, came: vec![None; fabric.size()] };
        Ok(Self { waits: (fabric.rank() == root).then_some(waits) })
    }
}

impl Collective for Gather {
    /// By sender; none but for the root.
    type Output = Vec<Message>;

    fn poll(&mut self, fabric: &Fabric) -> Result<Option<Vec<Message>>> {
        self.waits.as_mut().map_or(Ok(Some(Vec::new())), |waits| waits.poll(fabric))
    }
}

/// One rank sends every rank the same message, who hand it on: a rank is told after as many steps
/// as its distance from the root has bits.
#[derive(Debug)]
pub struct Broadcast {
    tag: Tag,
    root: usize,
    /// The root's own.
    message: Option<Message>,
}

impl Broadcast {
    /// Sends `message`, which `root` alone has.
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

/// Nobody goes on before all have come.
#[derive(Debug)]
pub struct Barrier {
    tag: Tag,
    /// How far the next message goes; each round twice as far.
    distance: usize,
    sent: bool,
}

impl Barrier {
    /// This rank has come.
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
