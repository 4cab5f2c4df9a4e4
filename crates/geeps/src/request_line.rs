//! The line of requests for buffers: the application's, and behind them foreseen ones.
//!
//! ```text
//!   front                                                      back
//!   asked, served │ asked │ foreseen, served │ foreseen │ foreseen
//!        └ taken by the application as soon as it looks
//! ```
//!
//! - **Invariants.** Requests precede all that is only foreseen, and are served in this order: so
//!   foreseen accesses never hold memory that a request needs. If the application requests the
//!   first foreseen access, that becomes its request, served or not; if it requests anything else,
//!   all foreseen accesses are given back first.

use std::collections::VecDeque;

use stepwell_base::Key;

use crate::memory::Piece;
use crate::operation::{Acquire, What};
use crate::sequence::Foreseen;
use crate::{Error, Result};

/// A buffer for an access.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) piece: Piece,
    /// Whether this is local data in place, and not an access buffer.
    pub(crate) is_lent: bool,
    /// For a read, the data age of its table when it was served; else 0.
    pub(crate) age: u64,
}

/// A waiting request.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) acquire: Acquire,
    /// Clock of the table at the time of the request.
    pub(crate) clock: u64,
    /// Place in the sequence, if the request was foreseen.
    pub(crate) place: Option<usize>,
    /// Ticket of the application's request, once it has been made.
    pub(crate) ticket: Option<u64>,
    pub(crate) outcome: Option<Result<Served>>,
}

/// All waiting requests, in order.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) waiting: VecDeque<Waiting>,
    last_ticket: u64,
}

impl Line {
    fn first_foreseen(&self) -> usize {
        self.waiting.iter().take_while(|waiting| waiting.ticket.is_some()).count()
    }

    pub(crate) fn foreseen(&self) -> usize {
        self.waiting.len() - self.first_foreseen()
    }

    pub(crate) fn push_foreseen(&mut self, foreseen: Foreseen) {
        let Foreseen { acquire, clock, place } = foreseen;
        let (ticket, outcome) = (None, None);
        self.waiting.push_back(Waiting { acquire, clock, place: Some(place), ticket, outcome });
    }

    /// Claims the first foreseen access for a request of the application at this clock, if it
    /// matches; returns its ticket.
    pub(crate) fn claim(
        &mut self,
        what: What,
        keys: &[Key],
        clock: Option<u64>,
    ) -> Option<(u64, Acquire)> {
        let at = self.first_foreseen();
        let first = self.waiting.get_mut(at)?;
        if !first.acquire.is(what, keys) || clock.is_some_and(|clock| clock != first.clock) {
            return None;
        }
        self.last_ticket += 1;
        first.ticket = Some(self.last_ticket);
        Some((self.last_ticket, first.acquire.clone()))
    }

    /// Removes all that is foreseen.
    pub(crate) fn drop_foreseen(&mut self) -> VecDeque<Waiting> {
        let at = self.first_foreseen();
        self.waiting.split_off(at)
    }

    /// Adds a request of the application that was not foreseen.
    pub(crate) fn ask(&mut self, acquire: Acquire, clock: u64) -> u64 {
        assert_eq!(self.foreseen(), 0, "foreseen requests were returned before");
        self.last_ticket += 1;
        let (place, ticket) = (None, Some(self.last_ticket));
        self.waiting.push_back(Waiting { acquire, clock, place, ticket, outcome: None });
        self.last_ticket
    }

    /// The outcome of a request, once there is one.
    pub(crate) fn take(&mut self, ticket: u64) -> Option<Result<(Acquire, Served)>> {
        let is_it = |waiting: &Waiting| waiting.ticket == Some(ticket);
        let at = self.waiting.iter().position(is_it)?;
        let outcome = self.waiting[at].outcome.take()?;
        let waiting = self.waiting.remove(at);
        let acquire = waiting.map(|waiting| waiting.acquire);
        acquire.map(|acquire| outcome.map(|served| (acquire, served)))
    }

    /// Whether the application waits for a read of this table.
    pub(crate) fn reads(&self, table: usize) -> bool {
        self.waiting.iter().take_while(|waiting| waiting.ticket.is_some()).any(|waiting| {
            waiting.outcome.is_none()
                && matches!(waiting.acquire.what, What::Read(of, _) if of == table)
        })
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, ticket: u64) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.ticket == Some(ticket))?;
        self.waiting.remove(at)
    }

    /// The first request that was not served.
    pub(crate) fn next(&self) -> Option<usize> {
        self.waiting.iter().position(|waiting| waiting.outcome.is_none())
    }

    pub(crate) fn fail(&mut self, at: usize, error: Error) {
        self.waiting[at].outcome = Some(Err(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Staleness;
    use crate::layout::{Index, Rows};

    fn acquire(table: usize) -> Acquire {
        let rows = Rows::new("rows", 2, vec![Key(0)]).unwrap();
        let index = Index::new("rows", &rows, &[Key(0)]).unwrap();
        Acquire { what: What::Read(table, Staleness::BSP), index }
    }

    fn served() -> Served {
        Served { piece: Piece::Host(vec![0.0; 2]), is_lent: false, age: 0 }
    }

    #[test]
    fn who_asks_for_the_first_of_what_is_foreseen_has_it_and_who_does_not_stands_before_it() {
        let mut line = Line::default();
        for (place, clock) in [(0, 3), (1, 3), (2, 4)] {
            line.push_foreseen(Foreseen { acquire: acquire(place), clock, place });
        }
        line.waiting[0].outcome = Some(Ok(served()));
        let claim = |line: &mut Line, table, clock| {
            line.claim(What::Read(table, Staleness::BSP), &[Key(0)], clock)
        };
        assert!(claim(&mut line, 0, Some(4)).is_none(), "of another clock");
        assert!(claim(&mut line, 1, Some(3)).is_none(), "not the first");
        let (ticket, _) = claim(&mut line, 0, Some(3)).unwrap();
        assert_eq!((line.foreseen(), line.next()), (2, Some(1)));
        assert!(matches!(line.take(ticket), Some(Ok(_))), "it is there already");
        assert!(line.take(ticket).is_none());
        let (ticket, _) = claim(&mut line, 1, None).unwrap();
        assert!(line.take(ticket).is_none(), "it has to wait");
        let dropped = line.drop_foreseen();
        assert_eq!(dropped.iter().map(|waiting| waiting.place).collect::<Vec<_>>(), [Some(2)]);
        let other = line.ask(acquire(7), 3);
        assert!(other > ticket);
        line.fail(1, Error::Twice("data".to_owned()));
        assert!(matches!(line.take(other), Some(Err(Error::Twice(_)))));
        assert!(line.cancel(ticket).is_some() && line.waiting.is_empty());
    }
}
