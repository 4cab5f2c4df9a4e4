//! One rank's end of the fabric.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use stepwell_base::queue::Events;

use crate::collective::{Barrier, Collective};
use crate::{Carrier, Inbox, Message, Parcel, Result, Tag, WindowNumber};

/// One rank's end of what joins all ranks.
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
    carrier: Arc<dyn Carrier>,
    sent: Arc<Counters>,
}

/// What a rank has sent to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages, and what was put into windows.
    pub messages: u64,
    /// Bytes of them, as [`Message::bytes`] counts; what a carrier adds is not among them.
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
    /// The end of rank `rank` of `size`: parcels for it arrive in `inbox`, those for others go by
    /// `carrier`.
    pub fn new((rank, size): (usize, usize), inbox: Arc<Inbox>, carrier: Arc<dyn Carrier>) -> Self {
        assert!(rank < size, "rank {rank} of {size}");
        Self { rank, size, inbox, carrier, sent: Arc::default() }
    }

    /// Its number, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Ranks in all.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What this end has sent to other ranks so far.
    pub fn sent(&self) -> Sent {
        let Counters { messages, bytes } = &*self.sent;
        let [messages, bytes] = [messages, bytes].map(|count| count.load(Ordering::Relaxed));
        Sent { messages, bytes }
    }

    /// Whether messages travel while ranks compute: see [`Carrier::takes_time`].
    pub fn takes_time(&self) -> bool {
        self.carrier.takes_time()
    }

    /// The same end, its parcels carried by what `wrap` makes of its carrier.
    pub fn carried_by(self, wrap: impl FnOnce(Arc<dyn Carrier>) -> Arc<dyn Carrier>) -> Self {
        Self { carrier: wrap(self.carrier), ..self }
    }

    /// Memory for a message.
    pub fn message(&self) -> Message {
        self.message_of(1)
    }

    /// Memory for a message of about so many bytes.
    pub fn message_of(&self, bytes: usize) -> Message {
        self.inbox.spare(bytes)
    }

    /// Takes back the memory of a message.
    pub fn keep(&self, message: Message) {
        self.inbox.keep(message);
    }

    /// Keeps memory of messages that were taken of so many bytes at most, for others.
    pub fn keep_at_most(&self, bytes: usize) {
        self.inbox.keep_at_most(bytes);
    }

    /// Starts to send `message` to rank `to`, which may be this one: then it is there at once, and
    /// nobody is woken by it.
    ///
    /// # Errors
    /// When it will not arrive, or some rank is gone.
    pub fn send(&self, to: usize, tag: Tag, message: Message) -> Result<()> {
        self.carry(to, Parcel::Message(tag, message))
    }

    /// The next message of rank `from` under `tag`, if it has arrived.
    ///
    /// # Errors
    /// When some rank is gone, or `from` has ended and this message will never come.
    pub fn receive(&self, from: usize, tag: Tag) -> Result<Option<Message>> {
        self.inbox.take(from, tag)
    }

    /// Opens a window of so many bytes, all zero, that others may put into. All ranks open it, each
    /// with a size of its own, and nobody puts before: a barrier comes between. What is put into a
    /// window that is not open breaks the fabric.
    ///
    /// # Panics
    /// When it is open.
    pub fn open_window(&self, window: WindowNumber, bytes: usize) {
        self.inbox.open_window(window, bytes);
        self.carrier.opened(window, bytes);
    }

    /// Starts to put `bytes` into a window of rank `to`, from `offset` on. They show there in any
    /// order, and all of them before what this rank puts into the same window, or sends to `to`,
    /// later; a barrier does not wait for them. They may overtake what it sent earlier. No two
    /// ranks put into one word of 8 bytes; such a word shows whole where it is put alone or among
    /// others that begin at a whole word.
    ///
    /// # Errors
    /// As [`Fabric::send`].
    pub fn put(&self, to: usize, window: WindowNumber, offset: usize, bytes: &[u8]) -> Result<()> {
        let mut message = self.message_of(bytes.len());
        message.put(bytes);
        self.carry(to, Parcel::Put(window, offset as u64, message))
    }

    /// Copies values out of this rank's window, from `offset` on, a multiple of 8. Others may put
    /// into it meanwhile: what has then changed is old in part, and new in part.
    ///
    /// # Panics
    /// When it is not open, or not as long.
    pub fn read<T: Pod>(&self, window: WindowNumber, offset: usize, values: &mut [T]) {
        self.inbox.read(window, offset, values);
    }

    /// Whether others reach this rank's window without its help.
    ///
    /// # Panics
    /// When it is not open.
    pub fn is_exposed(&self, window: WindowNumber) -> bool {
        self.inbox.at_window(window, |window| window.is_exposed())
    }

    /// Whether ranks can go on together.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn check(&self) -> Result<()> {
        self.inbox.check()
    }

    /// `events` are told of all that arrives, as long as anybody has them.
    pub fn wakes(&self, events: &Arc<Events>) {
        self.inbox.wakes(events);
    }

    /// Waits until `collective` is over: for what happens before a run and after it.
    ///
    /// # Errors
    /// Those of its [`Collective::poll`].
    pub fn wait<C: Collective>(&self, collective: C) -> Result<C::Output> {
        self.wait_at(collective, &Events::new())
    }

    /// The same, polled again at other `events`, too.
    ///
    /// # Errors
    /// Those of its [`Collective::poll`].
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

    /// From now on a rank that is not heard of for so many seconds is lost, where one can go
    /// without a word. All ranks come here together, with the same number; `tag` is that of a
    /// barrier.
    ///
    /// # Errors
    /// When some rank is gone.
    pub fn be_patient(&self, seconds: f64, tag: Tag) -> Result<()> {
        // Nobody waits for less before all let themselves be heard as often as that needs.
        self.carrier.be_patient(seconds, false);
        self.wait(Barrier::start(tag))?;
        self.carrier.be_patient(seconds, true);
        Ok(())
    }

    /// This rank fails: all others are told why, and nobody goes on.
    pub fn fail(&self, why: &str) {
        self.tell(&Parcel::Failed(why.to_owned()));
    }

    /// This rank has sent all that it ever will.
    pub fn end(&self) {
        self.tell(&Parcel::Ended);
    }

    fn tell(&self, parcel: &Parcel) {
        for to in (0..self.size).filter(|to| *to != self.rank) {
            // Whoever cannot be told any more has ended, too, or is told by others.
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
            // It may refuse because of what broke after the check, which says more.
            Err(refused) => return self.inbox.check().and(Err(refused)),
        }
        self.sent.add(bytes);
        Ok(())
    }
}
