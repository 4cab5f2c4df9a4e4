//! How many pages are read together, for the sake of rows that nobody asked for yet.
//!
//! - **Why.** A disk answers so many reads a second, and those of 8 KiB take little longer than
//!   those of 4 KiB. Whether a neighbouring page is worth that depends on the rows that are taken
//!   from it.
//! - **How.** A page more costs [`PAGE_COST`] reads of one page. A row that is taken from it saves
//!   the part of a later read that it would have had, unless it, or another one for it, is of no
//!   use: an older version, here already, or thrown away. Every [`PAGES_COUNTED`] pages, the unit
//!   doubles where that is clearly more than a page costs, and halves where it is clearly less. As
//!   long as nothing but what was asked for is read, neighbours are expected to yield as much as
//!   those pages do beside what was asked for; one that was wrong is undone, and tried again only
//!   after [`PATIENCE`] times as many pages.
//! - **Source.** The Five-minute rule's trade of reads against bytes (Gray and Putzolu, 1987); the
//!   cost of a page as measured on cloud disks, in docs/internals/measurements.md, "Harvest".

use crate::harvest::Wasted;

/// What a page more costs, in reads of one page.
const PAGE_COST: f64 = 0.25;
/// Pages between two looks at what they yielded.
const PAGES_COUNTED: u32 = 2048;
/// What a unit must save over its cost before it is doubled, and the other way around before it is
/// halved: what pages yield changes from one unit of mini-batches to the next.
const MARGIN: f64 = 1.5;
/// How much longer a unit that was undone waits.
const PATIENCE: u32 = 4;

/// Pages, and rows that were taken from them beside those that were asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    pages: u32,
    rows: u32,
}

impl Yield {
    /// Takes away `rows` rows that were of no use; how many more they are than it has.
    fn charge(&mut self, rows: u32) -> u32 {
        let charged = rows.min(self.rows);
        self.rows -= charged;
        rows - charged
    }

    fn of_page(self) -> f64 {
        f64::from(self.rows) / f64::from(self.pages.max(1))
    }
}

/// Pages that are read together: a power of two.
#[derive(Debug)]
pub(crate) struct ReadUnit {
    pages: u32,
    pages_most: u32,
    /// Of pages that were asked for.
    asked: Yield,
    /// Of those around them.
    around: Yield,
    /// Rows that were of no use, and were not charged to any pages yet.
    wasted: Wasted,
    /// Looks until it may double again.
    wait: u32,
}

impl Default for ReadUnit {
    fn default() -> Self {
        Self::new(1)
    }
}

impl ReadUnit {
    /// A page, to begin with, and up to `pages_most`.
    pub(crate) fn new(pages_most: u32) -> Self {
        let pages_most = 1 << pages_most.max(1).ilog2();
        let (asked, around) = (Yield::default(), Yield::default());
        Self { pages: 1, pages_most, asked, around, wasted: Wasted::default(), wait: 0 }
    }

    /// Pages that are read together.
    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// From a page, which was asked for or not, so many rows were taken beside.
    pub(crate) fn learn(&mut self, is_asked: bool, rows: u32) {
        let of = if is_asked { &mut self.asked } else { &mut self.around };
        of.pages += 1;
        of.rows += rows;
        if self.asked.pages + self.around.pages >= PAGES_COUNTED {
            self.choose();
        }
    }

    /// What of the rows that were taken was of no use.
    pub(crate) fn waste(&mut self, wasted: Wasted) {
        let Wasted { asked, around, dropped } = &mut self.wasted;
        *asked = asked.saturating_add(wasted.asked);
        *around = around.saturating_add(wasted.around);
        *dropped = dropped.saturating_add(wasted.dropped);
    }

    fn choose(&mut self) {
        let Self { mut asked, mut around, wasted, .. } = *self;
        (self.asked, self.around) = (Yield::default(), Yield::default());
        // What is said of many pages at once is charged to the next ones, too. Without the
        // neighbours there would be room for all that pages which are read anyway have.
        self.wasted.asked = asked.charge(wasted.asked);
        self.wasted.around = around.charge(wasted.around);
        self.wasted.dropped = asked.charge(around.charge(wasted.dropped));
        let asked_rows = f64::from(asked.rows + around.rows) / f64::from(asked.pages.max(1));
        let neighbour = if around.pages > 0 { around.of_page() } else { asked.of_page() };
        // Reads that a page of neighbours saves, and what it costs, both in reads of this unit.
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

    /// Reads on, where pages that were asked for yield so many rows beside, and those around them
    /// so many; the unit after each five thousand reads.
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
