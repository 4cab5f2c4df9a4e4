//! The talker's part of puts: what ranks put into each other's windows without the other's help.
//!
//! ```text
//! a rank    opens ─► tells rank 0
//! rank 0              all have ─► tells all
//! all                              ─► a window of MPI ─► its bytes move there ─► all put
//! ```
//!
//! - **Opening.** All ranks make a window of MPI together, which waits for the last of them. So
//!   rank 0 starts it when all have opened theirs, and in one order. Until then, this rank's puts
//!   into a window that it has opened wait, as does all that it sends after them: no rank puts
//!   before all have opened theirs. With the first window, ranks try whether they reach each other
//!   (`put_trial`), so that ranks without windows ask nothing of MPI. If they do not, or if MPI
//!   lacks memory for it on any rank, puts are sent as parcels.
//! - **Putting.** Into MPI's memory, with a wait until it is there: so it is visible before later
//!   puts and messages. A put beyond the window is sent as a parcel, and its receiver reports the
//!   error.
//! - **Waking.** After each put, a rank puts its number of puts into a word that it has in each
//!   other rank's memory. The talker there polls these words as often as messages, and wakes
//!   waiting threads. A parcel would not wake them sooner, and cost both sides a message.
//! - **Closing.** Once all ranks have ended normally, the bytes move back into memory of this
//!   process, and MPI's memory is freed.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::raw::{Fault, Lane, Port, Result, Sending};
use super::rma::Window;
use super::shared::Puts as Way;
use super::{put_trial, wire};
use crate::carrier::WindowNumber;
use crate::inbox::Inbox;

/// The talker's state of all windows.
pub(super) struct Puts {
    own: usize,
    /// Number of ranks whose windows all others reach; 0 if puts are parcels.
    size: usize,
    /// Whether the trial has been made.
    is_tried: bool,
    piece_words: usize,
    /// At rank 0, how many ranks have opened each window.
    openings: BTreeMap<WindowNumber, usize>,
    /// Windows that this rank has opened and not all others, and their bytes.
    waiting: BTreeMap<WindowNumber, usize>,
    windows: BTreeMap<WindowNumber, Open>,
    /// Messages about windows in flight.
    notes: Vec<Sending>,
}

struct Open {
    window: Window,
    /// This rank's number of puts, by receiver.
    put: Vec<u64>,
    /// Each rank's number of puts when last checked.
    seen: Vec<u64>,
}

/// How the next parcel is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    AsParcel,
    /// Into a window.
    Put,
    /// Not yet.
    Later,
}

impl Puts {
    pub(super) fn new(port: &Port, way: Way, piece_words: usize) -> Self {
        let (own, size) = (port.rank(), port.size());
        let size = if way == Way::OneSided && size > 1 { size } else { 0 };
        let (openings, waiting, windows) = Default::default();
        let (is_tried, notes) = (false, Vec::new());
        Self { own, size, is_tried, piece_words, openings, waiting, windows, notes }
    }

    pub(super) fn are_one_sided(&self) -> bool {
        self.size > 0
    }

    /// Makes later puts into this window wait.
    pub(super) fn opens(&mut self, window: WindowNumber, bytes: usize) {
        if self.are_one_sided() {
            self.waiting.insert(window, bytes);
        }
    }

    /// Announces that this rank has opened a window; returns whether all ranks have.
    pub(super) fn has_opened(&mut self, port: &Port, window: WindowNumber) -> Result<bool> {
        if !self.are_one_sided() {
            return Ok(false);
        }
        if self.own == 0 {
            return self.another_opened(port, window);
        }
        self.tell(port, 0, window).map(|()| false)
    }

    /// Handles a message about `window`: at rank 0, that another rank has opened it; elsewhere,
    /// that all have. Returns whether all have.
    pub(super) fn heard(&mut self, port: &Port, window: WindowNumber) -> Result<bool> {
        if self.own == 0 { self.another_opened(port, window) } else { Ok(true) }
    }

