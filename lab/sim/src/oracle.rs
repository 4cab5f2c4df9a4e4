//! Expected contents of every row read, recorded from a run in which nothing can go wrong: all rows
//! in memory, one mini-batch at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::{Key, TableId, hash};
use stepwell_engine::{Moment, Witness};
use stepwell_train::Report;

use crate::finding::Finding;
use crate::tiers::{Room, Tables};

/// Position of a mini-batch in the run, regardless of the process that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct When {
    /// Steps trained before.
    pub steps: u64,
    /// For an evaluation, the number of the mini-batch in it, from 1; 0 in training.
    pub evaluated: u32,
}

impl When {
    /// The mini-batch at `at`, which follows the one at `last`.
    fn after(last: Option<(Moment, Self)>, at: Moment) -> Self {
        let before = last.filter(|(last, _)| last.steps == at.steps);
        let evaluated = match (at.evaluates, before) {
            (false, _) => 0,
            (true, None) => 1,
            (true, Some((_, when))) => when.evaluated + 1,
        };
        Self { steps: at.steps, evaluated }
    }
}

/// Reads of one mini-batch.
#[derive(Clone, Debug)]
pub struct Reads {
    /// Position.
    pub when: When,
    /// Number of rows.
    pub rows: u32,
    /// Hash of all rows, in order.
    pub sum: u64,
    /// Key and hash of each row; empty if only the sum is recorded.
    pub each: Vec<(Key, u64)>,
}

/// Expected results.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// All reads, by mini-batch.
    pub reads: Arc<[Reads]>,
    /// Digests of the model in checkpoints, by step.
    pub digests: BTreeMap<u64, String>,
    /// The final report.
    pub report: Report,
    /// Space that rows need, by table group.
    pub rooms: Vec<Room>,
    /// Bytes of the largest block of the data.
    pub block_bytes: usize,
    /// Whether every trained key gets a row immediately.
    pub admits_all: bool,
    /// The table that must stay in memory but doesn't fit, so that every run ends with an error.
    pub full: Option<String>,
}

/// Hash of a row as read. An evaluation only reads weights, so the optimizer state is ignored.
fn hash_read(at: Moment, table: TableId, key: Key, weights: &[f32], state: &[f32]) -> u64 {
    let mut sum = hash::Checksum::new();
    sum.update(&table.0.to_le_bytes());
    sum.update(&key.0.to_le_bytes());
    sum.update(bytemuck::cast_slice(weights));
    if !at.evaluates {
        sum.update(bytemuck::cast_slice(state));
    }
    sum.value()
}

fn chain(sum: u64, read: u64) -> u64 {
    sum.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) ^ read
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records every read.
#[derive(Debug, Default)]
pub struct Recorder {
    state: Mutex<Recorded>,
    tables: Arc<Tables>,
    detail: Detail,
}

#[derive(Debug, Default)]
struct Recorded {
    reads: Vec<Reads>,
    last: Option<(Moment, When)>,
    counts: Counts,
}

/// Distinct rows, by table group.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Rows of the current mini-batch.
    now: Vec<usize>,
    /// Most rows of a mini-batch.
    pub(crate) most: Vec<usize>,
    /// All rows.
    pub(crate) keys: Vec<BTreeSet<Key>>,
    /// Number of rows that belong to no table.
    pub(crate) strays: u64,
}

impl Counts {
    fn add(&mut self, group: Option<usize>, key: Key) {
        let Some(group) = group else {
            self.strays += 1;
            return;
        };
        let groups = self.now.len().max(group + 1);
        self.now.resize(groups, 0);
        self.most.resize(groups, 0);
        self.keys.resize(groups, BTreeSet::new());
        self.now[group] += 1;
        self.most[group] = self.most[group].max(self.now[group]);
        self.keys[group].insert(key);
    }
}

/// Detail in which a recorder keeps reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// A sum per mini-batch.
    #[default]
    Sums,
    /// Each read.
    EachRead,
}

