//! One rank's end of the fabric.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use stepwell_base::owner::RankOf;
use stepwell_base::queue::Events;

use crate::Result;
use crate::carrier::{Carrier, Parcel, Tag, WindowNumber};
use crate::inbox::Inbox;
use crate::message::Message;

/// One rank's end of the fabric that joins all ranks.
///
/// ```
/// use stepwell_fabric::{Tag, threads};
///
/// let ranks = threads(2);
/// let mut message = ranks[0].message();
/// message.put(&[1.5f32, 2.0]);
/// ranks[0].send(1, Tag(7), message)?;
/// let Some(message) = ranks[1].receive(0, Tag(7))? else { panic!("it is here") };
/// assert_eq!(message.reader().take::<f32>(), Ok(&[1.5, 2.0][..]));
/// # Ok::<(), stepwell_fabric::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fabric {
    rank: usize,
    size: usize,
    inbox: Arc<Inbox>,
    pub(crate) carrier: Arc<dyn Carrier>,
    sent: Arc<Counters>,
}

/// Traffic that a rank has sent to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of messages and puts.
    pub messages: u64,
    /// Bytes of these, as counted by [`Message::bytes`], without the carrier's overhead.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Counters {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    fn add(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Fabric {
    /// The end of rank `rank` of `size`: parcels for it arrive in `inbox`, `carrier` takes those
    /// for others.
    pub fn new(rank: usize, size: usize, inbox: Arc<Inbox>, carrier: Arc<dyn Carrier>) -> Self {
        assert!(rank < size, "rank {rank} of {size}");
        Self { rank, size, inbox, carrier, sent: Arc::default() }
    }

    /// The rank's number, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// This rank, and the number of ranks.
    pub fn place(&self) -> RankOf {
        RankOf { rank: self.rank, ranks: self.size }
    }

    /// Traffic that this end has sent to other ranks so far.
    pub fn sent(&self) -> Sent {
        let Counters { messages, bytes } = &*self.sent;
        let [messages, bytes] = [messages, bytes].map(|count| count.load(Ordering::Relaxed));
        Sent { messages, bytes }
    }

    /// Whether messages travel while ranks compute: see [`Carrier::takes_time`].
    pub fn takes_time(&self) -> bool {
        self.carrier.takes_time()
    }

    /// The same end with the carrier that `wrap` makes of its carrier.
    pub fn carried_by(self, wrap: impl FnOnce(Arc<dyn Carrier>) -> Arc<dyn Carrier>) -> Self {
        Self { carrier: wrap(self.carrier), ..self }
    }

    /// An empty message, in a spare buffer if there is one.
    pub fn message(&self) -> Message {
        self.message_of(1)
    }

    /// An empty message with a buffer of about `bytes` bytes.
    pub fn message_of(&self, bytes: usize) -> Message {
        self.inbox.spare(bytes)
    }

    /// Takes back a message's buffer for reuse.
    pub fn keep(&self, message: Message) {
        self.inbox.keep(message);
    }

    /// Limits the buffers kept for reuse to `bytes` bytes.
    pub fn keep_at_most(&self, bytes: usize) {
        self.inbox.keep_at_most(bytes);
    }

    /// Starts to send `message` to rank `to`. If that is this rank, it arrives at once and wakes no
    /// waiting thread.
    ///
    /// # Errors
    /// If it will not arrive, or a rank is gone.
    pub fn send(&self, to: usize, tag: Tag, message: Message) -> Result<()> {
        self.carry(to, Parcel::Message(tag, message))
    }

    /// The next message of rank `from` under `tag`, if it has arrived.
    ///
    /// # Errors
    /// If a rank is gone, or `from` has ended and this message will never arrive.
    pub fn receive(&self, from: usize, tag: Tag) -> Result<Option<Message>> {
        self.inbox.take(from, tag)
    }

    /// Opens a window of `bytes` bytes, all zero, that others may put into. All ranks open it, each
    /// with its own size, and none puts before all have: a barrier must come between. A put into a
    /// window that is not open breaks the fabric.
    ///
    /// # Panics
    /// If it is open.
    pub fn open_window(&self, window: WindowNumber, bytes: usize) {
        self.inbox.open_window(window, bytes);
        self.carrier.opened(window, bytes);
    }

    /// Starts to put `bytes` into a window of rank `to`, at `offset`. They become visible there in
    /// any order, but all of them before this rank's later puts into the same window or messages to
    /// `to`; a barrier does not wait for them. They may overtake earlier messages of this rank. No
    /// two ranks may put into the same word of 8 bytes; such a word is never visible in part if it
    /// is put alone or among others that begin at a whole word.
    ///
    /// # Errors
    /// As for [`Fabric::send`].
    pub fn put(&self, to: usize, window: WindowNumber, offset: usize, bytes: &[u8]) -> Result<()> {
        let mut message = self.message_of(bytes.len());
        message.put(bytes);
        self.carry(to, Parcel::Put(window, offset as u64, message))
    }

    /// Copies values out of this rank's window, from `offset` on, a multiple of 8. Others may put
    /// into it concurrently: values that change may be partly old and partly new.
    ///
    /// # Panics
    /// If it is not open, or shorter.
    pub fn read<T: Pod>(&self, window: WindowNumber, offset: usize, values: &mut [T]) {
        self.inbox.read(window, offset, values);
    }

    /// Whether others reach this rank's window without its help.
    ///
    /// # Panics
    /// If it is not open.
    pub fn is_exposed(&self, window: WindowNumber) -> bool {
        self.inbox.at_window(window, |window| window.is_exposed())
    }

    /// Checks that ranks can continue together.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn check(&self) -> Result<()> {
        self.inbox.check()
    }

    /// Notifies `events` of every arrival, as long as they have another owner.
    pub fn wakes(&self, events: &Arc<Events>) {
        self.inbox.wakes(events);
    }

    /// Fails this rank: all others receive the reason, and none continues.
    pub fn fail(&self, why: &str) {
        self.tell(&Parcel::Failed(why.to_owned()));
    }

    /// Declares that this rank has sent everything.
    pub fn end(&self) {
        self.tell(&Parcel::Ended);
    }

    fn tell(&self, parcel: &Parcel) {
        for to in (0..self.size).filter(|to| *to != self.rank) {
            // A rank that cannot be reached has ended, too, or learns it from others.
            drop(self.carrier.carry(to, parcel.clone()));
        }
    }

    fn carry(&self, to: usize, parcel: Parcel) -> Result<()> {
        self.inbox.check()?;
        if to == self.rank {
            self.inbox.put(to, parcel);
            return Ok(());
        }
        let bytes = parcel.bytes();
        match self.carrier.carry(to, parcel) {
            Ok(None) => {}
            Ok(Some(message)) => self.inbox.keep(message),
            // The carrier may refuse because of a fault after the check, which explains more.
            Err(refused) => return self.inbox.check().and(Err(refused)),
        }
        self.sent.add(bytes);
        Ok(())
    }
}
