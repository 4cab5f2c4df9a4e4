//! Requests of the application, which it polls or waits for, and the buffers that it receives.

use std::sync::Arc;
use std::task::Poll;

use stepwell_device::{Buffer, Stream};

use crate::memory::{Piece, Store, bytes_counted};
use crate::operation::{Acquire, Fetch, What};
use crate::request_line::Served;
use crate::state::{Reclaim, Shared};
use crate::{Error, Result};

/// A pending request. Dropping it cancels it.
#[derive(Debug)]
#[must_use = "dropping a request cancels it"]
pub struct Request {
    shared: Arc<Shared>,
    acquire: Acquire,
    kind: Asked,
    /// Time of the request.
    since: f64,
    /// Whether it was not ready at the first poll.
    waited: bool,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Ticket(u64),
    /// In a virtual iteration, the operation at this place.
    Virtual(usize),
    /// The application has taken the buffer.
    Over,
}

impl Request {
    pub(crate) fn ticket(shared: &Arc<Shared>, acquire: Acquire, ticket: u64) -> Self {
        let (since, kind) = (shared.clock.seconds(), Asked::Ticket(ticket));
        Self { shared: Arc::clone(shared), acquire, kind, since, waited: false }
    }

    pub(crate) fn recorded(shared: &Arc<Shared>, acquire: Acquire, place: usize) -> Self {
        let kind = Asked::Virtual(place);
        Self { shared: Arc::clone(shared), acquire, kind, since: 0.0, waited: false }
    }

    /// The buffer, if it is ready.
    ///
    /// # Errors
    /// Why it never will be ready.
    pub fn poll(&mut self) -> Result<Poll<Access>> {
        let state = &mut *self.shared.lock();
        state.check()?;
        let access = |held| Access {
            shared: Arc::clone(&self.shared),
            acquire: self.acquire.clone(),
            held: Some(held),
            is_used: false,
        };
        let ticket = match self.kind {
            Asked::Virtual(place) => {
                self.kind = Asked::Over;
                return Ok(Poll::Ready(access(Held::Virtual(place))));
            }
            Asked::Over => return Err(Error::call("poll", "the buffer was already taken")),
            Asked::Ticket(ticket) => ticket,
        };
        let Some(outcome) = state.line.take(ticket) else {
            self.waited = true;
            return Ok(Poll::Pending);
        };
        self.kind = Asked::Over;
        if self.waited {
            let seconds = self.shared.clock.seconds() - self.since;
            state.statistics.waited(self.acquire.what, seconds);
        }
        let (_, served) = outcome.inspect_err(|_| {
            state.held -= 1;
            if let Some(local) = self.acquire.local() {
                state.locals[local].is_held = false;
            }
        })?;
        let bytes = bytes_counted(served.piece.floats());
        if served.is_lent {
            state.statistics.handed_out += 1;
        } else {
            state.taken_bytes += bytes;
        }
        if let What::Local(_, Fetch::NoFetch) = self.acquire.what {
            state.statistics.fetches_avoided += u64::from(!served.is_lent);
            state.statistics.fetch_bytes_avoided += if served.is_lent { 0 } else { bytes };
        }
        Ok(Poll::Ready(access(Held::Served(served))))
    }

    /// Waits until the buffer is ready.
    ///
    /// # Errors
    /// Why it never will be ready.
    pub fn wait(mut self) -> Result<Access> {
        let events = Arc::clone(&self.shared.events);
        loop {
            let seen = events.count();
            if let Poll::Ready(access) = self.poll()? {
                return Ok(access);
            }
            self.shared.check()?;
            events.wait_past(seen);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Asked::Ticket(ticket) = self.kind else { return };
        let state = &mut *self.shared.lock();
        let Some(waiting) = state.line.cancel(ticket) else { return };
        state.held -= 1;
        if let Some(Ok(served)) = waiting.outcome {
            state.undo(&waiting.acquire, served);
        }
        if let Some(local) = self.acquire.local() {
            state.locals[local].is_held = false;
        }
        self.shared.events.notify();
    }
}

/// A buffer that the application holds until it gives it back. Dropping it gives it back without
/// its values: nothing is updated, and local data that is not pinned is unchanged. On a device,
/// dropping a buffer that a stream may still use is an error that ends all ranks.
#[derive(Debug)]
pub struct Access {
    pub(crate) shared: Arc<Shared>,
    pub(crate) acquire: Acquire,
    held: Option<Held>,
    /// Whether `on` was called without a later `done_on`.
    is_used: bool,
}

#[derive(Debug)]
pub(crate) enum Held {
    Served(Served),
    Virtual(usize),
}

impl Access {
    /// Whether the access belongs to a virtual iteration, and has no memory.
    pub fn is_virtual(&self) -> bool {
        matches!(self.held, Some(Held::Virtual(_)))
    }

