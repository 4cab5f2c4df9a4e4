//! Shuffles examples into a reproducible random order.
//!
//! ```text
//!   chunks, in order ──► window being filled ──► window in its order ──► mini-batches
//! ```
//!
//! - **Why.** Data is often sorted: by time, by label, by user. Steps on such mini-batches learn
//!   the order of the file.
//! - **How.** An epoch's examples are cut into consecutive windows of `data.shuffle`, each shuffled
//!   by itself. The order depends only on seed, epoch, window number and number of examples
//!   ([`order`]), not on formats, tiers, threads or ranks. A run resumed within a window reads the
//!   whole window again and skips the trained examples.
//! - **Bounds.** Two windows: one is filled while the other is cut. Chunks are kept whole, without
//!   spare capacity.

use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_data::{Chunk, Schema};

use crate::batch::RunPosition;
use crate::features::Features;

/// Returns the order of the examples of a window: which of `count` is first, second and so on.
///
/// The shuffle of Fisher and Yates (Knuth, The Art of Computer Programming, algorithm 3.4.2 P) by
/// the numbers of [`Stream::named`] `shuffle EPOCH WINDOW`: from the last place down to the second,
/// each is exchanged with place `(number * (place + 1)) >> 64`, counted from 0.
pub(super) fn order(seed: u64, epoch: u64, window: u64, count: usize) -> Vec<u32> {
    let mut stream = Stream::named(seed, format!("shuffle {epoch} {window}").as_bytes());
    // Settings keep windows below 2^32 examples.
    let mut order: Vec<u32> = (0..count as u32).collect();
    for place in (1..count).rev() {
        let other = (u128::from(stream.next_u64()) * (place as u128 + 1)) >> 64;
        order.swap(place, other as usize);
    }
    order
}

/// Two windows of a pass.
pub(super) struct Shuffle {
    /// Examples of a window.
    room: usize,
    seed: u64,
    epoch: u64,
    /// Whether the current pass is shuffled.
    active: bool,
    filling: Window,
    cut: Option<Ordered>,
    /// Examples of the next window that were trained before.
    skip: usize,
}

/// Consecutive examples of the data.
#[derive(Default)]
struct Window {
    number: u64,
    start: Place,
    pieces: Vec<Piece>,
    count: usize,
}

/// Examples of a chunk.
struct Piece {
    chunk: Arc<Chunk>,
    /// Number of the first of these examples in the chunk.
    first: usize,
    count: usize,
    /// Malformed lines of the pass before the chunk.
    skipped: u64,
}

/// A place between two lines, with the number of malformed lines of the pass before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    file: u32,
    line: u64,
    skipped: u64,
}

/// A window in its shuffled order.
struct Ordered {
    window: Window,
    /// Piece of each example, and the example's number in that piece's chunk.
    order: Vec<(u32, u32)>,
    taken: usize,
    /// Place where the next window begins.
    behind: Place,
}

impl Shuffle {
    /// The most bytes of windows of `room` examples of `schema`, with at most as many ids as
    /// `features` take or the given number.
    pub(super) fn bytes_max(room: usize, schema: Schema, ids: (&Features, u64)) -> u64 {
        let (features, ids) = ids;
        let ids = features.ids_by_table().into_iter().sum::<u64>().max(ids);
        let more_ids = ids.saturating_sub(schema.id_columns as u64) * size_of::<u64>() as u64;
        let values = if features.have_values() { ids * size_of::<f32>() as u64 } else { 0 };
        let example = schema.example_bytes() as u64 + more_ids + values;
        // A place in the order, made from a list of places and a list of numbers.
        let place = (2 * size_of::<(u32, u32)>() + size_of::<u32>()) as u64;
        2 * room as u64 * (example + place)
    }

    pub(super) fn new(room: usize, seed: u64) -> Self {
        let (active, filling) = (false, Window::default());
        Self { room, seed, epoch: 0, active, filling, cut: None, skip: 0 }
    }

    /// Begins a training pass at `start`, which may be within a window; `None` begins a pass that
    /// is read in order.
    pub(super) fn begin(&mut self, start: Option<RunPosition>) {
        (self.active, self.cut, self.skip) = (start.is_some(), None, 0);
        self.filling = Window::default();
        if let Some(RunPosition { epoch, file, line, skipped, window, taken, .. }) = start {
            (self.epoch, self.skip) = (epoch, taken as usize);
            self.filling.number = window;
            self.filling.start = Place { file, line, skipped };
        }
    }

