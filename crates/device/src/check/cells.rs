//! Last accesses to each byte of a region.

use std::collections::BTreeMap;
use std::ops::Range;

use super::actors::{Actor, Clock, Place};
use crate::access::{Access, Mode, Touched};

/// The actor of an access, and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct By {
    pub(super) actor: Actor,
    /// The actor's time.
    pub(super) time: u64,
    /// Where the operation was submitted.
    pub(super) place: Place,
}

/// An earlier access that conflicts with another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    pub(super) earlier: Place,
    /// A byte that both touch.
    pub(super) byte: usize,
}

/// Last accesses to some bytes.
#[derive(Clone, Debug, Default)]
struct Cell {
    end: usize,
    /// The last write, or the last atomic change of each actor.
    writes: Vec<(By, Mode)>,
    /// The last read of each actor since.
    reads: Vec<By>,
}

/// All bytes of a region, in ranges with equal history.
#[derive(Debug)]
pub(super) struct Cells {
    /// Ranges by first byte.
    cells: BTreeMap<usize, Cell>,
}

impl Cells {
    pub(super) fn new(bytes: usize) -> Self {
        let cell = Cell { end: bytes, ..Cell::default() };
        Self { cells: BTreeMap::from([(0, cell)]) }
    }

    /// Records an access. Fails if its actor, which knows `clock`, doesn't know of an earlier
    /// conflicting one.
    pub(super) fn access(
        &mut self,
        access: &Access,
        by: By,
        clock: &Clock,
    ) -> Result<(), Conflict> {
        let mode = access.mode;
        match &access.touched {
            Touched::All => self.touch(0..access.bytes, mode, by, clock),
            Touched::Bytes(range) => self.touch(range.clone(), mode, by, clock),
            Touched::Rows(slabs) => {
                let mut rows = slabs.iter().flat_map(|slab| slab.ranges());
                rows.try_for_each(|range| self.touch(range, mode, by, clock))
            }
        }
    }

    fn touch(
        &mut self,
        range: Range<usize>,
        mode: Mode,
        by: By,
        clock: &Clock,
    ) -> Result<(), Conflict> {
        if range.is_empty() {
            return Ok(());
        }
        self.cut(range.start);
        self.cut(range.end);
        for (start, cell) in self.cells.range_mut(range) {
            cell.meet(mode, by, clock).map_err(|earlier| Conflict { earlier, byte: *start })?;
        }
        Ok(())
    }

    /// Makes a cell begin at byte `at`, if there is such a byte.
    fn cut(&mut self, at: usize) {
        let Some((start, cell)) = self.cells.range_mut(..=at).next_back() else { return };
        if *start == at || cell.end <= at {
            return;
        }
        let right = cell.clone();
        cell.end = at;
        self.cells.insert(at, right);
    }
}

impl Cell {
    fn meet(&mut self, mode: Mode, by: By, clock: &Clock) -> Result<(), Place> {
        let actor = by.actor;
        let unknown = |of: &By| of.actor != actor && clock.of(of.actor) < of.time;
        let write = self.writes.iter().find(|(by, of)| mode.conflicts(*of) && unknown(by));
        if let Some((earlier, _)) = write {
            return Err(earlier.place);
        }
        if mode == Mode::Read {
            self.reads.retain(|earlier| earlier.actor != actor);
            // Most bytes are read by one stream, and a doubling list would take four times as much.
            self.reads.reserve_exact(1);
            self.reads.push(by);
            return Ok(());
        }
        if let Some(earlier) = self.reads.iter().find(|read| unknown(read)) {
            return Err(earlier.place);
        }
        self.reads.clear();
        // Atomic changes of several actors coexist; any other write is after all earlier changes.
        let stays = |(earlier, of): &(By, Mode)| {
            mode == Mode::Atomic && *of == Mode::Atomic && earlier.actor != actor
        };
        self.writes.retain(stays);
        self.writes.reserve_exact(1);
        self.writes.push((by, mode));
        Ok(())
    }
}
