//! Rows that come to exist and cease to, as a step decides it.
//!
//! All of it happens in the stage that trains, in step order, from the row itself, the step and a
//! sketch that this stage alone touches: so no tier, lookahead or number of threads shows.
//!
//! How: before a step reads its rows, each is looked at. One that expired gets its initial value
//! again. One that does not exist asks for admission; if it is refused, it is read with its
//! initial value and not updated, so it leaves no trace. A mini-batch that only evaluates admits
//! nobody and changes nothing.

use stepwell_base::random::{Stream, finalize};
use stepwell_base::{Key, TableId, hash};
use stepwell_engine::{Admission, Dense, History, Life, TableSpec};
use stepwell_mem::Occurrence;

use super::sight::Sight;
use crate::batch::GroupPart;

const SKETCH: &str = "admission sketch";

/// An importance fades by half in so many steps without use.
const IMPORTANCE_HALF_LIFE: f64 = 1000.0;
/// A click counts as many impressions, as in the policy `sven`.
const CLICK_WEIGHT: f32 = 4.0;

/// The lives of one table group's rows.
#[derive(Debug)]
pub(super) struct Lives {
    life: Life,
    sketch: Option<Sketch>,
    /// Rows of the mini-batch at hand that were refused; empty where none was.
    refused: Vec<bool>,
    /// Those that did not exist when the step began; empty where there were none.
    absent: Vec<bool>,
}

impl Lives {
    /// The lives of the rows of `table`; none where rows exist for ever from their first use.
    pub(super) fn new(table: &TableSpec, sketch_bytes: u64) -> Option<Self> {
        let life = table.life?;
        let counts = matches!(life.admission, Admission::After(_));
        let sketch = counts.then(|| Sketch::new(sketch_bytes, table.seed, table.id));
        Some(Self { life, sketch, refused: Vec::new(), absent: Vec::new() })
    }

    /// Looks at the rows that a mini-batch reads after `steps` steps.
    pub(super) fn look(
        &mut self,
        table: &TableSpec,
        part: &GroupPart,
        sight: &mut Sight<'_>,
        (steps, trains): (u64, bool),
    ) {
        self.refused.clear();
        self.absent.clear();
        let history = table.model_lanes()..table.row_lanes();
        for (row, key) in part.lookup.distinct.iter().enumerate() {
            let was = History::read(&sight.held(row)[history.clone()]);
            if self.life.exists(was, steps) {
                continue;
            }
            if !trains {
                if was.used > 0 && !sight.is_elsewhere(row) {
                    sight.replace(row, |weights| table.initial_weights(*key, weights));
                }
                continue;
            }
            self.absent.resize(sight.len(), false);
            self.absent[row] = true;
            if was.used > 0 {
                table.initial_row(*key, sight.rows_mut().row(row));
            }
            if !self.admits(table, *key, part.lookup.bags_of(row).len(), steps) {
                self.refused.resize(sight.len(), false);
                self.refused[row] = true;
            }
        }
    }

    fn admits(&mut self, table: &TableSpec, key: Key, seen: usize, steps: u64) -> bool {
        match (self.life.admission, &mut self.sketch) {
            (Admission::After(times), Some(sketch)) => sketch.add(key, seen) >= times,
            (Admission::Chance(chance), _) => {
                Stream::of_admission(table.seed, table.id, key, steps).next_f64() < chance
            }
            _ => true,
        }
    }

    /// Whether row `row` of the mini-batch at hand was refused.
    #[inline]
    pub(super) fn refused(&self, row: usize) -> bool {
        self.refused.get(row).is_some_and(|refused| *refused)
    }

    /// Whether row `row` of the mini-batch at hand did not exist when its step began.
    #[inline]
    pub(super) fn absent(&self, row: usize) -> bool {
        self.absent.get(row).is_some_and(|absent| *absent)
    }

    /// Adds what a resumed run needs to `dense`.
    pub(super) fn save(&self, dense: &mut Dense) {
        if let Some(sketch) = &self.sketch {
            let lanes = sketch.counts.chunks_exact(4);
            let lanes = lanes.map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
            dense.sections.push((SKETCH.to_owned(), lanes.collect()));
        }
    }

    /// Takes over what a checkpoint has.
    pub(super) fn load(&mut self, dense: &Dense) -> Result<(), String> {
        let Some(sketch) = &mut self.sketch else { return Ok(()) };
        let found = dense.sections.iter().find(|(name, _)| name == SKETCH);
        let (_, lanes) = found.ok_or(format!("has no {SKETCH}"))?;
        let counts: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        if counts.len() != sketch.counts.len() {
            let (has, wants) = (counts.len(), sketch.counts.len());
            return Err(format!("has an {SKETCH} of {has} bytes, this run one of {wants}"));
        }
        sketch.counts = counts;
        Ok(())
    }
}