impl Oracle {
    /// Compares a report with this one; for a run that `resumed` after a step, only values that it
    /// measured completely.
    ///
    /// # Errors
    /// The first difference.
    pub(crate) fn compare(&self, report: &Report, resumed: Option<u64>) -> Result<(), Finding> {
        let right = &self.report;
        let models = [&report.model_digest, &right.model_digest];
        if models[0] != models[1] || report.rows != right.rows {
            let (rows, right) = (report.rows, right.rows);
            let why = format!(
                "{rows:?} rows, digest {:?}; expected {right:?}, {:?}",
                models[0], models[1]
            );
            return Err(Finding::WrongModel(why));
        }
        let wrong = |what: &str, is: String, right: String| {
            if is == right {
                return Ok(());
            }
            Err(Finding::WrongFigures(format!("{what}: {is}, expected {right}")))
        };
        let uses = |report: &Report| report.tiers.host.uses;
        wrong("steps", report.steps.to_string(), right.steps.to_string())?;
        wrong("evaluation", format!("{:?}", report.eval), format!("{:?}", right.eval))?;
        wrong("skipped", report.skipped_lines.to_string(), right.skipped_lines.to_string())?;
        if resumed.is_some() {
            return Ok(());
        }
        let all = |report: &Report| {
            let (eval, progressive) = (&report.eval_by_epoch, &report.progressive_by_epoch);
            format!("{eval:?} {progressive:?}")
        };
        wrong("metrics", all(report), all(right))?;
        wrong("examples", report.examples.to_string(), right.examples.to_string())?;
        wrong("uses reported to the policy", uses(report).to_string(), uses(right).to_string())?;
        let host = &report.tiers.host;
        let most = host.slots.min(host.rows_peak).to_string();
        wrong("rows within the slab", host.rows_peak.to_string(), most)
    }
}

impl Recorder {
    /// A recorder for the rows of `tables`.
    pub fn new(tables: Arc<Tables>, detail: Detail) -> Self {
        Self { tables, detail, ..Self::default() }
    }

    /// Takes the recorded reads, and the counts of distinct rows.
    pub(crate) fn take(&self) -> (Vec<Reads>, Counts) {
        let state = std::mem::take(&mut *lock(&self.state));
        (state.reads, state.counts)
    }
}

impl Witness for Recorder {
    fn read(&self, at: Moment, table: TableId, key: Key, weights: &[f32], state: &[f32]) {
        let read = hash_read(at, table, key, weights, state);
        let mut recorded = lock(&self.state);
        if recorded.last.is_none_or(|(last, _)| last != at) {
            let when = When::after(recorded.last, at);
            recorded.last = Some((at, when));
            recorded.reads.push(Reads { when, rows: 0, sum: 0, each: Vec::new() });
            recorded.counts.now.fill(0);
        }
        recorded.counts.add(self.tables.group_of(key), key);
        if let Some(reads) = recorded.reads.last_mut() {
            reads.rows += 1;
            reads.sum = chain(reads.sum, read);
            if self.detail == Detail::EachRead {
                reads.each.push((key, read));
            }
        }
    }
}

/// Compares every read with the oracle, and keeps the first difference.
#[derive(Debug)]
pub struct Checker {
    /// Expected reads.
    right: Arc<[Reads]>,
    state: Mutex<Checked>,
}

#[derive(Debug)]
struct Checked {
    /// Index of the current mini-batch in the oracle.
    place: usize,
    last: Option<(Moment, When)>,
    rows: u32,
    sum: u64,
    difference: Option<String>,
}

impl Checker {
    /// A checker for a run that starts after `steps` steps.
    pub fn new(right: Arc<[Reads]>, steps: u64) -> Self {
        let place = right.partition_point(|reads| reads.when.steps < steps);
        let state = Checked { place, last: None, rows: 0, sum: 0, difference: None };
        Self { right, state: Mutex::new(state) }
    }

    /// The first difference, if any.
    pub fn difference(&self) -> Option<String> {
        lock(&self.state).difference.clone()
    }

    /// The first difference at the end of a run: missing reads count, too.
    pub fn finish(&self) -> Option<String> {
        let mut state = lock(&self.state);
        state.end_mini_batch(&self.right);
        let (read, all) = (state.place, self.right.len());
        if read != all {
            let why = || format!("{read} of {all} mini-batches were read");
            state.difference.get_or_insert_with(why);
        }
        state.difference.clone()
    }
}

impl Checked {
    fn end_mini_batch(&mut self, all: &[Reads]) {
        let Some((_, when)) = self.last.take() else { return };
        let Some(right) = all.get(self.place) else { return };
        if (self.rows, self.sum) != (right.rows, right.sum) {
            let why = || format!("{when:?} read {} rows, not the right {}", self.rows, right.rows);
            self.difference.get_or_insert_with(why);
        }
        self.place += 1;
    }

