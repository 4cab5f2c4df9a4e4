//! Streams and events of a device: their operations, and which operations are over.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::calls::{Called, Event, Fault, Stream};
use super::held::{Line, Lines};
use super::streams;
use crate::driver::{Keeps, STREAM_OPERATIONS_MAX};

/// Number of operations between marks of a stream.
const MARK_EVERY: u64 = STREAM_OPERATIONS_MAX as u64 / 8;

/// A stream.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) stream: Stream,
    line: Arc<Line>,
    /// Held while anything is submitted to the stream.
    marks: Mutex<Marks>,
}

/// The stream's own events, which show its progress even if nobody else records any.
#[derive(Debug, Default)]
struct Marks {
    /// Marks that may not be over, with the number of the last operation before each.
    set: VecDeque<(u64, Event)>,
    spare: Vec<Event>,
    /// Number of the last operation before any mark.
    marked: u64,
}

impl Queue {
    pub(super) fn new() -> Called<Self> {
        let stream = streams::stream()?;
        Ok(Self { stream, line: Arc::default(), marks: Mutex::default() })
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation that needs `keeps`; waits while the stream is full.
    ///
    /// # Errors
    /// Errors of `begin`, and earlier failures.
    pub(super) fn give<E>(
        &self,
        lines: &Lines,
        keeps: Keeps,
        begin: impl FnOnce(Stream) -> Result<(), E>,
    ) -> Result<(), E>
    where
        E: From<Fault>,
    {
        let marks = &mut *self.marks();
        self.make_room(lines, marks)?;
        begin(self.stream)?;
        self.line.keep(keeps);
        self.mark(lines, marks)?;
        Ok(())
    }

    /// Runs `work` while nobody else can submit to the stream.
    pub(super) fn alone<T>(&self, work: impl FnOnce(Stream) -> T) -> T {
        let _marks = self.marks();
        work(self.stream)
    }

    /// Waits while the stream is full.
    fn make_room(&self, lines: &Lines, marks: &mut Marks) -> Called<()> {
        while self.line.under_way() >= STREAM_OPERATIONS_MAX as u64 {
            let Some((number, mark)) = marks.set.pop_front() else { break };
            let waited = streams::wait(mark);
            marks.spare.push(mark);
            waited?;
            lines.let_go(&self.line, number);
        }
        Ok(())
    }

    /// Sets a mark if it is time for one.
    fn mark(&self, lines: &Lines, marks: &mut Marks) -> Called<()> {
        let number = self.line.last();
        if number - marks.marked < MARK_EVERY {
            return Ok(());
        }
        let event = marks.spare.pop().map_or_else(streams::event, Ok)?;
        let recorded = streams::record(event, self.stream);
        match recorded {
            Ok(()) => marks.set.push_back((number, event)),
            Err(_) => marks.spare.push(event),
        }
        recorded?;
        marks.marked = number;
        self.look(lines, marks)
    }

    /// Releases the memory of operations up to the last mark that is over.
    fn look(&self, lines: &Lines, marks: &mut Marks) -> Called<()> {
        while let Some((number, mark)) = marks.set.front().copied() {
            if !self.line.is_over(number) && !streams::is_over(mark)? {
                break;
            }
            marks.spare.extend(marks.set.pop_front().map(|(_, event)| event));
            lines.let_go(&self.line, number);
        }
        Ok(())
    }

    /// Waits until all operations are over, and ends the stream; ignores failures.
    pub(super) fn end(&self, lines: &Lines) {
        let marks = &mut *self.marks();
        let _ = streams::finish(self.stream);
        lines.let_go(&self.line, u64::MAX);
        let set = marks.set.drain(..).map(|(_, event)| event);
        set.chain(marks.spare.drain(..)).for_each(streams::end_event);
        streams::end_stream(self.stream);
    }
}

/// An event and its last recording.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) event: Event,
    /// The line in which it was last recorded, and the number of the last operation before it.
    last: Mutex<Option<(Arc<Line>, u64)>>,
}

impl Moment {
    pub(super) fn new() -> Called<Self> {
        Ok(Self { event: streams::event()?, last: Mutex::default() })
    }

    fn last(&self) -> MutexGuard<'_, Option<(Arc<Line>, u64)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the event after all operations submitted to `queue`.
    pub(super) fn record(&self, queue: &Queue, lines: &Lines) -> Called<()> {
        let mut last = self.last();
        let marks = &mut *queue.marks();
        streams::record(self.event, queue.stream)?;
        *last = Some((Arc::clone(&queue.line), queue.line.last()));
        drop(last);
        queue.look(lines, marks)
    }

    /// Makes later operations of `queue` wait for this event.
    pub(super) fn wait_in(&self, queue: &Queue, lines: &Lines) -> Called<()> {
        let last = self.last();
        let Some((line, number)) = &*last else { return Ok(()) };
        if line.is_over(*number) {
            return Ok(());
        }
        // A stream follows itself anyway.
        if Arc::ptr_eq(line, &queue.line) {
            return Ok(());
        }
        let marks = &mut *queue.marks();
        queue.make_room(lines, marks)?;
        streams::wait_in(queue.stream, self.event)?;
        queue.line.follow(line, *number);
        queue.mark(lines, marks)
    }

    pub(super) fn is_over(&self, lines: &Lines) -> Called<bool> {
        let last = self.last();
        let Some((line, number)) = &*last else { return Ok(true) };
        let over = streams::is_over(self.event)?;
        if over {
            lines.let_go(line, *number);
        }
        Ok(over)
    }

    pub(super) fn wait(&self, lines: &Lines) -> Called<()> {
        loop {
            let Some((line, number)) = self.last().clone() else { return Ok(()) };
            streams::wait(self.event)?;
            // If it was recorded in another stream in the meantime, this waited for that recording.
            let last = self.last();
            let same = |(now, now_number): &(Arc<Line>, u64)| {
                Arc::ptr_eq(now, &line) && *now_number == number
            };
            if last.as_ref().is_some_and(same) {
                lines.let_go(&line, number);
                return Ok(());
            }
        }
    }
}
