//! Simulates the order in which long training would have written the rows.
//!
//! - **Why.** A store that was just loaded has its rows in random order, so rows needed together
//!   aren't stored together. After training, that differs: rows are evicted in the order of their
//!   last use and written then, so rows that became cold together are on the same pages, and
//!   compaction has moved other rows away from their earlier versions. The disk performs
//!   differently then.
//! - **How.** Uses of an id are a Poisson process with its known frequency, drawn backwards from
//!   now. Memory for [`SHARE`] of the rows keeps each row for the same time after a use (Che, Tung,
//!   Wang 2002), so a use is followed by a write if the next one is later than that, or missing.
//!   First, all rows are loaded in random order. The simulated past is long enough that its writes
//!   and the load together are [`WRITES_OVER_ROWS`] times the rows. Rows not used in that past stay
//!   where they were loaded.
//! - **Not modeled.** Policies that keep rows by other criteria than last use, mini-batches, and
//!   known future keys.
//! - **Bounds.** 8 bytes per write, so about the same per row, while they are drawn and sorted.
//! - **Cost.** About 0.2 us per row; a minute or two of putting and compacting for 40 M rows.

use stepwell_base::random::Stream;

use super::parts::{Part, parts, weight};
use super::stream::Ids;

/// Share of the rows in memory in the past.
pub(super) const SHARE: f64 = 0.05;
/// Writes divided by rows, including the load.
pub(super) const WRITES_OVER_ROWS: f64 = 2.0;
/// Uses within the time that a row stays, from which it is assumed never to leave: the probability
/// of a longer gap is 1e-13.
const NEVER_LEAVES: f64 = 30.0;
/// Halvings of a range of times: more than a double has bits.
const HALVINGS: usize = 64;

/// Past of the rows, in examples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    /// Time that a row stays in memory after a use.
    pub(super) stays: f64,
    /// Time since all rows were loaded.
    pub(super) loaded: f64,
}

impl Past {
    /// The past with the requested number of writes.
    pub(super) fn new(ids: &Ids) -> Self {
        let (parts, rows) = (parts(ids), ids.count() as f64);
        let stays = time_of(SHARE * rows, |time| held(&parts, time));
        let writes = (WRITES_OVER_ROWS - 1.0) * rows;
        Self { stays, loaded: time_of(writes, |time| written(&parts, stays, time)) }
    }

    /// Numbers of the rows in the order in which they were written after the load.
    pub(super) fn writes(&self, ids: &Ids) -> impl Iterator<Item = u64> + use<> {
        let mut dice = Stream::from_state(13);
        let mut writes = Vec::new();
        let mut number = 0;
        for count in &ids.vocabularies {
            let total = weight(*count, ids.skew);
            for rank in 1..=*count {
                let probability = libm::pow(rank as f64, -ids.skew) / total;
                self.of_row(probability, &mut dice, &mut |age| {
                    // The time since the load is in the upper half, so that the oldest is first.
                    let since_load = (self.loaded - age) / self.loaded;
                    writes.push(((since_load * f64::from(u32::MAX)) as u64) << 32 | number);
                });
                number += 1;
            }
        }
        writes.sort_unstable();
        writes.into_iter().map(|write| write & u64::from(u32::MAX))
    }

    /// Calls `take` with the age of each write of a row, latest first.
    fn of_row(&self, probability: f64, dice: &mut Stream, take: &mut dyn FnMut(f64)) {
        let mut gap = || -libm::log1p(-dice.next_f64()) / probability;
        let mut age = gap();
        if age < self.loaded {
            take(age);
        }
        if probability * self.stays > NEVER_LEAVES {
            return;
        }
        while age < self.loaded {
            let since = gap();
            age += since;
            if since > self.stays && age < self.loaded {
                take(age);
            }
        }
    }
}

/// Rows in memory if each stays for `time`.
fn held(parts: &[Part], time: f64) -> f64 {
    parts.iter().map(|part| -part.rows * libm::expm1(-part.probability * time)).sum()
}

/// Writes in the last `time` examples, if a row stays for `stays`.
fn written(parts: &[Part], stays: f64, time: f64) -> f64 {
    let leaves = |part: &Part| {
        let gap = libm::exp(-part.probability * stays);
        part.rows * part.probability * gap * (time - stays).max(0.0)
    };
    held(parts, time.min(stays)) + parts.iter().map(leaves).sum::<f64>()
}

/// When an increasing function reaches a value.
fn time_of(figure: f64, grown: impl Fn(f64) -> f64) -> f64 {
    let mut high = 1.0;
    while grown(high) < figure && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        match grown(middle) < figure {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_as_often_as_asked_and_the_same_each_time() {
        for (rows, equal, skew) in
            [(300_000, false, 1.05), (100_000, true, 0.01), (50_000, true, 2.0)]
        {
            let ids = Ids::new(rows, equal, skew);
            let past = Past::new(&ids);
            let writes: Vec<u64> = past.writes(&ids).collect();
            let expected = (WRITES_OVER_ROWS - 1.0) * ids.count() as f64;
            let over = writes.len() as f64 / expected;
            assert!((0.98..1.02).contains(&over), "skew {skew}: {over}");
            assert!(writes.iter().all(|number| *number < ids.count()));
            assert!(past.writes(&ids).eq(writes));
        }
    }

    #[test]
    fn memory_holds_its_share_and_hot_rows_never_leave_it() {
        let ids = Ids::new(300_000, false, 1.05);
        let past = Past::new(&ids);
        let held = held(&parts(&ids), past.stays) / ids.count() as f64;
        assert!((held - SHARE).abs() < 1e-6, "{held}");
        let writes: Vec<u64> = past.writes(&ids).collect();
        // The first rank of each slot is in memory from the load on.
        let mut first = 0;
        for count in &ids.vocabularies {
            let times = writes.iter().filter(|number| **number == first).count();
            assert_eq!(times, 1, "slot of {count}");
            first += count;
        }
    }

    #[test]
    fn the_colder_a_row_the_earlier_its_newest_version_lies() {
        let ids = Ids::new(260_000, true, 1.05);
        let count = ids.vocabularies[0] as usize;
        let mut newest = vec![0usize; ids.count() as usize];
        for (place, number) in Past::new(&ids).writes(&ids).enumerate() {
            newest[number as usize] = place + 1;
        }
        // Ranks in ten parts, over all slots.
        let mut sums = [0.0; 10];
        for (number, place) in newest.iter().enumerate() {
            sums[number % count * 10 / count] += *place as f64;
        }
        assert!(sums.windows(2).all(|pair| pair[0] > pair[1]), "{sums:?}");
        assert!(newest.contains(&0), "some were never used since the load");
    }
}
