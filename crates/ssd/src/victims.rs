//! The segments that a merge takes.
//!
//! - **How.** Every sealed segment has a score, the benefit of cleaning it over the cost: age *
//!   stale / (rows + live), the rule of the log-structured file system (Rosenblum, Ousterhout, SOSP
//!   1991, section 3.6), whereas HPS takes any segment that is more than half stale (appendix E).
//!   The best segment is taken with the next best of its generation, until their live rows fill a
//!   segment: rows that went through as many merges are about as cold, and stay together. If none
//!   gains anything, small segments are merged with each other.
//!
//! - **Progress.** A merge that would free nothing is never started, so merging ends. While nothing
//!   is put, deleted or expired, each merge lowers this pair, compared lexicographically:
//!   - the number of sealed segments suspected of expired rows, by the sample in their tails;
//!   - the weight: blocks of all sealed files, plus two for every row in them.
//!
//!   A merge of stale or small segments frees at least a block: what its victims keep is known,
//!   except for expired rows, and their live rows only decrease until it is done. Each expired row
//!   leaves at most one deletion, which takes at most one block ([`Layout`]'s pages hold far more
//!   than a deletion a row), while the row weighs two. If the gain is guessed from the sample, an
//!   unsuspected segment replaces a suspected one. A merge to drop deletions drops a stale row.
//!   Files of merged segments that wait for a commit do not count: no merge waits for them.
//! - **Cost.** A sort of the segments.

use crate::layout::{Counts, Layout, PAGE_ALIGN_BYTES};
use crate::numbers::{Birth, Slot};
use crate::segment_table::{Segment, Table};

/// Segments with less than half of a full one's live rows are merged once there are more than this,
/// at most this many at a time.
pub(crate) const SMALL_SEGMENTS_MAX: usize = 8;
/// The least bytes that a merge frees.
const BLOCK: u64 = PAGE_ALIGN_BYTES as u64;

/// Input for choosing victims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) layout: Layout,
    /// The most live rows that the merge may take, unless its first victim has more.
    pub(crate) rows_max: u32,
    /// The most deletions that the merge may take, unless its first victim has more.
    pub(crate) deletions_max: u32,
    /// Number of rows that the store has been given, as the time.
    pub(crate) now: u64,
    /// Rows used before this step do not count.
    pub(crate) expire_before: u32,
    /// The least stale part of a victim, in quarters.
    pub(crate) stale_quarters: u32,
    /// Whether space is above its target, so that everything that frees some is due.
    pub(crate) over: bool,
    /// Whether space is above what remains when nothing can be freed, because of deletions.
    pub(crate) above_rest: bool,
}

/// A merge that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Slots of the segments to merge, in order.
    pub(crate) victims: Vec<Slot>,
    /// The earliest birth of a stale row elsewhere: deletions of earlier births are dropped. Rows
    /// that go stale later do not need them, since they were put or deleted after them.
    pub(crate) oldest: Birth,
    /// Weight of the victims; the result weighs less, unless the gain is a guess.
    pub(crate) weight: u64,
    /// Whether the gain is a guess from a sample of last uses.
    pub(crate) guess: bool,
}

/// Weight of a segment, as defined above.
pub(crate) fn weight(bytes: u64, rows: u32) -> u64 {
    bytes / BLOCK + 2 * u64::from(rows)
}

/// Chooses the next merge, if one is due.
pub(crate) fn plan(table: &Table, choice: &Choice) -> Option<Plan> {
    let sealed = Sealed::of(table, choice);
    let stale = sealed.stale();
    let mut victims = if stale.is_empty() { sealed.small() } else { stale };
    if victims.is_empty() && choice.above_rest {
        victims.extend(sealed.holding_deletions());
    }
    if victims.is_empty() {
        return None;
    }
    let of = || victims.iter().map(|slot| table.get(*slot));
    Some(Plan {
        oldest: oldest_elsewhere(table, &victims),
        weight: of().map(|segment| weight(segment.bytes(), segment.rows)).sum(),
        guess: of().any(|segment| segment.is_suspect(choice.expire_before)),
        victims,
    })
}

/// Plans a merge of one segment alone, whatever it frees.
pub(crate) fn alone(table: &Table, slot: Slot) -> Plan {
    let victims = vec![slot];
    let (oldest, weight) = (oldest_elsewhere(table, &victims), 0);
    Plan { victims, oldest, weight, guess: true }
}

/// The earliest birth of a stale row in segments other than `except`.
fn oldest_elsewhere(table: &Table, except: &[Slot]) -> Birth {
    let others = table.in_order().into_iter().filter(|slot| !except.contains(slot));
    let others = others.map(|slot| table.get(slot)).filter(|other| other.stale() > 0);
    others.map(|other| other.birth_min()).min().unwrap_or(Birth::MAX)
}

/// A sealed segment that can be read.
struct Candidate<'a> {
    slot: Slot,
    segment: &'a Segment,
    /// Rows and deletions that a merge keeps of the segment.
    kept: Counts,
    /// Bytes that a merge of this segment alone frees.
    frees: u64,
}

struct Sealed<'a> {
    choice: &'a Choice,
    /// Candidates in order of segment numbers.
    segments: Vec<Candidate<'a>>,
}

