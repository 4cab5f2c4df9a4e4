//! A trace prepared for simulators: small ids instead of keys, cut into mini-batches.
//!
//! ```text
//! keys       (distinct)      key of each id; ids are numbered by first use
//! ids        (look-ups)      mini-batch by mini-batch, each id at most once per mini-batch
//! ends       (mini-batches)  end of each mini-batch among the look-ups
//! ```

use hashbrown::HashMap;
use stepwell_base::Key;
use stepwell_mem::Occurrence;

use super::trace::Trace;

/// A trace, cut into mini-batches of distinct keys.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    accesses: usize,
    keys: Vec<Key>,
    ids: Vec<u32>,
    occurrences: Vec<Occurrence>,
    ends: Vec<u32>,
}

/// A mini-batch of a sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    /// Number of its first look-up.
    pub(super) first: usize,
    /// Ids of its keys.
    pub(super) ids: &'a [u32],
    /// Occurrence of each key.
    pub(super) occurrences: &'a [Occurrence],
}

impl Sequence {
    /// Cuts `trace` into mini-batches of `mini_batch` accesses; the last one may be smaller.
    pub(super) fn new(trace: &Trace, mini_batch: usize) -> Self {
        let mut id_of: HashMap<u64, u32> = HashMap::new();
        let mut sequence = Self { accesses: trace.keys.len(), ..Self::default() };
        // Last look-up of each id, plus one.
        let mut last: Vec<u32> = Vec::new();
        for (number, keys) in trace.keys.chunks(mini_batch).enumerate() {
            let first = sequence.ids.len() as u32;
            for (index, key) in keys.iter().enumerate() {
                let id = *id_of.entry(*key).or_insert_with(|| {
                    sequence.keys.push(Key(*key));
                    last.push(0);
                    last.len() as u32 - 1
                });
                if last[id as usize] <= first {
                    sequence.ids.push(id);
                    sequence.occurrences.push(Occurrence::default());
                    last[id as usize] = sequence.ids.len() as u32;
                }
                let occurrence = &mut sequence.occurrences[last[id as usize] as usize - 1];
                occurrence.examples += 1;
                let positive = trace.positive.get(number * mini_batch + index);
                occurrence.positives += u32::from(positive.copied().unwrap_or(false));
            }
            sequence.ends.push(sequence.ids.len() as u32);
        }
        sequence
    }

    /// Number of distinct keys.
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Key of `id`.
    pub(super) fn key(&self, id: u32) -> Key {
        self.keys[id as usize]
    }

    /// Number of accesses, including repetitions within a mini-batch.
    pub(super) fn accesses(&self) -> usize {
        self.accesses
    }

    /// Number of look-ups.
    pub(super) fn look_ups(&self) -> usize {
        self.ids.len()
    }

    /// Number of mini-batches.
    pub(super) fn batches_count(&self) -> usize {
        self.ends.len()
    }

    /// Mini-batch `number`.
    pub(super) fn batch(&self, number: usize) -> Batch<'_> {
        let first = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let range = first..self.ends[number] as usize;
        Batch { first, ids: &self.ids[range.clone()], occurrences: &self.occurrences[range] }
    }

    /// All mini-batches in order.
    pub(super) fn batches(&self) -> impl Iterator<Item = Batch<'_>> {
        (0..self.ends.len()).map(|number| self.batch(number))
    }

    /// Most distinct keys of a mini-batch.
    pub(super) fn keys_of_a_batch_max(&self) -> usize {
        self.batches().map(|batch| batch.ids.len()).max().unwrap_or(0)
    }

    /// Per look-up, the next look-up of the same key. Without one, the number of look-ups plus the
    /// id, so that all are different.
    pub(super) fn next_uses(&self) -> Vec<u32> {
        let never = self.look_ups() as u32;
        let mut next_of: Vec<u32> = (0..self.keys() as u32).map(|id| never + id).collect();
        let mut next: Vec<u32> = vec![0; self.ids.len()];
        for (at, id) in self.ids.iter().enumerate().rev() {
            next[at] = std::mem::replace(&mut next_of[*id as usize], at as u32);
        }
        next
    }
}
