//! Assigns slots on devices to rows: each device has a planner of the host's kind.
//!
//! - **Invariants.** A row with a slot on a device has a pinned one on the host, from when it is
//!   planned until it is planned to leave. It is lowered before any row of that unit is pulled, so
//!   that the next user of its host slot finds it there. If a mini-batch leaves rows on the host
//!   because no slots are left, it has pinned every slot of their device: none of them is lifted
//!   before its step ends.

mod owners;
mod parallel_planners;

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::rules::{Rule, Rules};
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::{PolicyKind, Seek, Victim};

use self::parallel_planners::{
    DevicePlanner, ParallelPlanners, Task, keys_above, of_devices, seen,
};
use crate::Result;
use crate::device_tier::lookup::{Placed, TableChanges};
use crate::device_tier::moves::{AboveMove, AboveMoves, AboveUnit};
use crate::device_tier::tier::DeviceTier;
use crate::device_tier::warm_up::WarmUp;
use crate::group::Group;
use crate::mini_batch::MiniBatch;
use crate::planner::{Fit, Planner};
use crate::unit::Fill;
use crate::working_set::Part;

/// Plans the rows on the devices of a run.
#[derive(Debug)]
pub(crate) struct Above {
    pub(crate) tier: Arc<DeviceTier>,
    /// Planners by table group and device.
    planners: Vec<Vec<Planner>>,
    horizon: usize,
    policy: PolicyKind,
    rules: Rules,
    parallel: ParallelPlanners,
    /// Current tasks, by table group and device.
    tasks: Vec<Task>,
    /// The last finished mini-batch.
    over: Option<u32>,
    /// Selects the rows that may be lifted; `None` if all may.
    warm_up: Option<WarmUp>,
}

/// Index of a group and device in a unit's list.
fn place(group: usize, device: usize, devices: usize) -> usize {
    group * devices + device
}

impl Above {
    pub(crate) fn new(tier: Arc<DeviceTier>, hosts: &[Planner]) -> Self {
        let (horizon, policy) = hosts.first().map(Planner::knows).unwrap_or_default();
        // A pin on a device is a rule of its own, so that tests can switch off either.
        let rules = tier.rules.renamed(Rule::PinOnDevice, Rule::Pin);
        let devices = tier.len();
        let plan = &tier.plan;
        let warm_up = || WarmUp::new(&plan.slots, devices, plan.warm_up, tier.rules);
        let mut above = Self {
            planners: Vec::new(),
            warm_up: plan.by_use.contains(&true).then(warm_up),
            tier,
            horizon,
            policy,
            rules,
            parallel: ParallelPlanners::new(devices),
            tasks: Vec::new(),
            over: None,
        };
        let groups = 0..above.tier.plan.slots.len();
        above.tier.begin_tables();
        above.planners = groups.map(|group| above.empty(group)).collect();
        above.tasks.resize_with(above.planners.len() * devices, Task::default);
        above
    }

    /// Planners of empty devices.
    fn empty(&self, group: usize) -> Vec<Planner> {
        let planner = |_| {
            let slots = self.tier.plan.slots[group];
            let planner = Planner::new(slots, self.horizon, self.policy);
            planner.with_rules(self.rules).of_device()
        };
        (0..self.tier.len()).map(planner).collect()
    }

    /// Begins a unit of at most `minis` mini-batches, with no moves yet.
    pub(crate) fn begin_unit(&mut self, minis: usize) -> AboveMoves {
        self.planners.iter_mut().flatten().for_each(|planner| planner.begin_unit(minis));
        let count = self.planners.len() * self.tier.len();
        let units = std::iter::repeat_with(AboveUnit::default).take(count).collect();
        AboveMoves { units, over: self.over }
    }

