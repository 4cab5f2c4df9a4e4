//! Content of a file in memory: the written bytes, the durable bytes, and the changes in between.
//!
//! - **How.** Every change since the last sync is kept. A torn crash treats each sector of
//!   [`SECTOR_BYTES`] separately: its durable state and the state after each change that touched it
//!   are equally likely, independently of other sectors. So a write may be lost or partial, or may
//!   survive while an earlier one elsewhere is lost; only within a sector is the order kept. The
//!   length is chosen in the same way.
//! - **Cost.** Changes hold their bytes until the next sync.

use std::ops::Range;

use stepwell_base::random::Stream;

/// The most bytes of one file: far more than tests need.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 36;

/// Unit of atomic writes.
pub(super) const SECTOR_BYTES: usize = 512;

/// The writes that survive a crash besides the durable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// None: the least that a correct disk keeps.
    SyncedAlone,
    /// Everything that was written.
    Everything,
    /// A part chosen by the seed, sector by sector and name by name.
    Torn(u64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    live: Vec<u8>,
    synced: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            Self::Length(bytes) => content.resize(*bytes, 0),
        }
    }

    /// The bytes that the change may affect, in a file of `before` bytes.
    fn touches(&self, before: usize) -> Range<usize> {
        match self {
            Self::Write { offset, bytes } => *offset..offset + bytes.len(),
            Self::Length(after) => *after..before.max(*after),
        }
    }
}

