//! Sequential reading, with ranges requested before they are read.
//!
//! The first range is small, since many readers need only the beginning; after each range that is
//! read completely, more and larger ones are requested, up to the limits.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use stepwell_base::objects::ObjectAbout;
use tokio::task::JoinHandle;

use crate::fault::Fault;
use crate::place::Place;
use crate::range;
use crate::runtime::{Inner, until_stop};

/// Bytes of the first range; each following one is eight times as large, up to the limit.
const FIRST_BYTES: u64 = 64 << 10;

/// A reader of one object.
pub(crate) struct Ahead {
    inner: Arc<Inner>,
    place: Place,
    about: ObjectAbout,
    /// The first byte not requested yet.
    next: u64,
    /// Bytes of the next range to request.
    size: u64,
    /// The most ranges in flight.
    allowed: usize,
    asked: VecDeque<JoinHandle<Result<Vec<u8>, Fault>>>,
    /// The current range, and how much of it was read.
    at: Vec<u8>,
    read: usize,
}

impl Ahead {
    pub(crate) fn new(inner: Arc<Inner>, place: Place, about: ObjectAbout, start: u64) -> Self {
        let size = FIRST_BYTES.min(inner.clients.limits.range_bytes);
        let (asked, at) = (VecDeque::new(), Vec::new());
        Self { inner, place, about, next: start, size, allowed: 1, asked, at, read: 0 }
    }

    /// Requests ranges up to the limit.
    fn ask(&mut self) {
        let limits = &self.inner.clients.limits;
        while self.asked.len() < self.allowed && self.next < self.about.bytes {
            let range = self.next..(self.next + self.size).min(self.about.bytes);
            self.next = range.end;
            self.size = (self.size * 8).min(limits.range_bytes);
            let (inner, place, about) =
                (Arc::clone(&self.inner), self.place.clone(), self.about.clone());
            self.asked.push_back(
                self.inner.runtime.spawn(async move {
                    range::whole(&inner.clients, &place, &about, range).await
                }),
            );
        }
        self.allowed = (self.allowed * 2).min(limits.ranges);
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.read == self.at.len() {
            (self.at, self.read) = (Vec::new(), 0);
            self.ask();
            let Some(first) = self.asked.pop_front() else { return Ok(0) };
            let joined = self.inner.runtime.block_on(until_stop(first))?;
            self.at = joined.map_err(std::io::Error::other)??;
        }
        let bytes = (&self.at[self.read..]).read(into)?;
        self.read += bytes;
        Ok(bytes)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.asked.iter().for_each(JoinHandle::abort);
    }
}
