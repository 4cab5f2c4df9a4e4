//! Stage `plan`: pins the rows of coming mini-batches and unpins the rows of finished ones.
//!
//! The stage works at two distances. The keys of `horizon` batches are known, at some 30 bytes per
//! key (the batch itself and its entry in `Future`; the capacity plan has the bound), to choose the
//! right victims. At most `lookahead + 1` units are planned and not retired, with their rows held.
//! The number of units adapts to the memory: beyond one ahead, it grows only while their rows leave
//! half of the slots to others. If even less fits, a batch waits for earlier ones to retire, or is
//! split between its mini-batches. Only a single mini-batch that doesn't fit an empty slab ends the
//! run.
//!
//! When a stop is requested, it plans nothing more, waits until everything in flight is returned,
//! and requests a last checkpoint if any are written. It does the same if a mini-batch doesn't fit,
//! and then ends the run.

mod rows;
mod shed;

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::{Progress, Stage};

use super::counters::Counters;
use super::due_checkpoints::Due;
use super::finished::Finished;
use super::items::{Item, Pause, Ready, Retired, Unit};
use super::spares::Spares;
use super::too_large::too_large;
use crate::device::Above;
use crate::device_tier::DeviceTier;
use crate::group::{Group, rules_of};
use crate::mini_batch::{Cargo, MiniBatch};
use crate::planner::{Fit, Planner};
use crate::unit::GroupUnit;
use crate::{Error, Result};

/// Units in flight, including the one that trains, that are always allowed, however many slots they
/// hold.
const UNITS_LEAST: usize = 2;
/// More units are planned while at most one in this many slots is held.
const SLOTS_PART: usize = 2;

/// How far the pipeline looks ahead of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchDepth {
    /// Units whose rows are pinned or moving, beyond the one that trains.
    pub lookahead: usize,
    /// Batches whose keys are known ahead.
    pub horizon: usize,
}

#[derive(Debug)]
enum Waiting<C, M> {
    Batch(VecDeque<MiniBatch<C>>),
    Mark(M),
    Checkpoint,
}

/// Stage `plan`.
pub struct PlanStage<C, M> {
    planners: Vec<Planner>,
    /// The planners of devices, if any.
    above: Option<Above>,
    groups: Vec<Arc<Group>>,
    prefetch: PrefetchDepth,
    waiting: VecDeque<Waiting<C, M>>,
    in_flight: usize,
    /// The front batch doesn't fit until something retires.
    stuck: bool,
    outgoing: Option<Ready<C, M>>,
    /// Error that ends the run after trained steps are saved.
    failed: Option<Error>,
    input_closed: bool,
    counters: Arc<Counters>,
    due: Due,
    rules: Rules,
    input: Receiver<Item<C, M>>,
    output: Sender<Ready<C, M>>,
    retired: Receiver<Retired<C>>,
    spares: Arc<Spares<C>>,
    finished: Finished,
}

/// Queues and state that connect the planner to the other stages.
pub(super) struct PlanEnds<C, M> {
    pub(super) input: Receiver<Item<C, M>>,
    pub(super) output: Sender<Ready<C, M>>,
    pub(super) retired: Receiver<Retired<C>>,
    pub(super) spares: Arc<Spares<C>>,
    pub(super) due: Due,
    /// The devices, if any.
    pub(super) above: Option<Arc<DeviceTier>>,
    pub(super) finished: Finished,
}

impl<C: Cargo, M: Send> PlanStage<C, M> {
    pub(super) fn new(
        planners: Vec<Planner>,
        groups: Vec<Arc<Group>>,
        prefetch: PrefetchDepth,
        counters: Arc<Counters>,
        ends: PlanEnds<C, M>,
    ) -> Self {
        let rules = rules_of(&groups);
        assert_eq!(planners.len(), groups.len(), "a planner for each table group");
        let outlook =
            |group: &Group| group.outlook.as_ref().map(|(_, outlook)| Arc::clone(outlook));
        let planners = planners.into_iter().zip(&groups);
        let planners = planners.map(|(planner, group)| planner.telling(outlook(group)));
        let planners: Vec<Planner> = planners.collect();
        let above = ends.above.map(|tier| Above::new(tier, &planners));
        Self {
            planners,
            above,
            groups,
            rules,
            prefetch,
            waiting: VecDeque::new(),
            in_flight: 0,
            stuck: false,
            outgoing: None,
            failed: None,
            input_closed: false,
            counters,
            due: ends.due,
            input: ends.input,
            output: ends.output,
            retired: ends.retired,
            spares: ends.spares,
            finished: ends.finished,
        }
    }

