//! Stage `plan`: pins the rows of coming mini-batches, and unpins those of finished ones.
//!
//! Two distances. `horizon` batches are known by their keys, which costs some 50 bytes a key (the
//! batch itself and what `Future` knows of it; the capacity plan has the bound) and makes the
//! victims right; at most `lookahead + 1` units are planned and not retired, and their rows
//! are held. The window adapts to the memory: beyond one unit ahead it grows only while the rows
//! that it holds leave half of the slots to others. Where even less fits, a batch waits for earlier
//! ones to retire, or is cut between its mini-batches. Only a single mini-batch that does not fit
//! an empty slab ends the run.
//!
//! Asked to stop, it plans no more, lets what is in flight come back, and has a last checkpoint
//! written where there are any.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::stage::{Progress, Stage};
use stepwell_engine::{Error as EngineError, Fit, Group, GroupUnit, Planner};

use super::due::Due;
use super::spares::Spares;
use super::{Counters, Handoff, rules_of};
use crate::batch::{Item, Mark, MiniBatch, Unit};
use crate::{Error, Result};

/// Units in flight, the one that trains included, whatever part of the slots they hold.
const WINDOW_LEAST: usize = 2;
/// Units beyond those are planned while one slot in so many, or less, is held.
const WINDOW_PART: usize = 2;

#[derive(Debug)]
enum Waiting {
    Batch(VecDeque<MiniBatch>),
    Mark(Mark),
}

pub(super) struct PlanStage {
    planners: Vec<Planner>,
    groups: Vec<Arc<Group>>,
    lookahead: usize,
    horizon: usize,
    waiting: VecDeque<Waiting>,
    in_flight: usize,
    /// The front batch does not fit until something retires.
    stuck: bool,
    outgoing: Option<Unit>,
    input_closed: bool,
    counters: Arc<Counters>,
    due: Due,
    rules: Rules,
    input: Receiver<Item>,
    output: Sender<Unit>,
    retired: Receiver<Unit>,
    spares: Arc<Spares>,
    finished: Handoff<Vec<Planner>>,
}

/// Where the planner gets its work from and where it goes.
pub(super) struct PlanEnds {
    pub(super) input: Receiver<Item>,
    pub(super) output: Sender<Unit>,
    pub(super) retired: Receiver<Unit>,
    pub(super) spares: Arc<Spares>,
    pub(super) due: Due,
    pub(super) finished: Handoff<Vec<Planner>>,
}

