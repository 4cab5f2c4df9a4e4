//! When to merge, and which calls wait for it.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::debug;

use super::merge::Failed;
use super::pace::Pace;
use crate::Result;
use crate::options::Compaction;
use crate::stats::add;
use crate::store::core::{Core, Store};
use crate::store::sweep_result::Sweep;
use crate::victims::{self, Choice, Plan};

/// The least stale part of a victim, in quarters, while space is within the setting: of background
/// merges, and of requested ones.
const STALE_QUARTERS: [u32; 2] = [3, 2];

/// Counts a caller that waits for compaction.
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
    /// Merges segments that are at least half stale, all that must be merged for space, and small
    /// ones if there are many: one bounded piece of work. Returns the number of segments merged; 0
    /// if nothing is due.
    ///
    /// # Errors
    /// If a page cannot be read or is damaged, the disk fails, or the index has no room: nothing
    /// changes. Later merges skip segments that cannot be read or have no room.
    pub fn compact(&self) -> Result<usize> {
        drop(self.core.writer()?);
        self.core.merge_once(Pace::Full).map_err(|failed| failed.error)
    }
}

impl Core {
    /// Does one merge if one is due. Returns the number of segments merged.
    pub(super) fn merge_once(&self, pace: Pace) -> std::result::Result<usize, Failed> {
        let mut sweep = self.merging.lock().map_err(|_| self.refusal("a merge panicked"))?;
        let none = Sweep::default();
        // A sweep's result applies to deletions in its own segments; others may be later.
        let (plan, sweep) = match self.next_of_sweep(&mut sweep) {
            Some(slot) => (Some(victims::alone(&self.state().table, slot)), &*sweep),
            None => (self.plan(pace), &none),
        };
        let Some(plan) = plan else { return Ok(0) };
        self.merge(&plan, sweep, pace)?;
        add(&self.counters.compactions, 1);
        add(&self.counters.segments_merged, plan.victims.len() as u64);
        Ok(plan.victims.len())
    }

    fn plan(&self, pace: Pace) -> Option<Plan> {
        let state = self.state();
        let pressure = self.pressure(&state);
        let over = pressure.is_over();
        let stale_quarters = if over { 0 } else { STALE_QUARTERS[usize::from(pace == Pace::Full)] };
        let size = self.size(&state);
        let choice = Choice {
            layout: self.layout,
            rows_max: size.rows,
            deletions_max: 2 * size.deletions(),
            now: state.next_seq,
            expire_before: state.expire_before,
            stale_quarters,
            over,
            above_rest: pressure.is_above_rest(),
        };
        victims::plan(&state.table, &choice)
    }

    /// Merges until space is within the setting, nothing is left to merge, or the disk fails. Even
    /// then a commit continues, since it may make room.
    pub(in crate::store) fn ease(&self) -> Result<()> {
        self.renew_unsound()?;
        let _waiting = Waiting::new(&self.waiting);
        while self.has_debt() {
            if self.merge_or_skip()?.unwrap_or(0) == 0 {
                break;
            }
        }
        Ok(())
    }

    fn has_debt(&self) -> bool {
        let state = self.state();
        self.pressure(&state).is_over() || self.has_many_deletions(&state)
    }

    /// Does one merge for a waiting caller. A segment that cannot be read, or has no room in the
    /// index, is not the caller's error: later merges skip it. The inner result has a disk failure.
    fn merge_or_skip(&self) -> Result<Result<usize>> {
        drop(self.writer()?);
        match self.merge_once(Pace::Full) {
            Ok(merged) => Ok(Ok(merged)),
            Err(Failed { left_alone, .. }) if !left_alone.is_empty() => Ok(Ok(1)),
            Err(Failed { error, .. }) => Ok(Err(error)),
        }
    }

    /// Rewrites segments whose sync failed, since the disk's content is unknown.
    fn renew_unsound(&self) -> Result<()> {
        let unsound = self.writer()?.unsound.clone();
        if unsound.is_empty() {
            return Ok(());
        }
        let _merging = self.merging.lock().map_err(|_| self.refusal("a merge panicked"))?;
        for number in unsound {
            let slot = self.state().table.slot_of(number);
            if let Some(slot) = slot {
                let plan = victims::alone(&self.state().table, slot);
                let merged = self.merge(&plan, &Sweep::default(), Pace::Full);
                merged.map_err(|failed| failed.error)?;
            }
        }
        Ok(())
    }

    /// Waits until there is space for a writer's rows.
    pub(in crate::store) fn make_space(&self) -> Result<()> {
        if self.options.compaction == Compaction::Inline {
            self.ease()?;
        }
        if !self.pressure(&self.state()).is_hard() {
            return Ok(());
        }
        add(&self.counters.writer_waits, 1);
        debug!(
            store = %self.home().path().display(),
            bytes = self.state().table.bytes(),
            "space is low: a writer waits for merges"
        );
        let _waiting = Waiting::new(&self.waiting);
        loop {
            let pressure = self.pressure(&self.state());
            if !pressure.is_hard() {
                return Ok(());
            }
            // Removing merged segments is cheaper than merging more.
            let merged = if pressure.is_retired_alone() { Ok(0) } else { self.merge_or_skip()? };
            if !matches!(merged, Ok(1..)) {
                let mut writer = self.writer()?;
                if self.state().retired.segments == 0 {
                    return merged.map(drop);
                }
                self.commit_locked(&mut writer)?;
            }
        }
    }

    /// Prevents merges, so that segments stay.
    pub(in crate::store) fn hold_merges(&self) -> std::sync::MutexGuard<'_, Sweep> {
        self.merging.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
