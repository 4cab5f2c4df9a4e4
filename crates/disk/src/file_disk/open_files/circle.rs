//! The open files in a circle, and a hand that searches for one to close.
//!
//! - **How.** The hand skips files that were used since it last passed, and files in use. Files
//!   with unsynced writes are the last choice, since closing them takes a sync.
//! - **Bounds.** A seat for each file that is open at once; a file vacates its seat when it is
//!   closed or dropped.

use std::sync::Arc;

use super::handle::Handle;
use crate::descriptor::Opened;

#[derive(Debug, Default)]
pub(super) struct Circle {
    seats: Vec<Option<Arc<Handle>>>,
    free: Vec<usize>,
    hand: usize,
}

/// A file that may be closed.
pub(super) enum Idle {
    /// A file that closes when this is dropped.
    Closed(#[expect(dead_code, reason = "held for its end alone")] Arc<Opened>),
    /// A file that must be synced first.
    Unsynced(Arc<Handle>),
}

impl Circle {
    /// Puts an open file into the circle; returns its seat.
    pub(super) fn seat(&mut self, handle: &Arc<Handle>) -> usize {
        let seat = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        self.seats[seat] = Some(Arc::clone(handle));
        seat
    }

    pub(super) fn vacate(&mut self, seat: usize) {
        self.seats[seat] = None;
        self.free.push(seat);
    }

    /// Finds a file that may be closed, if there is one.
    pub(super) fn idle(&mut self) -> Option<Idle> {
        let mut unsynced = None;
        for _ in 0..2 * self.seats.len() {
            let seat = self.hand;
            self.hand = (seat + 1) % self.seats.len();
            let Some(handle) = &self.seats[seat] else { continue };
            if handle.was_used() {
                continue;
            }
            // A thread that has it locked is about to use or close it.
            let Some(mut state) = handle.try_lock() else { continue };
            match state.idle().map(|opened| opened.is_unsynced()) {
                None => {}
                Some(true) => {
                    unsynced.get_or_insert_with(|| Arc::clone(handle));
                }
                Some(false) => {
                    state.seat = None;
                    let closed = state.opened.take().map(Idle::Closed);
                    drop(state);
                    self.vacate(seat);
                    return closed;
                }
            }
        }
        unsynced.map(Idle::Unsynced)
    }
}