    /// Learns the mini-batches of `batch` after the `waiting` ones, while `host` learns them
    /// concurrently.
    pub(crate) fn learn<C>(
        &mut self,
        groups: &[Arc<Group>],
        batch: &mut VecDeque<MiniBatch<C>>,
        waiting: &[&VecDeque<MiniBatch<C>>],
        host: impl FnOnce(&VecDeque<MiniBatch<C>>),
    ) {
        let (rank, devices) = (self.tier.rank, self.tier.len());
        for mini in batch.iter_mut() {
            mini.parts.iter_mut().for_each(|part| part.share_out(rank, devices));
            self.leave_below(groups, mini);
        }
        let batch = &*batch;
        let (new, waiting) = (seen(batch.iter()), seen(waiting.iter().copied().flatten()));
        let learn = |DevicePlanner { planner, group, device }: DevicePlanner<'_>| {
            let keys = new.iter().flat_map(|(_, parts)| keys_above(parts, group, device));
            let is_anew = planner.begins_anew(keys.map(<[Key]>::len).sum());
            let before = waiting.iter().filter(|_| is_anew);
            for (number, parts) in before.chain(&new) {
                planner.learn(*number, keys_above(parts, group, device));
            }
        };
        let follow = self.planners.iter().flatten().any(Planner::follows);
        let planners = of_devices(&mut self.planners, groups);
        if follow {
            self.parallel.run(planners, learn, || host(batch));
        } else {
            // If all keys fit, next uses aren't recorded: too little work for other threads.
            planners.for_each(learn);
            host(batch);
        }
    }

    /// Leaves rows of `mini` that may not be lifted on the host; a warm-up counts them.
    fn leave_below<C>(&mut self, groups: &[Arc<Group>], mini: &mut MiniBatch<C>) {
        let Some(warm_up) = &mut self.warm_up else { return };
        let is_counted = warm_up.next(mini.number);
        for (number, group) in groups.iter().enumerate() {
            let by_use = group.members().iter().filter(|table| self.tier.plan.by_use[**table]);
            for (table, device) in
                by_use.flat_map(|table| (0..self.tier.len()).map(move |device| (*table, device)))
            {
                let above = &mut mini.parts[table].above;
                if is_counted {
                    warm_up.count(number, device, &above.devices[device].keys);
                }
                let may_go_up = |key| !is_counted && warm_up.may_go_up(number, device, key);
                above.keep_below(device, may_go_up);
            }
        }
        warm_up.counted();
    }

    /// Whether the rows of `mini` in group `number` that find slots on the devices can be pinned
    /// there now.
    pub(crate) fn fits<C>(&mut self, number: usize, group: &Group, mini: &MiniBatch<C>) -> bool {
        let planners = self.planners[number].iter_mut().enumerate();
        let fits =
            planners.map(|(device, planner)| planner.fits(keys_above(&mini.parts, group, device)));
        let waits = self.warm_up.as_ref().is_some_and(|warm_up| warm_up.waits(mini.number));
        // Every planner must see the request, so don't stop early.
        fits.fold(!waits, |all, fit| all & (fit == Fit::Now))
    }

    /// Pins the rows of `mini` on the devices, while `host` pins them on the host; adds the
    /// required moves.
    ///
    /// # Errors
    /// If a key finds no room in an index.
    pub(crate) fn plan<C>(
        &mut self,
        groups: &[Arc<Group>],
        hosts: &mut [Planner],
        mini: &mut MiniBatch<C>,
        moves: &mut AboveMoves,
        host: impl FnOnce(&mut [Planner], &mut MiniBatch<C>) -> Result<()>,
    ) -> Result<()> {
        if let Some(warm_up) = &mut self.warm_up {
            warm_up.planned(mini.number);
        }
        let number = mini.number;
        let planners = of_devices(&mut self.planners, groups);
        let tasks = planners.zip(&mut self.tasks).map(|(of, task)| {
            task.take(of.group, of.device, mini);
            (of.planner, task)
        });
        // Collect first, as the lists are taken from the mini-batch.
        let tasks: Vec<(&mut Planner, &mut Task)> = tasks.collect();
        let plan = |(planner, task): (&mut Planner, &mut Task)| task.plan(planner, number);
        self.parallel.run(tasks.into_iter(), plan, || host(hosts, mini))?;
        for (number, (group, host)) in groups.iter().zip(hosts).enumerate() {
            let stay = group.members().iter();
            let stay = stay.map(|table| mini.parts[*table].above.below.len() as u64);
            moves.units[place(number, 0, self.tier.len())].below += stay.sum::<u64>();
            for device in 0..self.tier.len() {
                self.settle(number, group, device, host, mini, moves)?;
            }
        }
        Ok(())
    }

    /// Adds the moves for what was planned on device `device` for group `number`, and pins those
    /// rows on the host.
    fn settle<C>(
        &mut self,
        number: usize,
        group: &Group,
        device: usize,
        host: &mut Planner,
        mini: &mut MiniBatch<C>,
        AboveMoves { units, .. }: &mut AboveMoves,
    ) -> Result<()> {
        let at = place(number, device, self.tier.len());
        let (task, unit) = (&mut self.tasks[at], &mut units[at]);
        task.give_back(group, device, mini);
        task.failed.take().map_or(Ok(()), Err)?;
        let moves = &task.moves;
        let left = group.members().iter();
        let left = left.map(|table| mini.parts[*table].above.leave_below(device) as u64);
        unit.below += left.sum::<u64>();
        let pins = self.tier.rules.hold(Rule::PinBelow);
        if self.tier.has_tables() {
            let placed = |key, slot| Placed { key, slot };
            let left = moves.victims.iter().map(|victim| placed(victim.key, victim.slot));
            let came = moves.fills.iter().map(|fill| placed(fill.key, fill.slot));
            unit.changes.left.extend(left);
            unit.changes.came.extend(came);
        }
        let mut seek = Seek::default();
        for (at, victim) in moves.victims.iter().enumerate() {
            let keys = |at| moves.victims.get(at).map(|victim: &Victim| victim.key);
            let slot = host.cache().seek(&mut seek, at, keys);
            let slot = slot.unwrap_or_else(|| left_early(victim.key));
            if victim.dirty {
                unit.victims.push(AboveMove { host: slot, slot: victim.slot });
            }
            if pins {
                host.let_go_above(slot);
            }
        }
        let from = unit.fills.len();
        let parts = group.members().iter().map(|table| &mini.parts[*table]);
        come_up(device, parts, &moves.fills, &mut unit.fills);
        if pins {
            unit.fills[from..].iter().for_each(|fill| host.keep_for_above(fill.host));
        }
        unit.hits += moves.hits;
        Ok(())
    }

    /// Makes all rows leave the devices of group `number`, so that its rows on the host can be
    /// evicted. Nothing may be in flight. `waiting` are the known mini-batches.
    pub(crate) fn shed<'a, C: 'a>(
        &mut self,
        number: usize,
        group: &Group,
        host: &mut Planner,
        AboveMoves { units, .. }: &mut AboveMoves,
        waiting: impl Iterator<Item = &'a MiniBatch<C>> + Clone,
    ) {
        let (devices, mut empty) = (self.tier.len(), self.empty(number));
        for (device, fresh) in empty.drain(..).enumerate() {
            let planner = std::mem::replace(&mut self.planners[number][device], fresh);
            if self.tier.has_tables() {
                units[place(number, device, devices)].changes = TableChanges::all_leave();
            }
            for row in planner.cache().all() {
                let slot = host_slot(host, row.key);
                if row.dirty {
                    let moved = AboveMove { host: slot, slot: row.slot };
                    units[place(number, device, devices)].victims.push(moved);
                }
                host.let_go_above(slot);
            }
            let planner = &mut self.planners[number][device];
            for mini in waiting.clone() {
                planner.learn(mini.number, keys_above(&mini.parts, group, device));
            }
        }
    }

    /// Counts a planned unit.
    pub(crate) fn planned(&self, moves: &AboveMoves) {
        moves.units.iter().for_each(|unit| self.tier.planned(unit));
    }

    /// Whether at most one slot in `part` of every device is pinned.
    pub(crate) fn is_roomy(&self, part: usize) -> bool {
        self.planners.iter().flatten().all(|planner| planner.pinned() * part <= planner.slots())
    }

    /// Retires mini-batches, while `host` retires them concurrently.
    pub(crate) fn retire<C>(
        &mut self,
        groups: &[Arc<Group>],
        minis: &[MiniBatch<C>],
        host: impl FnOnce(),
    ) {
        for mini in minis {
            self.over = Some(mini.number);
            self.warm_up.iter_mut().for_each(|warm_up| warm_up.retired(mini.number));
        }
        let minis = seen(minis.iter());
        let retire = |DevicePlanner { planner, group, device }: DevicePlanner<'_>| {
            for (_, parts) in &minis {
                for table in group.members() {
                    let Part { rows, above, .. } = &parts[*table];
                    let on = &above.devices[device];
                    let row_of = |index: usize| on.rows[index] as usize;
                    planner.retire_rows(&on.slots, &rows.occurrences, row_of);
                }
            }
        };
        self.parallel.run(of_devices(&mut self.planners, groups), retire, host);
    }

    /// Takes every row that changed on a device since it was last on the host, and marks it clean:
    /// `lower` brings it down before anything planned later, so no later unit's victim is lowered
    /// again while `pull` copies it for a checkpoint.
    pub(crate) fn take_dirty(&mut self, hosts: &[Planner]) -> AboveMoves {
        let of = |(planners, host): (&Vec<Planner>, &Planner)| {
            let of_device = |planner: &Planner| {
                // Reserve, as this may be all rows, and a growing list would be copied repeatedly.
                let mut victims = Vec::with_capacity(planner.cache().dirty().count());
                victims.extend(
                    planner
                        .cache()
                        .dirty()
                        .map(|row| AboveMove { host: host_slot(host, row.key), slot: row.slot }),
                );
                AboveUnit { victims, ..AboveUnit::default() }
            };
            planners.iter().map(of_device).collect::<Vec<AboveUnit>>()
        };
        let units = self.planners.iter().zip(hosts).flat_map(of).collect();
        self.planners.iter_mut().flatten().for_each(Planner::all_clean);
        AboveMoves { units, over: self.over }
    }
}

/// Lists the moves of rows lifted to device `device`: `fills` have the keys of `parts` there, in
/// order, and `parts` have their slots on the host.
fn come_up<'a>(
    device: usize,
    parts: impl Iterator<Item = &'a Part>,
    fills: &[Fill],
    moves: &mut Vec<AboveMove>,
) {
    let mut fills = fills.iter().peekable();
    for part in parts {
        let on = &part.above.devices[device];
        for (key, row) in on.keys.iter().zip(&on.rows) {
            if let Some(fill) = fills.next_if(|fill| fill.key == *key) {
                let host = part.rows.slots[*row as usize];
                moves.push(AboveMove { host, slot: fill.slot });
            }
        }
    }
    assert_eq!(fills.next(), None, "every lifted row was requested");
}

/// Host slot of the row of `key`, which is on a device.
fn host_slot(host: &Planner, key: Key) -> SlotIndex {
    host.cache().find(key).unwrap_or_else(|| left_early(key))
}

fn left_early(key: Key) -> ! {
    panic!("the row of key {:016x} left the host before its device", key.0)
}