    /// Processes everything that was returned.
    fn retire(&mut self) -> bool {
        let mut any = false;
        while let Received::Item(retired) = self.retired.try_recv() {
            any = true;
            self.stuck = false;
            self.in_flight -= 1;
            match retired {
                Retired::Unit(unit) => self.retire_unit(unit),
                Retired::Checkpoint(Pause { .. }) => {
                    self.due.written();
                    self.planners.iter_mut().for_each(Planner::all_clean);
                }
            }
        }
        any
    }

    /// Learns keys up to the horizon.
    fn learn(&mut self) -> bool {
        let mut any = false;
        if self.due.is_stopping() {
            self.waiting.clear();
            return false;
        }
        while !self.input_closed && self.waiting.len() <= self.prefetch.horizon {
            match self.input.try_recv() {
                Received::Item(Item::Mark(mark)) => self.waiting.push_back(Waiting::Mark(mark)),
                Received::Item(Item::Checkpoint) => self.waiting.push_back(Waiting::Checkpoint),
                Received::Item(Item::Batch(batch)) => self.learn_batch(batch.into()),
                Received::Empty => break,
                Received::Closed => self.input_closed = true,
            }
            any = true;
        }
        any
    }

    /// The next item, if it can be planned now.
    fn plan(&mut self) -> Result<Option<Ready<C, M>>> {
        if self.due.is_now() {
            return Ok(self.plan_checkpoint());
        }
        if self.stuck || self.in_flight > self.prefetch.lookahead || !self.may_plan_more() {
            return Ok(None);
        }
        match self.waiting.pop_front() {
            None => Ok(None),
            Some(Waiting::Mark(mark)) => Ok(Some(Ready::Mark(mark))),
            Some(Waiting::Checkpoint) => {
                let pause = self.plan_checkpoint();
                if pause.is_none() {
                    self.waiting.push_front(Waiting::Checkpoint);
                }
                Ok(pause)
            }
            Some(Waiting::Batch(batch)) => self.plan_batch(batch),
        }
    }

    /// Whether nothing more will be planned.
    fn is_over(&self) -> bool {
        match self.due.is_stopping() {
            true => !self.due.is_now(),
            false => self.input_closed,
        }
    }

    /// Whether one more unit leaves enough slots to unpinned rows.
    fn may_plan_more(&self) -> bool {
        let roomy = |planner: &Planner| {
            // In a whole table all rows stay, so no room is needed.
            planner.is_whole() || planner.pinned() * SLOTS_PART <= planner.slots()
        };
        let roomy_above = || self.above.as_ref().is_none_or(|above| above.is_roomy(SLOTS_PART));
        self.in_flight < UNITS_LEAST || self.planners.iter().all(roomy) && roomy_above()
    }

    /// A checkpoint, once everything is at rest.
    fn plan_checkpoint(&mut self) -> Option<Ready<C, M>> {
        // The checkpoint has the model after exactly this step: nothing may be in flight.
        if self.in_flight > 0 && self.rules.hold(Rule::DrainBeforeCheckpoint) {
            return None;
        }
        let dirty = |planner: &Planner| {
            let mut victims = Vec::with_capacity(planner.cache().dirty().count());
            victims.extend(planner.cache().dirty());
            GroupUnit { victims, ..GroupUnit::default() }
        };
        let moves = self.planners.iter().map(dirty).collect();
        let above = self.above.as_mut().map(|above| above.take_dirty(&self.planners));
        self.in_flight += 1;
        self.due.begun();
        Some(Ready::Checkpoint(Pause { moves, above: above.unwrap_or_default() }))
    }