    /// Drops all examples.
    pub(super) fn clear(&mut self) {
        self.begin(None);
    }

    /// Whether the current pass is shuffled.
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether a window is being cut and the next one has room.
    pub(super) fn reads_ahead(&self) -> bool {
        self.cut.is_some() && self.filling.count < self.room
    }

    /// Takes the first `count` examples of a chunk that follows `skipped` malformed lines.
    pub(super) fn give(&mut self, mut chunk: Chunk, count: usize, skipped: u64) {
        if count == 0 {
            return;
        }
        chunk.shrink();
        let chunk = Arc::new(chunk);
        self.filling.count += count;
        self.filling.pieces.push(Piece { chunk, first: 0, count, skipped });
    }

    /// Shuffles the filled window if it is full or the pass is over, unless another is being cut;
    /// returns whether one can now be cut.
    pub(super) fn turn(&mut self, is_over: bool) -> bool {
        let whole = self.filling.count >= self.room || (is_over && self.filling.count > 0);
        if self.cut.is_none() && whole {
            let window = self.filling.split(self.room);
            let order = order(self.seed, self.epoch, window.number, window.count);
            let places = window.places();
            let order = order.into_iter().map(|example| places[example as usize]).collect();
            let taken = std::mem::take(&mut self.skip).min(window.count);
            let behind = self.filling.start;
            self.cut = Some(Ordered { window, order, taken, behind }).filter(|cut| !cut.is_over());
        }
        self.cut.is_some()
    }

    /// Passes the next examples of the current window, at most `most`, to `append` as chunk and
    /// number; returns how many. Advances `position` behind them.
    pub(super) fn take(
        &mut self,
        most: usize,
        position: &mut RunPosition,
        mut append: impl FnMut(&Chunk, usize),
    ) -> usize {
        let Some(cut) = &mut self.cut else { return 0 };
        let end = cut.order.len().min(cut.taken + most);
        for (piece, example) in &cut.order[cut.taken..end] {
            append(&cut.window.pieces[*piece as usize].chunk, *example as usize);
        }
        let count = end - std::mem::replace(&mut cut.taken, end);
        let (place, window, taken) = match cut.is_over() {
            true => (cut.behind, cut.window.number + 1, 0),
            false => (cut.window.start, cut.window.number, cut.taken as u64),
        };
        (position.file, position.line, position.skipped) = (place.file, place.line, place.skipped);
        (position.window, position.taken) = (window, taken);
        if cut.is_over() {
            self.cut = None;
        }
        count
    }
}

impl Ordered {
    fn is_over(&self) -> bool {
        self.taken == self.order.len()
    }
}

impl Window {
    /// Takes the first `room` examples of this window, or all; the remaining ones become the next
    /// window.
    fn split(&mut self, room: usize) -> Self {
        let Self { number, start, pieces, count } = std::mem::take(self);
        let (mut own, mut left) = (Self { number, start, ..Self::default() }, room.min(count));
        self.number = number + 1;
        for Piece { chunk, first, count, skipped } in pieces {
            let taken = left.min(count);
            left -= taken;
            if taken > 0 {
                self.start = place_behind(&chunk, first + taken - 1, skipped);
                own.push(Piece { chunk: Arc::clone(&chunk), first, count: taken, skipped });
            }
            if taken < count {
                self.push(Piece { chunk, first: first + taken, count: count - taken, skipped });
            }
        }
        own
    }

    fn push(&mut self, piece: Piece) {
        self.count += piece.count;
        self.pieces.push(piece);
    }

    /// Piece of each example, and its number in that piece's chunk.
    fn places(&self) -> Vec<(u32, u32)> {
        let of = |(at, piece): (usize, &Piece)| {
            // Both count examples, of a window and of a block.
            let examples = piece.first..piece.first + piece.count;
            examples.map(move |example| (at as u32, example as u32))
        };
        self.pieces.iter().enumerate().flat_map(of).collect()
    }
}

/// The place behind example `example` of a chunk.
fn place_behind(chunk: &Chunk, example: usize, skipped: u64) -> Place {
    let line = chunk.lines[example];
    let after = chunk.position_after(line);
    let skipped = skipped + chunk.malformed_before(line) as u64;
    Place { file: after.file, line: after.line, skipped }
}

#[cfg(test)]
mod tests;