    /// Number of floats: one row for each key, one after another.
    pub fn floats(&self) -> usize {
        match &self.held {
            Some(Held::Served(served)) => served.piece.floats(),
            _ => 0,
        }
    }

    /// Data age of a buffer of [`Geeps::read`](crate::Geeps::read): it has all updates of all
    /// workers of that many clocks, and perhaps some of later ones.
    pub fn data_age(&self) -> u64 {
        match &self.held {
            Some(Held::Served(served)) => served.age,
            _ => 0,
        }
    }

    fn piece(&mut self, call: &'static str) -> Result<&mut Piece> {
        match &mut self.held {
            Some(Held::Served(served)) => Ok(&mut served.piece),
            _ => Err(Error::call(call, "an access of a virtual iteration has no memory")),
        }
    }

    /// Values in host memory. // (keys, row_floats)
    ///
    /// # Errors
    /// If the buffer is in memory of a device, or virtual.
    pub fn values(&mut self) -> Result<&mut [f32]> {
        match self.piece("values")? {
            Piece::Host(values) => Ok(values),
            Piece::Device(_) => Err(Error::call("values", "the buffer is on a device: use `on`")),
        }
    }

    /// Memory on a device, for later operations of `stream`, to be followed by
    /// [`Access::done_on`]. // (keys, row_floats)
    ///
    /// # Errors
    /// If the buffer is in host memory, or virtual, or the device failed.
    pub fn on(&mut self, stream: &Stream) -> Result<&Buffer<f32>> {
        if !matches!(self.piece("on")?, Piece::Device(_)) {
            return Err(Error::call("on", "the buffer is on the host: use `values`"));
        }
        self.is_used = true;
        match self.piece("on")? {
            Piece::Device(piece) => {
                piece.after.iter().try_for_each(|event| stream.wait(event))?;
                Ok(&piece.buffer)
            }
            Piece::Host(_) => unreachable!("the buffer is on a device"),
        }
    }

    /// Marks the operations that `stream` has so far as its last on this memory: the next user
    /// waits for them.
    ///
    /// # Errors
    /// If the device failed.
    pub fn done_on(&mut self, stream: &Stream) -> Result<()> {
        let event = self.shared.lock().memory.event()?;
        match (self.piece("done_on")?, event) {
            (Piece::Device(piece), Some(event)) => {
                stream.record(&event)?;
                piece.add(Arc::new(event))?;
                self.is_used = false;
                Ok(())
            }
            _ => Err(Error::call("done_on", "the buffer is on the host")),
        }
    }

    /// Checks that no stream uses it.
    ///
    /// # Errors
    /// If a stream may.
    pub(crate) fn check_unused(&self, call: &'static str) -> Result<()> {
        let why = "a stream uses the buffer: call `done_on` before returning it";
        if self.is_used { Err(Error::call(call, why)) } else { Ok(()) }
    }

    /// Takes out its content to give it back.
    pub(crate) fn give(mut self) -> Option<Held> {
        self.held.take()
    }

    pub(crate) fn what(&self) -> What {
        self.acquire.what
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let Some(Held::Served(served)) = self.held.take() else { return };
        if let Err(error) = self.check_unused("drop") {
            // The next user would not know when it may be used.
            self.shared.fail(&error);
        }
        let state = &mut *self.shared.lock();
        state.released(&self.acquire, &served);
        let reclaim = match self.acquire.local() {
            Some(_) => Reclaim::Local(self.acquire.clone(), served, crate::operation::Save::NoSave),
            None => Reclaim::Buffer(served.piece),
        };
        state.give_back(reclaim);
        self.shared.events.notify();
    }
}

impl crate::state::State {
    /// Records that the application gave an access back.
    pub(crate) fn released(&mut self, acquire: &Acquire, served: &Served) {
        self.held -= 1;
        if !served.is_lent {
            self.taken_bytes -= bytes_counted(served.piece.floats());
        }
        if let Some(local) = acquire.local() {
            self.locals[local].is_held = false;
            assert!(
                !served.is_lent || matches!(self.locals[local].store, Store::Lent),
                "local data is lent only once"
            );
        }
    }
}
