//! Where parcels arrive: messages by sender and tag until they are taken, windows, and lost ranks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytemuck::Pod;
use stepwell_base::queue::Events;
use tracing::error;

use crate::carrier::{Parcel, Tag, WindowNumber};
use crate::message::{Malformed, Message};
use crate::window::Window;
use crate::{Error, Result};

/// The most messages of one sender and tag that may wait to be taken.
pub const QUEUED_MAX: usize = 64;
/// The most messages whose buffers are kept for reuse.
pub const SPARES_MAX: usize = 64;

/// The inbox of a rank, which the carriers of others put into.
#[derive(Debug)]
pub struct Inbox {
    state: Mutex<State>,
    waiters: Mutex<Vec<Weak<Events>>>,
    spares: Mutex<Spares>,
}

/// Buffers of taken messages.
#[derive(Debug)]
struct Spares {
    messages: Vec<Message>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct State {
    /// By sender.
    messages: Vec<BTreeMap<Tag, VecDeque<Message>>>,
    windows: BTreeMap<WindowNumber, Window>,
    /// Senders that ended normally.
    ended: Vec<bool>,
    /// The first reason why ranks cannot continue together.
    broken: Option<Error>,
}

impl Inbox {
    /// An inbox for parcels of `size` ranks.
    pub fn new(size: usize) -> Arc<Self> {
        let state = State {
            messages: vec![BTreeMap::new(); size],
            windows: BTreeMap::new(),
            ended: vec![false; size],
            broken: None,
        };
        let spares = Spares { messages: Vec::new(), bytes: 0, bytes_max: usize::MAX };
        let (waiters, spares) = (Mutex::default(), Mutex::new(spares));
        Arc::new(Self { state: Mutex::new(state), waiters, spares })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers a parcel of rank `from`.
    pub fn deliver(&self, from: usize, parcel: Parcel) {
        self.put(from, parcel);
        self.notify();
    }

    /// Delivers a parcel without notifying anyone.
    pub(crate) fn put(&self, from: usize, parcel: Parcel) {
        let mut state = self.lock();
        match parcel {
            Parcel::Message(tag, message) => {
                let queue = state.messages[from].entry(tag).or_default();
                queue.push_back(message);
                let count = queue.len();
                if count > QUEUED_MAX {
                    state.breaks(Error::Flooded { rank: from, tag: tag.0, count });
                }
            }
            Parcel::Put(window, offset, message) => {
                if let Err(why) = state.put(window, offset, &message) {
                    state.breaks(Error::malformed(from, why));
                }
                self.keep(message);
            }
            Parcel::Failed(why) => state.breaks(Error::Failed { rank: from, why }),
            Parcel::Ended => state.ended[from] = true,
        }
    }

    /// Reports that rank `rank` vanished: no rank continues.
    pub fn lost(&self, rank: usize, why: &str) {
        self.lock().breaks(Error::Lost { rank, why: why.to_owned() });
        self.notify();
    }

    /// Records why ranks cannot continue, unless there is an earlier reason.
    #[cfg(feature = "mpi")]
    pub(crate) fn breaks(&self, error: Error) {
        self.lock().breaks(error);
        self.notify();
    }

    /// The next message of rank `from` under `tag`, if it has arrived.
    pub(crate) fn take(&self, from: usize, tag: Tag) -> Result<Option<Message>> {
        let mut state = self.lock();
        state.broken.clone().map_or(Ok(()), Err)?;
        let next = state.messages[from].get_mut(&tag).and_then(VecDeque::pop_front);
        if next.is_none() && state.ended[from] {
            return Err(Error::Ended { rank: from });
        }
        Ok(next)
    }

    /// Reports why ranks cannot continue, if they cannot.
    pub(crate) fn check(&self) -> Result<()> {
        self.lock().broken.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn open_window(&self, window: WindowNumber, bytes: usize) {
        let twice = self.lock().windows.insert(window, Window::new(bytes));
        assert!(twice.is_none(), "window {} was opened twice", window.0);
    }

    /// Calls `at` with a window, which is open.
    pub(crate) fn at_window<R>(
        &self,
        window: WindowNumber,
        at: impl FnOnce(&mut Window) -> R,
    ) -> R {
        let mut state = self.lock();
        let Some(window) = state.windows.get_mut(&window) else {
            unreachable!("window {} is not open", window.0)
        };
        at(window)
    }

    /// Copies values out of a window.
    pub(crate) fn read<T: Pod>(&self, window: WindowNumber, offset: usize, values: &mut [T]) {
        self.at_window(window, |window| window.read(offset, values));
    }

    /// Notifies `events` of every arrival, as long as they have another owner.
    pub(crate) fn wakes(&self, events: &Arc<Events>) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|known| known.strong_count() > 0);
        waiters.push(Arc::downgrade(events));
    }

    /// Notifies all waiting threads of an arrival.
    pub(crate) fn notify(&self) {
        let waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let waiters: Vec<_> = waiters.iter().filter_map(Weak::upgrade).collect();
        // No lock of the state is held: a woken thread may take this thread's core at once.
        waiters.iter().for_each(|events| events.notify());
    }

    /// An empty message in the smallest spare buffer with `bytes` bytes, so that small messages do
    /// not take large buffers; in a new one if none fits, up to an eighth larger so that it fits
    /// the next message, too.
    pub fn spare(&self, bytes: usize) -> Message {
        let mut spares = self.spares();
        let all = spares.messages.iter().enumerate();
        let fit = all.filter(|(_, message)| message.capacity() >= bytes);
        let Some((place, _)) = fit.min_by_key(|(_, message)| message.capacity()) else {
            let eighth = (bytes / 8).next_power_of_two().max(64);
            return Message::with_capacity(bytes.next_multiple_of(eighth));
        };
        let message = spares.messages.swap_remove(place);
        spares.bytes -= message.capacity();
        message
    }

    /// Keeps the message's buffer for reuse, if there is room.
    pub fn keep(&self, mut message: Message) {
        message.clear();
        let (mut spares, bytes) = (self.spares(), message.capacity());
        let fits = spares.bytes + bytes <= spares.bytes_max;
        if spares.messages.len() < SPARES_MAX && bytes > 0 && fits {
            spares.bytes += bytes;
            spares.messages.push(message);
        }
    }

    /// Limits the kept buffers to `bytes` bytes.
    pub(crate) fn keep_at_most(&self, bytes: usize) {
        self.spares().bytes_max = bytes;
    }

    fn spares(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn breaks(&mut self, error: Error) {
        if self.broken.is_none() {
            error!(%error, "ranks cannot continue together");
            self.broken = Some(error);
        }
    }

    fn put(
        &mut self,
        window: WindowNumber,
        offset: u64,
        message: &Message,
    ) -> std::result::Result<(), Malformed> {
        let bytes = message.reader().take::<u8>()?;
        let window = self.windows.get(&window);
        window.ok_or(Malformed::Wrong("it is for a window that is not open"))?.put(offset, bytes)
    }
}