    fn begin_mini_batch(&mut self, all: &[Reads], at: Moment) {
        let last = self.last;
        self.end_mini_batch(all);
        let when = When::after(last, at);
        (self.last, self.rows, self.sum) = (Some((at, when)), 0, 0);
        let right = all.get(self.place).map(|reads| reads.when);
        if right != Some(when) {
            let why = || format!("{when:?} was read, expected {right:?}");
            self.difference.get_or_insert_with(why);
        }
    }
}

impl Witness for Checker {
    fn read(&self, at: Moment, table: TableId, key: Key, weights: &[f32], state: &[f32]) {
        let mut checked = lock(&self.state);
        if checked.difference.is_some() {
            return;
        }
        if checked.last.is_none_or(|(last, _)| last != at) {
            checked.begin_mini_batch(&self.right, at);
        }
        let read = hash_read(at, table, key, weights, state);
        let place = checked.rows as usize;
        checked.rows += 1;
        checked.sum = chain(checked.sum, read);
        let each = self.right.get(checked.place).map_or(&[][..], |reads| &reads.each);
        if each.is_empty() || each.get(place) == Some(&(key, read)) {
            return;
        }
        let TableId(number) = table;
        let why = format!(
            "step {} (evaluates: {}), table {number}, key {:016x}, row {place} of its mini-batch: \
             weights {weights:?}, state {state:?}",
            at.steps, at.evaluates, key.0
        );
        checked.difference = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps, number, whether it evaluates, key, weight and state of a read.
    type Read = (u64, u32, bool, u64, f32, f32);

    const RIGHT: [Read; 6] = [
        (0, 0, false, 1, 0.5, 1.0),
        (0, 0, false, 2, 0.25, 1.0),
        (1, 1, false, 1, 0.75, 2.0),
        (2, 2, true, 1, 1.0, 3.0),
        (2, 3, true, 2, 1.5, 3.0),
        (2, 4, false, 2, 1.5, 3.0),
    ];

    fn show(witness: &dyn Witness, reads: &[Read]) {
        for (steps, number, evaluates, key, weight, state) in reads {
            let at = Moment { steps: *steps, number: *number, evaluates: *evaluates };
            witness.read(at, TableId(0), Key(*key), &[*weight], &[*state]);
        }
    }

    /// Result of a checker that expects `RIGHT`, for `reads` after `steps` steps.
    fn difference(detail: Detail, steps: u64, reads: &[Read]) -> Option<String> {
        let recorder = Recorder::new(Arc::default(), detail);
        show(&recorder, &RIGHT);
        let checker = Checker::new(recorder.take().0.into(), steps);
        show(&checker, reads);
        checker.finish()
    }

    #[test]
    fn the_same_reads_pass_from_any_step_on() {
        for detail in [Detail::Sums, Detail::EachRead] {
            assert_eq!(difference(detail, 0, &RIGHT), None);
            assert_eq!(difference(detail, 1, &RIGHT[2..]), None);
            // Another process numbers its mini-batches from the start.
            let renumbered =
                RIGHT[3..].iter().map(|(s, n, e, k, w, o)| (*s, n - 2, *e, *k, *w, *o));
            assert_eq!(difference(detail, 2, &renumbered.collect::<Vec<Read>>()), None);
        }
    }

    #[test]
    fn whatever_differs_is_found() {
        for detail in [Detail::Sums, Detail::EachRead] {
            for place in 0..RIGHT.len() {
                let mut reads = RIGHT.to_vec();
                reads[place].4 += 0.5;
                assert!(difference(detail, 0, &reads).is_some(), "weight {place}");
                let mut reads = RIGHT.to_vec();
                reads[place].3 = 9;
                assert!(difference(detail, 0, &reads).is_some(), "key {place}");
                let mut reads = RIGHT.to_vec();
                reads[place].5 += 0.5;
                // An evaluation doesn't read the state.
                let evaluates = reads[place].2;
                assert_eq!(difference(detail, 0, &reads).is_none(), evaluates, "state {place}");
                let mut reads = RIGHT.to_vec();
                reads.remove(place);
                assert!(difference(detail, 0, &reads).is_some(), "missing {place}");
            }
            assert!(difference(detail, 0, &RIGHT[..5]).is_some());
            assert!(difference(detail, 0, &RIGHT[2..]).is_some());
        }
    }

    #[test]
    fn distinct_rows_are_counted() {
        let recorder = Recorder::new(Arc::default(), Detail::EachRead);
        show(&recorder, &RIGHT);
        let (reads, counts) = recorder.take();
        assert_eq!((reads.len(), counts.keys[0].len(), counts.most), (5, 2, vec![2]));
        assert_eq!(reads[3].when, When { steps: 2, evaluated: 2 });
    }
}
