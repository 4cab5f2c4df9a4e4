//! Orders events by time, ties by creation.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Future events.
#[derive(Debug)]
pub struct Agenda<W> {
    events: BinaryHeap<Event<W>>,
    made: u64,
}

/// The earliest event is the greatest; of events at the same time, the first created.
#[derive(Debug)]
struct Event<W> {
    at: f64,
    number: u64,
    what: W,
}

impl<W> Default for Agenda<W> {
    fn default() -> Self {
        Self { events: BinaryHeap::new(), made: 0 }
    }
}

impl<W> Agenda<W> {
    /// Schedules `what` at a time in seconds.
    pub fn add(&mut self, at: f64, what: W) {
        self.events.push(Event { at, number: self.made, what });
        self.made += 1;
    }

    /// The next event and its time.
    pub fn take_next(&mut self) -> Option<(f64, W)> {
        self.events.pop().map(|event| (event.at, event.what))
    }
}

impl<W> PartialEq for Event<W> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<W> Eq for Event<W> {}

impl<W> PartialOrd for Event<W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> Ord for Event<W> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_they_were_made() {
        let mut agenda = Agenda::default();
        for (at, what) in [(2.0, 'c'), (1.0, 'a'), (2.0, 'd'), (1.5, 'b')] {
            agenda.add(at, what);
        }
        let order: Vec<(f64, char)> = std::iter::from_fn(|| agenda.take_next()).collect();
        assert_eq!(order, [(1.0, 'a'), (1.5, 'b'), (2.0, 'c'), (2.0, 'd')]);
    }
}
