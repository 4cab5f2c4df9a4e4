//! The devices of a run, and their slots.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stepwell_base::owner::RankOf;
use stepwell_base::rules::Rules;
use stepwell_device::{Buffer, Device, Event, RowsAt, Stream};

use super::describe::SlabAt;
use super::lookup::{Lookup, TableChanges};
use super::moves::{AboveMoves, AboveUnit};
use super::sizes::{DeviceOptions, DevicePlan};
use super::visitor::Visitor;
use crate::Result;
use crate::tiers::TierPlan;

/// One device.
#[derive(Debug)]
pub(crate) struct OneDevice {
    pub(crate) device: Device,
    /// Rows of all groups.
    pub(crate) rows: Buffer<f32>,
    /// Slabs by table group.
    pub(crate) slabs: Vec<SlabAt>,
    visitor: Mutex<Visitor>,
    /// Changes of groups' tables for the next fetch, in order.
    changes: Mutex<VecDeque<(usize, TableChanges)>>,
    /// Events after the steps of mini-batches, by number, oldest first.
    steps: Mutex<VecDeque<(u32, Event)>>,
}

/// Number of steps whose events are kept.
const STEPS_KEPT: usize = 64;

impl OneDevice {
    /// The rows of group `group` in `slots`, for the check of order; empty if it is off.
    pub(crate) fn touched(&self, group: usize, slots: impl Iterator<Item = u32>) -> RowsAt {
        let at = self.slabs[group];
        match self.device.checks_order() {
            true => at.rows(slots.collect()),
            false => at.rows(Arc::default()),
        }
    }

    pub(crate) fn visitor(&self) -> MutexGuard<'_, Visitor> {
        self.visitor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves `changes` of the table of group `group` to the next fetch.
    pub(crate) fn leave_changes(&self, group: usize, changes: TableChanges) {
        if !changes.is_empty() {
            let mut left = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            left.push_back((group, changes));
        }
    }

    /// Takes the oldest changes left.
    pub(crate) fn take_changes(&self) -> Option<(usize, TableChanges)> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn steps(&self) -> MutexGuard<'_, VecDeque<(u32, Event)>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records in `stream` the end of the step of mini-batch `number`.
    pub(crate) fn step_is_over(&self, number: u32, stream: &Stream) -> Result<()> {
        let mut steps = self.steps();
        let oldest = if steps.len() < STEPS_KEPT { None } else { steps.pop_front() };
        let event = oldest.map_or_else(|| self.device.event(), |(_, event)| Ok(event))?;
        stream.record(&event)?;
        steps.push_back((number, event));
        Ok(())
    }

    /// Makes `stream` wait for the steps of all mini-batches up to `last`.
    pub(crate) fn wait_for_steps(&self, stream: &Stream, last: Option<u32>) -> Result<()> {
        let (Some(last), steps) = (last, self.steps()) else { return Ok(()) };
        // Steps follow each other; mini-batches that only evaluate have none.
        let after = steps.iter().find(|(number, _)| *number >= last).or(steps.back());
        after.map_or(Ok(()), |(_, event)| Ok(stream.wait(event)?))
    }
}

/// The devices of a run.
#[derive(Debug)]
pub struct DeviceTier {
    pub(crate) devices: Vec<OneDevice>,
    pub(crate) plan: DevicePlan,
    pub(crate) rules: Rules,
    /// The rank of the devices.
    pub(crate) rank: RankOf,
    /// Rows to be lowered at the end.
    left: Mutex<AboveMoves>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    fills: AtomicU64,
    below: AtomicU64,
    pooled: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    waited_ns: AtomicU64,
}

/// Counts of what devices did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceCount {
    /// Distinct keys per planned unit whose rows were on their device.
    pub hits: u64,
    /// Distinct keys per planned unit whose rows were lifted.
    pub fills: u64,
    /// Distinct keys per mini-batch whose rows stayed on the host for lack of slots.
    pub below: u64,
    /// Mini-batches whose rows were pooled on devices.
    pub pooled: u64,
    /// Bytes copied to devices.
    pub bytes_up: u64,
    /// Bytes copied from devices.
    pub bytes_down: u64,
    /// Seconds that steps waited for devices.
    pub seconds_waiting: f64,
}

