//! Which segments a merge takes.
//!
//! How      Every sealed segment has a score, what cleaning it gains over what it costs:
//!          age * stale / (rows + live), the rule of the log-structured file system (Rosenblum,
//!          Ousterhout, SOSP 1991, section 3.6), where the paper at hand takes whatever is more
//!          than half stale (HPS, appendix E). The best one is taken, and with it the next best of
//!          its generation, until their live rows fill a segment: rows that lived through as many
//!          merges are about as cold, and they stay together.
//! Cost     A sort of the segments.

use crate::table::{Segment, Table};

/// More sealed segments than this with less than half of a full one's live rows get merged.
pub(crate) const SMALL_SEGMENTS_MAX: usize = 8;

/// What is known when victims are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Live rows that the merge may take, but for a first victim with more.
    pub(crate) rows_max: u32,
    /// Rows that the store has been given: the time.
    pub(crate) now: u64,
    /// Rows used before this step do not count.
    pub(crate) expire_before: u32,
    /// The least part of stale rows, in quarters, of a victim.
    pub(crate) stale_quarters: u32,
}

/// What a merge takes: stale segments, best first; none where nothing is stale enough.
pub(crate) fn stale(table: &Table, choice: &Choice) -> Vec<u32> {
    let mut scored: Vec<(f64, u32)> = Vec::new();
    for slot in table.sealed() {
        let segment = table.get(slot);
        let kept = segment.live_unexpired(choice.expire_before);
        let gone = u64::from(segment.rows - kept);
        if segment.unreadable
            || gone == 0
            || gone * 4 < u64::from(segment.rows) * u64::from(choice.stale_quarters)
        {
            continue;
        }
        scored.push((score(segment, kept, choice), slot));
    }
    // Equal ones stay in order of segment numbers.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((_, first)) = scored.first().copied() else { return Vec::new() };
    let generation = |slot: u32| table.get(slot).sealed.map(|sealed| sealed.tail.generation);
    let (mut victims, mut rows) = (Vec::new(), 0);
    for (_, slot) in scored {
        // How many are expired is a guess: all live ones must have room.
        let live = table.get(slot).live;
        let fits = rows + live <= choice.rows_max && generation(slot) == generation(first);
        if !victims.is_empty() && !fits {
            continue;
        }
        rows += live;
        victims.push(slot);
    }
    victims
}

fn score(segment: &Segment, kept: u32, choice: &Choice) -> f64 {
    let rows = f64::from(segment.rows.max(1));
    let live = f64::from(kept) / rows;
    let age = choice.now.saturating_sub(segment.sealed_at) as f64 + rows;
    age * (1.0 - live) / (1.0 + live)
}

/// What a merge takes of small segments, where there are too many of them.
pub(crate) fn small(table: &Table, rows_max: u32) -> Vec<u32> {
    let live = |slot: u32| table.get(slot).live;
    let mut small = table.sealed();
    small.retain(|slot| live(*slot) < rows_max.div_ceil(2) && !table.get(*slot).unreadable);
    if small.len() <= SMALL_SEGMENTS_MAX {
        return Vec::new();
    }
    small.sort_by_key(|slot| live(*slot));
    let mut room = rows_max;
    small.retain(|slot| {
        let fits = live(*slot) <= room;
        if fits {
            room -= live(*slot);
        }
        fits
    });
    small.truncate(SMALL_SEGMENTS_MAX);
    small
}
