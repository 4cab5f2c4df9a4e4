//! Measures look-ups of cold rows.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stepwell_base::random::Stream;
use stepwell_ssd::{Lookup, Reader, Store, Ticket};

use super::bench::Bench;
use super::rows::{Shuffle, key, scaled};
use crate::Result;
use crate::measure::Stopwatch;

/// Seed of the order in which rows are loaded; groups are rows that were put together then.
pub(super) const LOAD_SEED: u64 = 11;

/// Rows of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// Random rows.
    Random,
    /// Rows of one batch of the load.
    Grouped,
    /// Half of each.
    Half,
}

/// Look-ups in flight, and the rows of each.
struct InFlight {
    reader: Reader,
    waiting: VecDeque<(Ticket, Vec<u64>)>,
}

impl Bench<'_> {
    /// Returns rows per second and processor microseconds per row.
    pub(super) fn look_up(&self, store: &Store, mix: Mix, in_flight: usize) -> Result<(f64, f64)> {
        let mut dice = Stream::from_state(17);
        let mut spare = vec![Lookup::default(); in_flight];
        let mut flight = InFlight { reader: store.reader()?, waiting: VecDeque::new() };
        let watch = Stopwatch::start();
        let until = Instant::now() + Duration::from_secs_f64(self.options.seconds);
        let mut rows = 0;
        while Instant::now() < until {
            while let Some(lookup) = spare.pop() {
                self.ask(&mut flight, mix, &mut dice, lookup)?;
            }
            let lookup = self.hear(&mut flight)?;
            rows += lookup.keys.len();
            spare.push(lookup);
        }
        let (seconds, cpu) = (watch.seconds(), watch.cpu_seconds());
        while !flight.waiting.is_empty() {
            self.hear(&mut flight)?;
        }
        Ok((rows as f64 / seconds, cpu * 1e6 / rows as f64))
    }

    fn ask(
        &self,
        flight: &mut InFlight,
        mix: Mix,
        dice: &mut Stream,
        mut lookup: Lookup,
    ) -> Result<()> {
        let batch = self.options.batch as u64;
        let order = Shuffle::new(self.options.rows, LOAD_SEED);
        let group = scaled(dice.next_u64(), self.options.rows / batch) * batch;
        let grouped = match mix {
            Mix::Random => 0,
            Mix::Grouped => batch,
            Mix::Half => batch / 2,
        };
        let of_group = (0..grouped).map(|at| order.at(group + at));
        let mut numbers: Vec<u64> = of_group.collect();
        numbers.extend((grouped..batch).map(|_| self.rows.pick(dice)));
        lookup.keys.clear();
        lookup.keys.extend(numbers.iter().map(|number| key(*number)));
        let ticket = flight.reader.submit(lookup)?;
        flight.waiting.push_back((ticket, numbers));
        Ok(())
    }

    /// Waits for the oldest look-up and checks its rows.
    fn hear(&self, flight: &mut InFlight) -> Result<Lookup> {
        let Some((ticket, numbers)) = flight.waiting.pop_front() else {
            return Ok(Lookup::default());
        };
        let lookup = flight.reader.wait(ticket)?;
        let rows = lookup.rows.chunks_exact(self.options.row_bytes);
        for ((number, found), row) in numbers.iter().zip(&lookup.found).zip(rows) {
            self.rows.check(*number, *found, row)?;
        }
        Ok(lookup)
    }
}
