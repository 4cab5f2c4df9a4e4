//! Measures opening the store with one thread and with two, and refreshing a view to the next
//! commit.

use std::sync::Arc;

use stepwell_base::random::Stream;
use stepwell_disk::Disk;
use stepwell_ssd::{Store, StoreOptions, View};

use super::bench::Bench;
use super::figures::Figures;
use super::rows::scaled;
use crate::Result;
use crate::measure::{Stopwatch, median, over};

/// One in this many rows changes before a view is refreshed.
const CHANGED_PART: u64 = 100;

impl Bench<'_> {
    /// Nanoseconds per row in segments to open the store with one thread and with two: medians of
    /// the rounds.
    pub(super) fn opening(
        &self,
        disk: &Arc<dyn Disk>,
        figures: &mut Figures,
        say: &mut dyn FnMut(&str),
    ) -> Result<()> {
        say("opening by one thread and by two");
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..self.options.rounds {
            for (times, open_threads) in times.iter_mut().zip(1..) {
                let options = StoreOptions { open_threads, ..self.store_options() };
                let watch = Stopwatch::start();
                let store = Store::open(Arc::clone(disk), options)?;
                let seconds = watch.seconds();
                let stats = store.stats();
                let rows = stats.rows_live + stats.rows_stale;
                times.push(over(seconds * 1e9, rows as f64));
            }
        }
        [figures.open_ns_per_row, figures.open_ns_per_row_two] = times.map(median);
        Ok(())
    }

    /// Time of a refresh after a part of the rows changed, relative to opening a view of the same
    /// commit: the median of the rounds.
    pub(super) fn refreshes(
        &mut self,
        store: &Store,
        figures: &mut Figures,
        say: &mut dyn FnMut(&str),
    ) -> Result<()> {
        say("refreshing a view after one row in a hundred changed");
        let disk: Arc<dyn Disk> = self.disk.directory(store.path())?;
        let view = View::open(Arc::clone(&disk), self.store_options())?;
        let (mut dice, mut ratios) = (Stream::from_state(37), Vec::new());
        let (mut times, mut rows) = (Vec::new(), Vec::new());
        let count = self.options.rows;
        for _ in 0..self.options.rounds {
            let pick = &mut |_: &Self, _| scaled(dice.next_u64(), count);
            self.put_again(store, pick, (count / CHANGED_PART).max(1), &mut || {})?;
            store.commit()?;
            let watch = Stopwatch::start();
            let refreshed = view.refresh()?;
            let refresh = watch.seconds();
            let watch = Stopwatch::start();
            let anew = View::open(Arc::clone(&disk), self.store_options())?;
            ratios.push(over(refresh, watch.seconds()));
            times.push(refresh * 1e3);
            rows.push(refreshed.rows_read as f64);
            drop(anew);
        }
        figures.refresh_over_open = median(ratios);
        figures.refresh_ms = median(times);
        figures.refresh_rows_read = median(rows);
        self.look_up(&view, super::reads::Mix::Random, 1).map(drop)
    }
}
