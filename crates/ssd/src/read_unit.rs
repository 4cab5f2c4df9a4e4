//! How many pages are read together, to harvest rows that nothing has requested yet.
//!
//! - **Why.** A disk is limited in reads per second, and reads of 8 KiB take little longer than
//!   those of 4 KiB. Whether a neighbouring page is worth reading depends on the rows taken from
//!   it.
//! - **How.** Each additional page costs [`PAGE_COST`] reads of one page. A row taken from it saves
//!   its share of a later read, unless it, or a row that it displaces, is wasted: an older version,
//!   already in memory, or discarded. Every [`PAGES_COUNTED`] pages, the unit doubles if the saving
//!   clearly exceeds a page's cost, and halves if it is clearly below. While only requested pages
//!   are read, neighbours are expected to yield as many rows as those pages do beyond the requested
//!   ones; a doubling that was wrong is undone, and retried only after [`PATIENCE`] times as many
//!   pages.
//! - **Source.** The five-minute rule's trade of reads against bytes (Gray and Putzolu, 1987); the
//!   cost of a page as measured on cloud disks: docs/internals/measurements.md, "Harvest".

/// Cost of an additional page, in reads of one page.
const PAGE_COST: f64 = 0.25;
/// Number of pages between two decisions.
const PAGES_COUNTED: u32 = 2048;
/// Factor by which savings must exceed costs before the unit doubles, and costs must exceed savings
/// before it halves: yields vary from one unit of mini-batches to the next.
const MARGIN: f64 = 1.5;
/// Number of decisions to skip before a unit that was undone is tried again.
const PATIENCE: u32 = 4;

/// Numbers of harvested rows that turned out useless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wasted {
    /// Rows of requested pages that are older versions or already in memory.
    pub asked: u32,
    /// Rows of neighbouring pages that are older versions or already in memory.
    pub around: u32,
    /// Rows of any page that found no room or were displaced.
    pub dropped: u32,
}

/// Pages, and rows taken from them beyond the requested ones.
#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    pages: u32,
    rows: u32,
}

impl Yield {
    /// Subtracts `rows` useless rows; returns how many of them exceed the rows counted here.
    fn charge(&mut self, rows: u32) -> u32 {
        let charged = rows.min(self.rows);
        self.rows -= charged;
        rows - charged
    }

    fn of_page(self) -> f64 {
        f64::from(self.rows) / f64::from(self.pages.max(1))
    }
}

/// Number of pages that are read together: a power of two.
#[derive(Debug)]
pub(crate) struct ReadUnit {
    pages: u32,
    pages_most: u32,
    /// Yield of requested pages.
    asked: Yield,
    /// Yield of neighbouring pages.
    around: Yield,
    /// Useless rows that have not been charged to pages yet.
    wasted: Wasted,
    /// Number of decisions until the unit may double again.
    wait: u32,
}

impl Default for ReadUnit {
    fn default() -> Self {
        Self::new(1)
    }
}

impl ReadUnit {
    /// Starts with one page and grows up to `pages_most`.
    pub(crate) fn new(pages_most: u32) -> Self {
        let pages_most = 1 << pages_most.max(1).ilog2();
        let (asked, around) = (Yield::default(), Yield::default());
        Self { pages: 1, pages_most, asked, around, wasted: Wasted::default(), wait: 0 }
    }

    /// Number of pages that are read together.
    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// Records that `rows` rows were taken from a page, beyond requested ones.
    pub(crate) fn learn(&mut self, is_asked: bool, rows: u32) {
        let of = if is_asked { &mut self.asked } else { &mut self.around };
        of.pages += 1;
        of.rows += rows;
        if self.asked.pages + self.around.pages >= PAGES_COUNTED {
            self.choose();
        }
    }

    /// Records harvested rows that were useless.
    pub(crate) fn waste(&mut self, wasted: Wasted) {
        let Wasted { asked, around, dropped } = &mut self.wasted;
        *asked = asked.saturating_add(wasted.asked);
        *around = around.saturating_add(wasted.around);
        *dropped = dropped.saturating_add(wasted.dropped);
    }

    fn choose(&mut self) {
        let Self { mut asked, mut around, wasted, .. } = *self;
        (self.asked, self.around) = (Yield::default(), Yield::default());
        // Waste reported for many pages at once carries over to the next ones. Dropped rows are
        // charged to neighbours first: without them, there would be room for all rows of requested
        // pages.
        self.wasted.asked = asked.charge(wasted.asked);
        self.wasted.around = around.charge(wasted.around);
        self.wasted.dropped = asked.charge(around.charge(wasted.dropped));
        let asked_rows = f64::from(asked.rows + around.rows) / f64::from(asked.pages.max(1));
        let neighbour = if around.pages > 0 { around.of_page() } else { asked.of_page() };
        // Reads that a neighbouring page saves, and its cost, both in reads of this unit.
        let saved = neighbour / (1.0 + asked_rows);
        let cost = PAGE_COST / (1.0 + PAGE_COST * f64::from(self.pages - 1));
        self.wait = self.wait.saturating_sub(1);
        if saved * MARGIN < cost && self.pages > 1 {
            self.pages /= 2;
            self.wait = PATIENCE;
        } else if saved > cost * MARGIN && self.pages < self.pages_most && self.wait == 0 {
            self.pages *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The unit after every five thousand reads, if every `every`-th read yields `asked` rows on
    /// requested pages and `around` on their neighbours.
    fn units(most: u32, (asked, around): (u32, u32), every: u32) -> Vec<u32> {
        let mut unit = ReadUnit::new(most);
        let of = |rows: u32, read: u32| if read.is_multiple_of(every) { rows } else { 0 };
        let mut units = Vec::new();
        for read in 0..100_000u32 {
            let pages = unit.pages();
            unit.learn(true, of(asked, read));
            (1..pages).for_each(|_| unit.learn(false, of(around, read)));
            if read % 5000 == 4999 {
                units.push(unit.pages());
            }
        }
        units
    }

    #[test]
    fn it_grows_where_neighbours_are_wanted_and_stays_where_they_are_not() {
        assert_eq!(units(8, (2, 2), 1).last(), Some(&8));
        assert_eq!(units(1, (2, 2), 1).last(), Some(&1));
        assert!(units(8, (1, 1), 100).iter().all(|pages| *pages == 1));
    }

    #[test]
    fn one_that_was_wrong_is_undone_and_rarely_tried() {
        let units = units(16, (5, 0), 1);
        let tried = units.iter().filter(|pages| **pages > 1).count();
        assert!(tried <= units.len() / 4, "{units:?}");
    }

    #[test]
    fn rows_that_find_no_room_are_worth_nothing() {
        let mut unit = ReadUnit::new(8);
        let mut units = Vec::new();
        for _ in 0..100_000 {
            let pages = unit.pages();
            unit.learn(true, 2);
            (1..pages).for_each(|_| unit.learn(false, 2));
            // There is room for the rows of one page.
            let dropped = 2 * pages - 2;
            unit.waste(Wasted { dropped, ..Wasted::default() });
            units.push(pages);
        }
        let large = units.iter().filter(|pages| **pages > 2).count();
        assert!(large < units.len() / 10, "{large}");
    }

    #[test]
    fn it_is_a_power_of_two() {
        for (most, unit) in [(0, 1), (1, 1), (2, 2), (3, 2), (7, 4), (16, 16)] {
            assert_eq!(ReadUnit::new(most).pages_most, unit);
        }
    }
}