    /// Plans as many mini-batches of `batch` as fit; the others keep waiting.
    fn plan_batch(&mut self, mut batch: VecDeque<MiniBatch<C>>) -> Result<Option<Ready<C, M>>> {
        let mut moves: Vec<GroupUnit> =
            self.planners.iter().map(|_| GroupUnit::default()).collect();
        self.planners.iter_mut().for_each(|planner| planner.begin_unit(batch.len()));
        let above = self.above.as_mut().map(|above| above.begin_unit(batch.len()));
        let mut above = above.unwrap_or_default();
        let mut minis = Vec::with_capacity(batch.len());
        let mut shed = false;
        if self.rules.hold(Rule::CutBatch) || fits_whole(&self.planners, &self.groups, &batch) {
            while let Some(mini) = batch.front() {
                match self.fits_now(mini) {
                    Ok(true) => {}
                    // Only rows on devices can be in the way.
                    Ok(false) if self.in_flight == 0 && minis.is_empty() && !shed => {
                        shed = true;
                        self.shed(&batch, &mut above);
                        continue;
                    }
                    Ok(false) => break,
                    Err(error) if minis.is_empty() => {
                        // Everything in flight is returned first, and saved.
                        self.failed = Some(error);
                        self.waiting.clear();
                        self.due.fail();
                        return Ok(None);
                    }
                    // The error recurs once these mini-batches are planned.
                    Err(_) => break,
                }
                let Some(mut mini) = batch.pop_front() else { break };
                self.plan_mini(&mut mini, &mut moves, &mut above)?;
                minis.push(mini);
            }
            self.stuck = minis.is_empty();
            assert!(
                !self.stuck || self.in_flight > 0,
                "with nothing in flight, it fits or never will"
            );
        }
        if !batch.is_empty() {
            self.waiting.push_front(Waiting::Batch(batch));
        }
        if minis.is_empty() {
            return Ok(None);
        }
        self.in_flight += 1;
        moves.iter().for_each(|part| self.counters.planned(part));
        self.above.iter().for_each(|planner| planner.planned(&above));
        self.counters.in_flight(self.in_flight);
        Ok(Some(Ready::Unit(Unit { minis, moves, above, trained: false })))
    }

    /// Whether the rows of `mini` can be pinned now; `false` if an earlier mini-batch has to retire
    /// first.
    fn fits_now(&mut self, mini: &MiniBatch<C>) -> Result<bool> {
        let mut now = true;
        for (number, group) in self.groups.iter().enumerate() {
            match self.planners[number].fits(mini.keys_of(group)) {
                Fit::Never => return Err(too_large(&self.planners, number, &self.groups, mini)),
                Fit::Later => now = false,
                Fit::Now => {}
            }
            if let Some(above) = &mut self.above {
                now &= above.fits(number, group, mini);
            }
        }
        Ok(now)
    }
}

/// Whether a whole batch certainly fits now; needed only if a rule is switched off.
fn fits_whole<C>(
    planners: &[Planner],
    groups: &[Arc<Group>],
    batch: &VecDeque<MiniBatch<C>>,
) -> bool {
    planners.iter().zip(groups).all(|(planner, group)| {
        let keys = batch.iter().flat_map(|mini| mini.keys_of(group));
        keys.map(<[Key]>::len).sum::<usize>() <= planner.cache().unpinned()
    })
}

/// The batches among waiting items, in order.
fn batches<C, M>(waiting: &VecDeque<Waiting<C, M>>) -> Vec<&VecDeque<MiniBatch<C>>> {
    let mut batches = Vec::new();
    for waiting in waiting {
        if let Waiting::Batch(batch) = waiting {
            batches.push(batch);
        }
    }
    batches
}

impl<C: Cargo, M: Send> Stage for PlanStage<C, M> {
    type Error = Error;

    fn name(&self) -> &'static str {
        "plan"
    }

    fn due(&self) -> Option<f64> {
        self.due.comes()
    }

    fn poll(&mut self) -> Result<Progress> {
        self.due.look();
        let mut any = self.retire();
        any |= self.learn();
        if self.outgoing.is_none() {
            let failed = self.failed.is_some();
            self.outgoing = self.plan()?;
            // The run ends from here on, and no other event triggers the next poll.
            any |= self.failed.is_some() != failed;
        }
        if let Some(unit) = self.outgoing.take() {
            match self.output.try_send(unit) {
                Ok(()) => any = true,
                Err(Refused::Full(unit)) => self.outgoing = Some(unit),
                Err(Refused::Closed(_)) => return Ok(Progress::Done),
            }
        }
        let idle = self.in_flight == 0 && self.waiting.is_empty() && self.outgoing.is_none();
        if idle && self.is_over() {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if let Some(above) = &mut self.above {
                let dirty = above.take_dirty(&self.planners);
                above.tier.leave(dirty);
            }
            self.finished.put(std::mem::take(&mut self.planners));
            return Ok(Progress::Done);
        }
        Ok(if any { Progress::Progressed } else { Progress::Blocked })
    }
}