impl Content {
    /// Makes durable content.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { synced: bytes.clone(), live: bytes, changes: Vec::new() }
    }

    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.change(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn truncate(&mut self, bytes: usize) {
        self.change(Change::Length(bytes));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.changes.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    pub(super) fn surviving(&self, survival: Survival, dice: &mut Stream) -> Vec<u8> {
        match survival {
            Survival::SyncedAlone => self.synced.clone(),
            Survival::Everything => self.live.clone(),
            Survival::Torn(_) => self.torn(dice),
        }
    }

    fn torn(&self, dice: &mut Stream) -> Vec<u8> {
        let mut state = self.synced.clone();
        let mut after = self.synced.clone();
        let mut sectors = Versions::default();
        let mut lengths = Versions::default();
        let mut length = state.len();
        for change in &self.changes {
            let before = state.len();
            change.apply(&mut state);
            if state.len() != before && lengths.is_chosen(0, dice) {
                length = state.len();
            }
            let touched = change.touches(before);
            for sector in touched.start / SECTOR_BYTES..touched.end.div_ceil(SECTOR_BYTES) {
                if sectors.is_chosen(sector, dice) {
                    copy_sector(&state, &mut after, sector);
                }
            }
        }
        after.resize(length, 0);
        after
    }
}

/// Number of versions of each of several things.
#[derive(Default)]
struct Versions(Vec<u64>);

impl Versions {
    /// Whether the next version of a thing replaces the one chosen so far. In the end, each version
    /// is equally likely, including the first, durable one.
    fn is_chosen(&mut self, thing: usize, dice: &mut Stream) -> bool {
        if self.0.len() <= thing {
            self.0.resize(thing + 1, 1);
        }
        self.0[thing] += 1;
        dice.next_u64().is_multiple_of(self.0[thing])
    }
}

/// Copies a sector; bytes beyond the end are zero.
fn copy_sector(from: &[u8], to: &mut Vec<u8>, sector: usize) {
    let (start, end) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
    if to.len() < end {
        to.resize(end, 0);
    }
    let there = end.min(from.len()).max(start);
    if start < there {
        to[start..there].copy_from_slice(&from[start..there]);
    }
    to[there..end].fill(0);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Counts each outcome over many crashes of `content`; `sign` names an outcome.
    fn outcomes<T: Ord>(content: &Content, sign: impl Fn(&[u8]) -> T) -> BTreeMap<T, u32> {
        let mut counts = BTreeMap::new();
        for seed in 0..2_000 {
            let mut dice = Stream::from_state(seed);
            let after = content.surviving(Survival::Torn(seed), &mut dice);
            *counts.entry(sign(&after)).or_default() += 1;
        }
        counts
    }

    fn sectors(after: &[u8]) -> Vec<u8> {
        let uniform = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
        assert!(after.chunks(SECTOR_BYTES).all(uniform), "a sector is whole");
        after.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect()
    }

    #[test]
    fn writes_are_lost_torn_and_out_of_order() {
        let mut content = Content::durable(vec![0; 3 * SECTOR_BYTES]);
        content.write(0, &[1; 2 * SECTOR_BYTES]);
        content.write(2 * SECTOR_BYTES, &[2; SECTOR_BYTES]);
        let found = outcomes(&content, sectors);
        let mut expected = Vec::new();
        for bits in 0..8u8 {
            expected.push(vec![bits & 1, bits >> 1 & 1, 2 * (bits >> 2)]);
        }
        expected.sort();
        assert!(found.keys().eq(&expected), "each sector by itself: {found:?}");
        assert!(found.values().all(|count| (150..350).contains(count)), "{found:?}");
    }

    #[test]
    fn a_sector_may_stop_at_each_of_its_versions() {
        let mut content = Content::durable(vec![0; SECTOR_BYTES]);
        for version in 1..4 {
            content.write(0, &[version; SECTOR_BYTES]);
        }
        let found = outcomes(&content, sectors);
        assert!(found.keys().eq(&[vec![0], vec![1], vec![2], vec![3]]), "{found:?}");
        assert!(found.values().all(|count| (400..600).contains(count)), "{found:?}");
    }

    #[test]
    fn parts_of_a_sector_keep_their_order() {
        let mut content = Content::durable(vec![0; 10]);
        content.write(0, &[1; 5]);
        content.write(5, &[2; 5]);
        let found = outcomes(&content, |after| (after[0], after[5]));
        assert!(found.keys().eq(&[(0, 0), (1, 0), (1, 2)]), "{found:?}");
    }

    #[test]
    fn lengths_are_lost_and_kept() {
        let mut content = Content::durable(vec![7; 4 * SECTOR_BYTES]);
        content.truncate(SECTOR_BYTES);
        content.truncate(2 * SECTOR_BYTES);
        let found = outcomes(&content, |after| after.len() / SECTOR_BYTES);
        assert!(found.keys().eq(&[1, 2, 4]), "{found:?}");
        let second = outcomes(&content, |after| after.get(SECTOR_BYTES).copied());
        assert!(second.keys().eq(&[None, Some(0), Some(7)]), "{second:?}");
        let first = outcomes(&content, |after| after[0]);
        assert!(first.keys().eq(&[7]), "a sector that nothing touched stays: {first:?}");
    }

    #[test]
    fn a_file_that_grew_may_hold_zeros() {
        let mut content = Content::default();
        content.write(0, &[1; 2 * SECTOR_BYTES]);
        let found = outcomes(&content, sectors);
        let expected = [vec![], vec![0, 0], vec![0, 1], vec![1, 0], vec![1, 1]];
        assert!(found.keys().eq(&expected), "{found:?}");
    }

    #[test]
    fn what_was_synced_stays_as_it_was() {
        let mut content = Content::default();
        let mut dice = Stream::from_state(3);
        for round in 0..200u64 {
            let offset = (dice.next_u64() % 3_000) as usize;
            match dice.next_u64() % 4 {
                0 => content.truncate(offset),
                _ => content.write(offset, &vec![round as u8; (dice.next_u64() % 900) as usize]),
            }
            if round % 5 == 4 {
                content.sync();
                let live = content.live().to_vec();
                for survival in [Survival::SyncedAlone, Survival::Everything, Survival::Torn(1)] {
                    assert_eq!(content.surviving(survival, &mut dice), live);
                }
            }
        }
    }
}
