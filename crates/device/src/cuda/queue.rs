//! Streams and events of a device: what they were given, and what is over of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::calls::{Called, Event, Fault, Stream};
use super::held::{Line, Lines};
use super::streams;
use crate::driver::{Keeps, STREAM_OPERATIONS_MAX};

/// Operations from one mark of a stream to the next.
const MARK_EVERY: u64 = STREAM_OPERATIONS_MAX as u64 / 8;

/// A stream.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) stream: Stream,
    line: Arc<Line>,
    /// Held by whoever gives the stream anything.
    marks: Mutex<Marks>,
}

/// Events of the stream's own, which say how far it is where nobody else records any.
#[derive(Debug, Default)]
struct Marks {
    /// Those that may not be over, with the last number before each.
    set: VecDeque<(u64, Event)>,
    spare: Vec<Event>,
    /// The last number before any mark that there was.
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

    /// Begins an operation that needs `keeps`; waits while the stream holds as many as it may.
    ///
    /// # Errors
    /// Those of `begin`, and what failed on the way.
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

    /// Lets nobody else give the stream anything while `work` is done with it.
    pub(super) fn alone<T>(&self, work: impl FnOnce(Stream) -> T) -> T {
        let _marks = self.marks();
        work(self.stream)
    }

    /// Waits while the stream holds as many operations as it may.
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

    /// Sets a mark where it is time for one.
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

    /// Lets go of what is over, as far as marks tell.
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

    /// Waits until all is over, and ends the stream; what failed goes with it.
    pub(super) fn end(&self, lines: &Lines) {
        let marks = &mut *self.marks();
        let _ = streams::finish(self.stream);
        lines.let_go(&self.line, u64::MAX);
        let set = marks.set.drain(..).map(|(_, event)| event);
        set.chain(marks.spare.drain(..)).for_each(streams::end_event);
        streams::end_stream(self.stream);
    }
}

/// An event, and what it stands for.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) event: Event,
    /// The line in which it was recorded last, and the last number before it.
    last: Mutex<Option<(Arc<Line>, u64)>>,
}

impl Moment {
    pub(super) fn new() -> Called<Self> {
        Ok(Self { event: streams::event()?, last: Mutex::default() })
    }

    fn last(&self) -> MutexGuard<'_, Option<(Arc<Line>, u64)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It stands for all that `queue` was given so far.
    pub(super) fn record(&self, queue: &Queue, lines: &Lines) -> Called<()> {
        let mut last = self.last();
        let marks = &mut *queue.marks();
        streams::record(self.event, queue.stream)?;
        *last = Some((Arc::clone(&queue.line), queue.line.last()));
        drop(last);
        queue.look(lines, marks)
    }

    /// What `queue` is given from now on begins after what it stands for now.
    pub(super) fn wait_in(&self, queue: &Queue, lines: &Lines) -> Called<()> {
        let last = self.last();
        let Some((line, number)) = &*last else { return Ok(()) };
        if line.is_over(*number) {
            return Ok(());
        }
        // A stream is behind itself anyway.
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
            // Who recorded it anew meanwhile, in another stream, would have had us wait for that.
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