    fn another_opened(&mut self, port: &Port, window: WindowNumber) -> Result<bool> {
        if !self.are_one_sided() {
            return Ok(false);
        }
        let count = self.openings.entry(window).or_default();
        *count += 1;
        if *count < self.size {
            return Ok(false);
        }
        (1..self.size).try_for_each(|rank| self.tell(port, rank, window))?;
        Ok(true)
    }

    fn tell(&mut self, port: &Port, rank: usize, window: WindowNumber) -> Result<()> {
        let mut note = Sending::new(rank, Lane::Windows, vec![u64::from(window.0)]);
        port.post(&mut note, usize::MAX)?;
        self.notes.push(note);
        Ok(())
    }

    /// Whether all messages about windows have been sent.
    pub(super) fn are_told(&mut self) -> bool {
        // If one fails, its receiver is lost.
        self.notes.retain_mut(|note| matches!(note.poll(), Ok(None)));
        self.notes.is_empty()
    }

    /// Moves a window into memory that all ranks reach, together with all other ranks, if they do:
    /// they try that with the first window.
    pub(super) fn expose(
        &mut self,
        port: &Port,
        inbox: &Inbox,
        window: WindowNumber,
    ) -> Result<()> {
        if !std::mem::replace(&mut self.is_tried, true) && !put_trial::holds(port)? {
            self.size = 0;
            self.waiting.clear();
        }
        if !self.are_one_sided() {
            return Ok(());
        }
        let bytes = self.waiting.remove(&window);
        let bytes = bytes.ok_or_else(|| Fault(format!("window {} is not open", window.0)))?;
        let ready = |memory| {
            inbox.at_window(window, |window| window.expose(std::sync::Arc::new(memory)));
        };
        if let Some(made) = Window::open(port, bytes, ready)? {
            let (put, seen) = (vec![0; self.size], vec![0; self.size]);
            self.windows.insert(window, Open { window: made, put, seen });
        }
        Ok(())
    }

    /// How to send `words` to rank `to`.
    pub(super) fn goes(&self, to: usize, words: &[u64]) -> Goes {
        let Some((window, offset, length)) = wire::as_put(words) else { return Goes::AsParcel };
        if self.waiting.contains_key(&window) {
            return Goes::Later;
        }
        let Some(open) = self.windows.get(&window) else { return Goes::AsParcel };
        let end = offset.checked_add(length as u64);
        let fits = end.is_some_and(|end| end <= open.window.bytes(to));
        if fits { Goes::Put } else { Goes::AsParcel }
    }

    /// Puts `words`, and returns them when they are there.
    pub(super) fn put(&mut self, to: usize, words: Vec<u64>) -> Result<Vec<u64>> {
        let put = wire::as_put(&words);
        let open = put.and_then(|(window, ..)| self.windows.get_mut(&window));
        let (Some((_, offset, length)), Some(open)) = (put, open) else {
            unreachable!("it goes into a window")
        };
        let words = open.window.put(to, offset, words, length, self.piece_words)?;
        open.put[to] += 1;
        open.window.count(to, self.own, open.put[to])?;
        Ok(words)
    }

    /// Checks for puts of others, and wakes threads that wait for them.
    pub(super) fn look(&mut self, inbox: &Inbox) -> Result<bool> {
        let mut found = false;
        for open in self.windows.values_mut() {
            let mut is_new = false;
            for (word, seen) in open.window.words().iter().zip(&mut open.seen) {
                let count = word.load(Ordering::Acquire);
                is_new |= std::mem::replace(seen, count) != count;
            }
            if is_new {
                open.window.sync()?;
            }
            found |= is_new;
        }
        if found {
            inbox.notify();
        }
        Ok(found)
    }

    /// Gives all windows back to MPI, together with all other ranks.
    pub(super) fn close(self, inbox: &Inbox) -> Result<()> {
        for (number, open) in self.windows {
            inbox.at_window(number, |window| window.recall());
            open.window.close()?;
        }
        Ok(())
    }
}
