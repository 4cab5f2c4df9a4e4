//! The request to end a run soon and cleanly, made by a signal, a scheduler or a test.
//!
//! Working threads check it between pieces of work; sleeping ones are woken through registered
//! events; readers of files wait for both ([`StopRequest::wait_readable`]).

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::queue::Events;

/// The request that signals to this process make.
static OF_PROCESS: LazyLock<StopRequest> = LazyLock::new(StopRequest::new);

/// A request to stop; clones share it. It is made once and never withdrawn.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<State>);

#[derive(Debug, Default)]
struct State {
    made: AtomicBool,
    /// The request that this one is part of, if any.
    whole: Option<StopRequest>,
    waiters: Mutex<Vec<Weak<Events>>>,
    /// A pipe whose writing end closes when the request is made; `None` until someone waits for a
    /// file.
    pipe: Mutex<Option<(Arc<PipeReader>, PipeWriter)>>,
}

impl StopRequest {
    /// A request that is not made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The request of this process, made by signals. Waiting for outside input (streams, objects
    /// behind URLs) ends with it.
    pub fn of_process() -> Self {
        OF_PROCESS.clone()
    }

    /// A request to stop a part of the work: made alone, or with this one. Waiting for files ends
    /// with this one only.
    pub fn of_part(&self) -> Self {
        Self(Arc::new(State { whole: Some(self.clone()), ..State::default() }))
    }

    /// Makes the request and wakes sleeping threads.
    pub fn make(&self) {
        self.0.made.store(true, Ordering::Release);
        drop(self.0.pipe.lock().unwrap_or_else(PoisonError::into_inner).take());
        let waiters = self.0.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.iter().filter_map(Weak::upgrade).for_each(|events| events.notify());
    }

    /// Whether it was made.
    pub fn is_made(&self) -> bool {
        let own = self.0.made.load(Ordering::Acquire);
        own || self.0.whole.as_ref().is_some_and(Self::is_made)
    }

    /// Notifies `events` once the request is made.
    pub fn notifies(&self, events: &Arc<Events>) {
        self.0.whole.iter().for_each(|whole| whole.notifies(events));
        let mut waiters = self.0.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|known| known.strong_count() > 0);
        waiters.push(Arc::downgrade(events));
    }

    /// Waits until `file` has data or has ended; `false` once the request is made.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn wait_readable(&self, file: BorrowedFd<'_>) -> io::Result<bool> {
        if let Some(whole) = &self.0.whole {
            return whole.wait_readable(file);
        }
        while let Some(pipe) = self.pipe()? {
            let mut both = [PollFd::new(&file, PollFlags::IN), PollFd::new(&*pipe, PollFlags::IN)];
            match poll(&mut both, None) {
                Err(Errno::INTR) => {}
                polled => drop(polled?),
            }
            if !both[1].revents().is_empty() {
                return Ok(false);
            }
            if !both[0].revents().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The reading end of a pipe that becomes readable (closed) when the request is made; `None` if
    /// it is already made.
    fn pipe(&self) -> io::Result<Option<Arc<PipeReader>>> {
        let mut pipe = self.0.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        // Checked under the lock, because a request removes the pipe right after it is made.
        if self.is_made() {
            return Ok(None);
        }
        if pipe.is_none() {
            let (reader, writer) = io::pipe()?;
            *pipe = Some((Arc::new(reader), writer));
        }
        Ok(pipe.as_ref().map(|(reader, _)| Arc::clone(reader)))
    }

    /// The error of a read that was abandoned because a stop was requested.
    pub fn error() -> io::Error {
        io::Error::other("reading was stopped on request")
    }
}

impl PartialEq for StopRequest {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_reader_waits_for_bytes_an_end_or_the_request() {
        let (reader, mut writer) = io::pipe().unwrap();
        let stop = StopRequest::new();
        writer.write_all(b"here").unwrap();
        assert!(stop.wait_readable(reader.as_fd()).unwrap());
        let (ended, _) = io::pipe().unwrap();
        assert!(stop.wait_readable(ended.as_fd()).unwrap());
        let (silent, _writer) = io::pipe().unwrap();
        std::thread::scope(|scope| {
            let waiters = [0; 3].map(|_| scope.spawn(|| stop.wait_readable(silent.as_fd())));
            stop.make();
            for waiter in waiters {
                assert!(!waiter.join().unwrap().unwrap());
            }
        });
        assert!(!stop.wait_readable(reader.as_fd()).unwrap());
    }

    #[test]
    fn a_request_reaches_clones_and_sleepers() {
        let (stop, events) = (StopRequest::new(), Events::new());
        stop.notifies(&events);
        stop.notifies(&Events::new());
        let seen = events.count();
        assert!(!stop.is_made());
        std::thread::scope(|scope| {
            scope.spawn(|| events.wait_past(seen));
            stop.clone().make();
        });
        assert!(stop.is_made() && events.count() > seen);
        assert!(stop == stop.clone() && stop != StopRequest::new());
    }

    #[test]
    fn a_part_stops_alone_or_with_the_whole() {
        let (whole, events) = (StopRequest::new(), Events::new());
        let (part, other) = (whole.of_part(), whole.of_part());
        part.make();
        assert!(part.is_made() && !whole.is_made() && !other.is_made());
        other.notifies(&events);
        let seen = events.count();
        whole.make();
        assert!(other.is_made() && events.count() > seen);
        let (silent, _writer) = io::pipe().unwrap();
        assert!(!other.wait_readable(silent.as_fd()).unwrap());
    }
}