impl<'a> Sealed<'a> {
    fn of(table: &'a Table, choice: &'a Choice) -> Self {
        let all = table.in_order();
        // The earliest birth of a stale row in all other segments is the first or second of these.
        let mut births: Vec<(Birth, Slot)> = all
            .iter()
            .filter(|slot| table.get(**slot).stale() > 0)
            .map(|slot| (table.get(*slot).birth_min(), *slot))
            .collect();
        births.sort_unstable();
        let oldest_beside = |slot: Slot| {
            let other = births.iter().find(|(_, of)| *of != slot);
            other.map_or(Birth::MAX, |(birth, _)| *birth)
        };
        let mut segments = Vec::new();
        for slot in all {
            let segment = table.get(slot);
            if segment.sealed.is_none() || segment.left_alone {
                continue;
            }
            let kept = segment.kept(choice.expire_before, oldest_beside(slot));
            let after = if kept.is_empty() { 0 } else { choice.layout.file_bytes(&kept) };
            let frees = segment.bytes().saturating_sub(after);
            segments.push(Candidate { slot, segment, kept, frees });
        }
        Self { choice, segments }
    }

    /// Stale segments that free something together, best first; empty if none is stale enough.
    fn stale(&self) -> Vec<Slot> {
        let all = self.stale_among(&|_| true);
        let frees = |slot: &Slot| {
            self.segments
                .iter()
                .any(|candidate| candidate.slot == *slot && candidate.frees >= BLOCK)
        };
        // Merging two frees at least a header page.
        if all.len() > 1 || all.iter().any(frees) {
            return all;
        }
        self.stale_among(&|candidate| candidate.frees >= BLOCK)
    }

    fn stale_among(&self, admits: &dyn Fn(&Candidate<'_>) -> bool) -> Vec<Slot> {
        let choice = self.choice;
        let mut scored: Vec<(f64, &Candidate<'_>)> = Vec::new();
        for candidate in self.segments.iter().filter(|candidate| admits(candidate)) {
            let rows = candidate.segment.rows;
            let gone = u64::from(rows - candidate.kept.rows);
            let enough = gone * 4 >= u64::from(rows) * u64::from(choice.stale_quarters);
            if enough && (gone > 0 || candidate.frees >= BLOCK) {
                scored.push((score(candidate, choice), candidate));
            }
        }
        // Equal scores keep the order of segment numbers.
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some(generation) = scored.first().map(|(_, first)| first.generation()) else {
            return Vec::new();
        };
        let alike = scored.into_iter().map(|(_, candidate)| candidate);
        self.take(alike.filter(|candidate| candidate.generation() == generation), usize::MAX)
    }

    /// Small segments that fit each other, smallest first: those with less than half of a full
    /// one's live rows, if there are too many of them; any while space is above its target.
    fn small(&self) -> Vec<Slot> {
        let choice = self.choice;
        let is_small = |candidate: &&Candidate<'_>| {
            let few = candidate.segment.live < choice.rows_max.div_ceil(2);
            // Deletions of two such segments always fit.
            (few || choice.over) && candidate.kept.deletions <= choice.deletions_max / 2
        };
        let mut small: Vec<&Candidate<'_>> = self.segments.iter().filter(is_small).collect();
        if small.len() <= SMALL_SEGMENTS_MAX && !choice.over {
            return Vec::new();
        }
        small.sort_by_key(|candidate| candidate.segment.live);
        let taken = self.take(small.into_iter(), SMALL_SEGMENTS_MAX);
        if taken.len() > 1 { taken } else { Vec::new() }
    }

    /// The segment with the oldest stale rows that force others to keep deletions.
    fn holding_deletions(&self) -> Option<Slot> {
        let deleted = |candidate: &Candidate<'_>| {
            candidate.segment.deleted_last().map(|birth| (birth, candidate.slot))
        };
        let mut deleted: Vec<(Birth, Slot)> = self.segments.iter().filter_map(deleted).collect();
        deleted.sort_unstable_by(|a, b| b.cmp(a));
        let holds = |candidate: &&Candidate<'_>| {
            let other = deleted.iter().find(|(_, slot)| *slot != candidate.slot);
            candidate.segment.stale() > 0
                && other.is_some_and(|(birth, _)| candidate.segment.birth_min() <= *birth)
        };
        let holding = self.segments.iter().filter(holds);
        holding.min_by_key(|candidate| candidate.segment.birth_min()).map(|holding| holding.slot)
    }

    /// The first of `candidates` and the others that fit with it, at most `count_max`.
    fn take<'b>(
        &self,
        candidates: impl Iterator<Item = &'b Candidate<'b>>,
        count_max: usize,
    ) -> Vec<Slot> {
        let (mut victims, mut rows, mut deletions) = (Vec::new(), 0u64, 0u64);
        for Candidate { slot, segment, kept, .. } in candidates {
            // The number of expired rows is a guess: there must be room for all live ones.
            let (with_rows, with_deletions) =
                (rows + u64::from(segment.live), deletions + u64::from(kept.deletions));
            let fits = with_rows <= self.choice.rows_max.into()
                && with_deletions <= self.choice.deletions_max.into();
            if victims.is_empty() || (fits && victims.len() < count_max) {
                victims.push(*slot);
                (rows, deletions) = (with_rows, with_deletions);
            }
        }
        victims
    }
}

impl Candidate<'_> {
    fn generation(&self) -> Option<u32> {
        self.segment.sealed.map(|sealed| sealed.tail.generation)
    }
}

fn score(candidate: &Candidate<'_>, choice: &Choice) -> f64 {
    let segment = candidate.segment;
    let rows = f64::from(segment.rows.max(1));
    let live = f64::from(candidate.kept.rows) / rows;
    let age = choice.now.saturating_sub(segment.sealed_at) as f64 + rows;
    age * (1.0 - live) / (1.0 + live)
}