impl PlanStage {
    pub(super) fn new(
        planners: Vec<Planner>,
        groups: Vec<Arc<Group>>,
        (lookahead, horizon): (usize, usize),
        counters: Arc<Counters>,
        ends: PlanEnds,
    ) -> Self {
        let rules = rules_of(&groups);
        Self {
            planners,
            groups,
            rules,
            lookahead,
            horizon,
            waiting: VecDeque::new(),
            in_flight: 0,
            stuck: false,
            outgoing: None,
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

    /// Takes back what was trained.
    fn retire(&mut self) -> bool {
        let mut any = false;
        while let Received::Item(unit) = self.retired.try_recv() {
            any = true;
            self.stuck = false;
            self.in_flight -= 1;
            self.due.over(&unit);
            if unit.mark.is_some() {
                self.planners.iter_mut().for_each(Planner::all_clean);
            }
            for (group, planner) in self.planners.iter_mut().enumerate() {
                if let Some(part) = unit.groups.get(group) {
                    planner.pulled(&part.fills);
                }
                for mini in &unit.minis {
                    let part = &mini.groups[group];
                    planner.retire(&part.lookup.slots, &part.occurrences);
                }
            }
            unit.minis.into_iter().for_each(|mini| self.spares.keep(mini));
        }
        any
    }

    /// Looks at keys as far as the horizon.
    fn learn(&mut self) -> bool {
        let mut any = false;
        if self.due.is_stopping() {
            self.waiting.clear();
            return false;
        }
        while !self.input_closed && self.waiting.len() <= self.horizon {
            match self.input.try_recv() {
                Received::Item(Item::Mark(mark)) => self.waiting.push_back(Waiting::Mark(mark)),
                Received::Item(Item::Batch(batch)) => {
                    for mini in &batch {
                        for (planner, part) in self.planners.iter_mut().zip(&mini.groups) {
                            planner.learn(mini.number, &part.lookup.distinct);
                        }
                    }
                    self.waiting.push_back(Waiting::Batch(batch.into()));
                }
                Received::Empty => break,
                Received::Closed => self.input_closed = true,
            }
            any = true;
        }
        any
    }

    /// The next unit, if one can be planned now.
    fn plan(&mut self) -> Result<Option<Unit>> {
        if self.due.is_now() {
            return Ok(self.plan_checkpoint());
        }
        if self.stuck || self.in_flight > self.lookahead || !self.may_widen() {
            return Ok(None);
        }
        match self.waiting.front_mut() {
            None => Ok(None),
            Some(Waiting::Mark(mark)) => {
                let mark = *mark;
                let unit = match mark {
                    Mark::Checkpoint => self.plan_checkpoint(),
                    mark => Some(Unit { mark: Some(mark), ..Unit::default() }),
                };
                if unit.is_some() {
                    self.waiting.pop_front();
                }
                Ok(unit)
            }
            Some(Waiting::Batch(_)) => self.plan_batch(),
        }
    }

    /// Whether nothing more will be planned.
    fn is_over(&self) -> bool {
        match self.due.is_stopping() {
            true => !self.due.is_now(),
            false => self.input_closed,
        }
    }

    /// Whether one more unit leaves enough of the slab to rows that nobody waits for.
    fn may_widen(&self) -> bool {
        let roomy = |planner: &Planner| planner.pinned() * WINDOW_PART <= planner.slots();
        self.in_flight < WINDOW_LEAST || self.planners.iter().all(roomy)
    }

    /// A checkpoint, once everything is at rest.
    fn plan_checkpoint(&mut self) -> Option<Unit> {
        // The model after exactly this step: nothing may be in flight.
        if self.in_flight > 0 && self.rules.hold(Rule::DrainBeforeCheckpoint) {
            return None;
        }
        let dirty = |planner: &Planner| {
            let mut victims = Vec::with_capacity(planner.cache().dirty().count());
            victims.extend(planner.cache().dirty());
            GroupUnit { victims, ..GroupUnit::default() }
        };
        let groups = self.planners.iter().map(dirty).collect();
        self.in_flight += 1;
        self.due.begun();
        Some(Unit { mark: Some(Mark::Checkpoint), groups, ..Unit::default() })
    }

    fn plan_batch(&mut self) -> Result<Option<Unit>> {
        let mut unit = Unit::default();
        unit.groups.resize_with(self.planners.len(), GroupUnit::default);
        self.planners.iter_mut().for_each(Planner::begin_unit);
        let Some(Waiting::Batch(batch)) = self.waiting.front_mut() else { return Ok(None) };
        if !self.rules.hold(Rule::CutBatch) && !fits_whole(&self.planners, batch) {
            return Ok(None);
        }
        while let Some(mini) = batch.front() {
            match fits(&mut self.planners, mini) {
                Fit::Now => {}
                Fit::Later => break,
                Fit::Never => return Err(too_large(&self.planners, &self.groups, mini)),
            }
            let Some(mut mini) = batch.pop_front() else { break };
            let number = mini.number;
            for ((planner, part), moves) in
                self.planners.iter_mut().zip(&mut mini.groups).zip(&mut unit.groups)
            {
                let lookup = &mut part.lookup;
                planner.plan(number, &lookup.distinct, moves, &mut lookup.slots)?;
            }
            unit.minis.push(mini);
        }
        if batch.is_empty() {
            self.waiting.pop_front();
        }
        if unit.minis.is_empty() {
            assert!(self.in_flight > 0, "with nothing in flight every mini-batch fits or never");
            self.stuck = true;
            return Ok(None);
        }
        self.in_flight += 1;
        unit.groups.iter().for_each(|part| self.counters.planned(part));
        self.counters.in_flight(self.in_flight);
        Ok(Some(unit))
    }
}

/// Whether a whole batch surely fits now: what is asked only where a rule is switched off.
fn fits_whole(planners: &[Planner], batch: &VecDeque<MiniBatch>) -> bool {
    planners.iter().enumerate().all(|(group, planner)| {
        let keys = batch.iter().map(|mini| mini.groups[group].lookup.distinct.len());
        keys.sum::<usize>() <= planner.cache().unpinned()
    })
}

fn fits(planners: &mut [Planner], mini: &MiniBatch) -> Fit {
    let mut worst = Fit::Now;
    for (planner, part) in planners.iter_mut().zip(&mini.groups) {
        match planner.fits(&part.lookup.distinct) {
            Fit::Never => return Fit::Never,
            Fit::Later => worst = Fit::Later,
            Fit::Now => {}
        }
    }
    worst
}

fn too_large(planners: &[Planner], groups: &[Arc<Group>], mini: &MiniBatch) -> Error {
    let all = planners.iter().zip(groups).zip(&mini.groups);
    let largest = all.max_by_key(|((_, group), part)| {
        part.lookup.distinct.len() * 1_000_000 / group.slab.slots().max(1)
    });
    let Some(((planner, group), part)) = largest else {
        return Error::Config("a model without tables was planned".to_owned());
    };
    let rows = part.lookup.distinct.len();
    let bytes = planner.slab_bytes(rows as u64, group.spec.row_lanes());
    let most = planner.slab_bytes(part.lookup.occurrence_rows.len() as u64, group.spec.row_lanes());
    Error::Engine(EngineError::MiniBatchTooLarge {
        examples: mini.examples(),
        rows,
        table: group.spec.name.clone(),
        slots: group.slab.slots(),
        row_bytes: bytes / rows.max(1) as u64,
        // The groups share the memory equally.
        needed: bytes * groups.len() as u64,
        needed_most: most * groups.len() as u64,
    })
}

impl Stage for PlanStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "plan"
    }

    fn poll(&mut self) -> Result<Progress> {
        self.due.look();
        let mut any = self.retire();
        any |= self.learn();
        if self.outgoing.is_none() {
            self.outgoing = self.plan()?;
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
            let planners = std::mem::take(&mut self.planners);
            *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = Some(planners);
            return Ok(Progress::Done);
        }
        Ok(if any { Progress::Progressed } else { Progress::Blocked })
    }
}

/// An empty place for a stage's result.
pub(super) fn handoff<T>() -> Handoff<T> {
    Arc::new(Mutex::new(None))
}
