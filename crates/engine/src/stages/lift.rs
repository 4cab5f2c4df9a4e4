//! Stage `lift`: copies rows up to devices.

use std::sync::Arc;

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_device::Event;

use super::items::{Ready, Unit};
use crate::device::Lifter;
use crate::device_tier::DeviceTier;
use crate::device_tier::moves::NextMove;
use crate::group::Group;
use crate::mini_batch::Cargo;
use crate::{Error, Result};

/// Stage `lift`: copies the rows of units up to their devices. A unit continues as soon as all
/// copies are queued; its steps wait on the devices for an event.
pub struct LiftStage<C, M> {
    groups: Vec<Arc<Group>>,
    tier: Arc<DeviceTier>,
    /// Lifters by device.
    lifters: Vec<Lifter>,
    /// The current unit, and its next row to send.
    at_hand: Option<(Unit<C>, NextMove)>,
    ready: Option<Ready<C, M>>,
    /// The device whose upload buffers are full.
    waits_for: Option<usize>,
    input: Receiver<Ready<C, M>>,
    output: Sender<Ready<C, M>>,
}

impl<C: Cargo, M: Send> LiftStage<C, M> {
    pub(super) fn new(
        tier: &Arc<DeviceTier>,
        groups: &[Arc<Group>],
        input: Receiver<Ready<C, M>>,
        output: Sender<Ready<C, M>>,
    ) -> Result<Self> {
        let lifters = (0..tier.len()).map(|device| Lifter::new(tier, device, groups));
        Ok(Self {
            lifters: lifters.collect::<Result<_>>()?,
            groups: groups.to_vec(),
            tier: Arc::clone(tier),
            at_hand: None,
            ready: None,
            waits_for: None,
            input,
            output,
        })
    }

    /// Continues with the rows of `unit`; `Done` once all are sent. Changes in hash tables are left
    /// to the unit's first step.
    fn lift(&mut self, unit: &mut Unit<C>, next: &mut NextMove) -> Result<Progress> {
        let devices = self.lifters.len();
        while let Some(of) = unit.above.units.get(next.list) {
            let rest = &of.fills[next.row..];
            if rest.is_empty() {
                next.next_list();
                continue;
            }
            let (group, device) = (next.list / devices, next.list % devices);
            let lifter = &mut self.lifters[device];
            if !lifter.has_room()? {
                self.waits_for = Some(device);
                return Ok(Progress::Pending);
            }
            next.row += lifter.send(group, &self.groups[group], rest, unit.above.over)?;
        }
        for (list, of) in unit.above.units.iter_mut().enumerate() {
            let changes = std::mem::take(&mut of.changes);
            self.tier.devices[list % devices].leave_changes(list / devices, changes);
        }
        let sent = self.lifters.iter().map(Lifter::sent);
        let sent = Arc::new(sent.collect::<Result<Vec<Event>>>()?);
        for part in unit.minis.iter_mut().flat_map(|mini| &mut mini.parts) {
            part.above.lifted = Some(Arc::clone(&sent));
        }
        Ok(Progress::Done)
    }

    fn lift_unit(&mut self, mut unit: Unit<C>, mut next: NextMove) -> Result<Progress> {
        let progress = self.lift(&mut unit, &mut next)?;
        if progress != Progress::Done {
            self.at_hand = Some((unit, next));
            return Ok(progress);
        }
        self.pass_on(Ready::Unit(unit))
    }

    fn pass_on(&mut self, next: Ready<C, M>) -> Result<Progress> {
        match self.output.try_send(next) {
            Ok(()) => Ok(Progress::Progressed),
            Err(Refused::Full(next)) => {
                self.ready = Some(next);
                Ok(Progress::Blocked)
            }
            Err(Refused::Closed(_)) => Ok(Progress::Done),
        }
    }
}

impl<C: Cargo, M: Send> Stage for LiftStage<C, M> {
    type Error = Error;

    fn name(&self) -> &'static str {
        "lift"
    }

    /// A copy that begins late finishes late.
    fn gives_way(&self) -> bool {
        false
    }

    fn poll(&mut self) -> Result<Progress> {
        self.waits_for = None;
        if let Some(next) = self.ready.take() {
            return self.pass_on(next);
        }
        if let Some((unit, next)) = self.at_hand.take() {
            return self.lift_unit(unit, next);
        }
        match self.input.try_recv() {
            Received::Item(Ready::Unit(unit)) => self.lift_unit(unit, NextMove::default()),
            Received::Item(next) => self.pass_on(next),
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => Ok(Progress::Done),
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.waits_for.map_or(Ok(()), |device| self.lifters[device].wait_for_room())
    }
}
