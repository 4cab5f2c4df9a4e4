//! When to merge, and who waits for it.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::compactor::Pace;
use super::{Core, Store};
use crate::options::Compaction;
use crate::stats::add;
use crate::victims::{self, Choice, Plan};
use crate::{Error, Result};

/// A victim's least stale part, in quarters, while space is within the setting: of merges nobody
/// waits for, and of those asked for.
const STALE_QUARTERS: [u32; 2] = [3, 2];

/// Somebody waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Store {
    /// Merges segments that are at least half stale, whatever is due for space, and small ones
    /// where there are many: one bounded piece of work. Returns how many were merged away; none
    /// where there is nothing to do.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged, which changes nothing; or when the disk refuses a
    /// write, after which all writes are refused.
    pub fn compact(&self) -> Result<usize> {
        drop(self.core.writer()?);
        self.core.merge_once(Pace::Full)
    }
}

impl Core {
    /// One merge, if one is due. Returns how many segments it took.
    pub(super) fn merge_once(&self, pace: Pace) -> Result<usize> {
        let _merging = self.merging.lock().map_err(|_| self.refusal("a merge panicked"))?;
        let Some(plan) = self.plan(pace) else { return Ok(0) };
        self.merge(&plan, pace)?;
        add(&self.counters.compactions, 1);
        add(&self.counters.segments_merged, plan.victims.len() as u64);
        Ok(plan.victims.len())
    }

    fn plan(&self, pace: Pace) -> Option<Plan> {
        let state = self.state();
        let pressure = self.pressure(&state);
        let over = pressure.is_over();
        let stale_quarters = if over { 0 } else { STALE_QUARTERS[usize::from(pace == Pace::Full)] };
        let choice = Choice {
            layout: self.layout,
            rows_max: self.options.segment_rows(),
            deletions_max: 2 * self.options.segment_deletions(),
            now: state.next_seq,
            expire_before: state.expire_before,
            stale_quarters,
            over,
            above_rest: pressure.is_above_rest(),
        };
        victims::plan(&state.table, &choice)
    }

    /// Merges until space is within the setting, or nothing is left to merge.
    pub(super) fn ease(&self) -> Result<()> {
        let _waiting = Waiting::new(&self.waiting);
        while self.pressure(&self.state()).is_over() {
            if self.merge_or_skip()? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// One merge for somebody who waits; a segment that cannot be read is no failure of theirs:
    /// it is left alone from then on, and whoever wants its rows is told.
    fn merge_or_skip(&self) -> Result<usize> {
        drop(self.writer()?);
        match self.merge_once(Pace::Full) {
            Err(Error::Page { .. } | Error::Damaged { .. } | Error::Disk(_)) => {
                self.writer().map(|_| 1)
            }
            outcome => outcome,
        }
    }

    /// Lets a writer go on once there is space for what it puts.
    pub(super) fn make_space(&self) -> Result<()> {
        if self.options.compaction == Compaction::Inline {
            self.ease()?;
        }
        if !self.pressure(&self.state()).is_hard() {
            return Ok(());
        }
        add(&self.counters.writer_waits, 1);
        let _waiting = Waiting::new(&self.waiting);
        loop {
            let pressure = self.pressure(&self.state());
            if !pressure.is_hard() {
                return Ok(());
            }
            // Removing what was merged already is cheaper than merging more.
            if pressure.is_retired_alone() || self.merge_or_skip()? == 0 {
                let mut writer = self.writer()?;
                if writer.retired.is_empty() {
                    return Ok(());
                }
                self.commit_locked(&mut writer)?;
            }
        }
    }

    /// Holds merges off, so that segments stay.
    pub(super) fn hold_merges(&self) -> std::sync::MutexGuard<'_, ()> {
        self.merging.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