/// What a row's history is once step `step` trained it as `occurrence` says, which is told the
/// importance before.
pub(super) fn trained(was: History, step: u64, occurrence: &mut Occurrence) -> History {
    let Occurrence { examples, positives, .. } = *occurrence;
    let idle = step.saturating_sub(u64::from(was.used)) as f64;
    // Compared by policies alone, so that no bit of the model hangs on this exponential.
    let fade = (-idle / IMPORTANCE_HALF_LIFE).exp2() as f32;
    occurrence.importance = was.importance * fade;
    let clicks = CLICK_WEIGHT * positives as f32;
    History {
        used: step as u32,
        examples: was.examples.saturating_add(examples),
        importance: occurrence.importance + clicks + (examples - positives) as f32,
    }
}

/// Counts occurrences of keys in bounded memory, sometimes too many, never too few.
///
/// Source: Cormode, Muthukrishnan, "An improved data stream summary: the count-min sketch" (2005),
/// with the conservative update of Estan and Varghese (2002).
#[derive(Debug)]
struct Sketch {
    counts: Vec<u8>, // (ROWS, width)
    width: u64,
    /// What tells the hashes of the rows apart. // (ROWS)
    salts: [u64; Self::ROWS],
}

impl Sketch {
    const ROWS: usize = 4;

    fn new(bytes: u64, seed: u64, table: TableId) -> Self {
        let width = (bytes / Self::ROWS as u64).max(1).next_multiple_of(4);
        let mut stream = Stream::named(seed, format!("{SKETCH}/{}", table.0).as_bytes());
        let salts = std::array::from_fn(|_| stream.next_u64());
        Self { counts: vec![0; width as usize * Self::ROWS], width, salts }
    }

    /// Counts `times` more; how often `key` was seen, up to 255.
    fn add(&mut self, key: Key, times: usize) -> u8 {
        let places = self.places(key);
        let least = places.iter().map(|place| self.counts[*place]).min().unwrap_or(0);
        let count = least.saturating_add(times.min(255) as u8);
        for place in places {
            self.counts[place] = self.counts[place].max(count);
        }
        count
    }

    /// Where the rows count `key`.
    fn places(&self, key: Key) -> [usize; Self::ROWS] {
        let mixed = hash::mix(key);
        std::array::from_fn(|row| {
            let hash = finalize(mixed ^ self.salts[row]);
            let column = (u128::from(hash) * u128::from(self.width)) >> 64;
            row * self.width as usize + column as usize
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_never_counts_too_few() {
        let mut sketch = Sketch::new(64, 1, TableId(0));
        let mut dice = Stream::from_state(5);
        let mut truth = std::collections::BTreeMap::<u64, usize>::new();
        for _ in 0..2000 {
            let (key, times) = (dice.next_u64() % 50, (dice.next_u64() % 3) as usize);
            *truth.entry(key).or_default() += times;
            assert!(usize::from(sketch.add(Key(key), times)) >= truth[&key].min(255));
        }
    }

    /// Two keys that meet in one row of the sketch meet in another as seldom as any two: that is
    /// what makes the least of four counts a good one.
    #[test]
    fn keys_that_meet_in_one_row_do_not_meet_in_others() {
        const KEYS: u64 = 20_000;
        type Numbered = fn(u64) -> u64;
        let keys: [(&str, Numbered); 3] = [
            ("consecutive", |number| number),
            ("multiples of 2^40", |number| number << 40),
            ("mixed", finalize),
        ];
        for (what, key) in keys {
            for (seed, table) in [(1, 0), (2, 0), (1, 1)] {
                let sketch = Sketch::new(4 * 4096, seed, TableId(table));
                let pairs = (KEYS * (KEYS - 1) / 2) as f64;
                let places: Vec<_> = (0..KEYS).map(|n| sketch.places(Key(key(n)))).collect();
                for (a, b) in [(0, 0), (0, 1), (1, 2), (0, 3), (3, 3)] {
                    let mut met: Vec<_> = places.iter().map(|of| (of[a], of[b])).collect();
                    met.sort_unstable();
                    let met: usize =
                        met.chunk_by(|x, y| x == y).map(|m| m.len()).map(pairs_of).sum();
                    let width = sketch.width as f64;
                    let expected = pairs / if a == b { width } else { width * width };
                    // Pairs are Poisson's. Of 45 such sums, one beyond eight deviations, at means
                    // of 12 and more, is found once in 10⁹ runs.
                    let deviations = (met as f64 - expected) / expected.sqrt();
                    assert!(deviations.abs() < 8.0, "{what}: {met} of {expected}, rows {a} {b}");
                }
            }
        }
    }

    fn pairs_of(keys: usize) -> usize {
        keys * (keys - 1) / 2
    }

    #[test]
    fn a_roomy_sketch_counts_exactly() {
        let mut sketch = Sketch::new(1 << 16, 1, TableId(0));
        for round in 1..=3 {
            for key in 0..100 {
                assert_eq!(sketch.add(Key(key), 1), round);
            }
        }
        assert_eq!(sketch.add(Key(7), 1000), 255);
    }
}