impl DeviceCount {
    /// Fraction of planned keys whose rows were on their device.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.planned() as f64
    }

    /// Number of planned keys, at least one.
    pub fn planned(&self) -> u64 {
        (self.hits + self.fills + self.below).max(1)
    }
}

impl DeviceTier {
    /// Slots on the devices of `options`, according to `plan`, for the groups of `tiers`.
    ///
    /// # Errors
    /// If a device has no room or fails.
    pub fn new(
        options: &DeviceOptions,
        plan: DevicePlan,
        tiers: &TierPlan,
        rules: Rules,
    ) -> Result<Arc<Self>> {
        let devices = options.devices.iter().map(|device| {
            let (mut first_lane, mut slabs) = (0usize, Vec::new());
            for (group, slots) in tiers.groups.iter().zip(&plan.slots) {
                let row_lanes = group.spec.row_lanes();
                slabs.push(SlabAt { first_lane, row_lanes });
                // Align the next group to 16 bytes.
                first_lane += (slots * row_lanes).next_multiple_of(4);
            }
            Ok(OneDevice {
                rows: device.buffer(first_lane, "rows")?,
                slabs,
                visitor: Mutex::new(Visitor::new(device, &plan)?),
                changes: Mutex::default(),
                steps: Mutex::default(),
                device: device.clone(),
            })
        });
        let devices = devices.collect::<Result<Vec<OneDevice>>>()?;
        let (left, counts, rank) = (Mutex::default(), Counts::default(), options.place);
        Ok(Arc::new(Self { devices, plan, rules, rank, left, counts }))
    }

    /// Number of devices.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether there are no devices.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Whether hash tables on the devices find rows.
    pub(crate) fn has_tables(&self) -> bool {
        self.plan.lookup == Lookup::Table
    }

    /// Empties the tables of all devices, which are empty from here on.
    pub(crate) fn begin_tables(&self) {
        let groups = if self.has_tables() { self.plan.slots.len() } else { 0 };
        for (one, group) in self.devices.iter().flat_map(|one| (0..groups).map(move |at| (one, at)))
        {
            one.leave_changes(group, TableChanges::all_leave());
        }
    }

    /// Whether devices update the rows of table `number`; otherwise the host does, and they visit
    /// whole.
    pub(crate) fn steps(&self, number: usize) -> bool {
        !self.plan.whole[number]
    }

    /// Returns the counts so far.
    pub fn count(&self) -> DeviceCount {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        DeviceCount {
            hits: count(&self.counts.hits),
            fills: count(&self.counts.fills),
            below: count(&self.counts.below),
            pooled: count(&self.counts.pooled),
            bytes_up: count(&self.counts.bytes_up),
            bytes_down: count(&self.counts.bytes_down),
            seconds_waiting: Duration::from_nanos(count(&self.counts.waited_ns)).as_secs_f64(),
        }
    }

    pub(crate) fn planned(&self, unit: &AboveUnit) {
        self.counts.hits.fetch_add(unit.hits, Ordering::Relaxed);
        self.counts.fills.fetch_add(unit.fills.len() as u64, Ordering::Relaxed);
        self.counts.below.fetch_add(unit.below, Ordering::Relaxed);
    }

    pub(crate) fn pooled_one(&self) {
        self.counts.pooled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn copied_up(&self, lanes: usize) {
        self.counts.bytes_up.fetch_add((lanes * size_of::<f32>()) as u64, Ordering::Relaxed);
    }

    pub(crate) fn copied_down(&self, lanes: usize) {
        self.counts.bytes_down.fetch_add((lanes * size_of::<f32>()) as u64, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.counts.waited_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Sets the rows to be lowered at the end.
    pub(crate) fn leave(&self, moves: AboveMoves) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = moves;
    }

    /// Takes the rows to be lowered at the end.
    pub(crate) fn take_left(&self) -> AboveMoves {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
