//! Stage `lower`: copies rows down from devices, before any other stage on the host moves rows.

use std::sync::Arc;

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};

use super::items::{Pause, Ready, Unit};
use crate::device::Lowerer;
use crate::device_tier::DeviceTier;
use crate::device_tier::moves::{AboveMoves, NextMove};
use crate::group::Group;
use crate::mini_batch::Cargo;
use crate::{Error, Result};

/// Stage `lower`: copies rows from devices down into their host slots.
pub struct LowerStage<C, M> {
    groups: Vec<Arc<Group>>,
    tier: Arc<DeviceTier>,
    /// Lowerers by device.
    lowerers: Vec<Lowerer>,
    /// The current item, and its next row to lower.
    at_hand: Option<(Ready<C, M>, NextMove)>,
    /// Rows to lower after the last item, and the next of these.
    last: Option<(AboveMoves, NextMove)>,
    input: Receiver<Ready<C, M>>,
    output: Sender<Ready<C, M>>,
}

impl<C: Cargo, M: Send> LowerStage<C, M> {
    pub(super) fn new(
        tier: &Arc<DeviceTier>,
        groups: &[Arc<Group>],
        input: Receiver<Ready<C, M>>,
        output: Sender<Ready<C, M>>,
    ) -> Result<Self> {
        let lowerers = (0..tier.len()).map(|device| Lowerer::new(tier, device, groups));
        Ok(Self {
            lowerers: lowerers.collect::<Result<_>>()?,
            groups: groups.to_vec(),
            tier: Arc::clone(tier),
            at_hand: None,
            last: None,
            input,
            output,
        })
    }

    /// Continues with rows that leave devices; `Done` once all are in their host slots.
    fn lower(&mut self, moves: &AboveMoves, next: &mut NextMove) -> Result<Progress> {
        let devices = self.tier.len();
        let mut any = false;
        while let Some(unit) = moves.units.get(next.list) {
            let rest = &unit.victims[next.row..];
            if rest.is_empty() {
                next.next_list();
                continue;
            }
            let (group, device) = (next.list / devices, next.list % devices);
            let count = self.lowerers[device].begin(group, rest, moves.over)?;
            if count == 0 {
                break;
            }
            next.row += count;
            any = true;
        }
        for lowerer in &mut self.lowerers {
            any |= lowerer.advance(&self.groups)?;
        }
        let is_over = next.list == moves.units.len() && self.lowerers.iter().all(Lowerer::is_idle);
        Ok(match (is_over, any) {
            (true, _) => Progress::Done,
            (false, true) => Progress::Progressed,
            (false, false) => Progress::Pending,
        })
    }

    fn lower_at_hand(&mut self, item: Ready<C, M>, mut next: NextMove) -> Result<Progress> {
        let progress = match &item {
            Ready::Unit(Unit { above, .. }) | Ready::Checkpoint(Pause { above, .. }) => {
                self.lower(above, &mut next)?
            }
            Ready::Mark(_) => Progress::Done,
        };
        if progress != Progress::Done {
            self.at_hand = Some((item, next));
            return Ok(progress);
        }
        match self.output.try_send(item) {
            Ok(()) => Ok(Progress::Progressed),
            Err(Refused::Full(item)) => {
                self.at_hand = Some((item, next));
                Ok(Progress::Blocked)
            }
            Err(Refused::Closed(_)) => Ok(Progress::Done),
        }
    }

    /// Lowers the rows left on devices at the end.
    fn lower_last(&mut self) -> Result<Progress> {
        let (moves, mut next) =
            self.last.take().unwrap_or_else(|| (self.tier.take_left(), NextMove::default()));
        let progress = self.lower(&moves, &mut next)?;
        if progress != Progress::Done {
            self.last = Some((moves, next));
        }
        Ok(progress)
    }
}

impl<C: Cargo, M: Send> Stage for LowerStage<C, M> {
    type Error = Error;

    fn name(&self) -> &'static str {
        "lower"
    }

    /// Other stages wait for the slots that receive these rows.
    fn gives_way(&self) -> bool {
        false
    }

    fn poll(&mut self) -> Result<Progress> {
        if let Some((item, next)) = self.at_hand.take() {
            return self.lower_at_hand(item, next);
        }
        match self.input.try_recv() {
            Received::Item(item) => self.lower_at_hand(item, NextMove::default()),
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => self.lower_last(),
        }
    }

    fn wait(&mut self) -> Result<()> {
        let busy = self.lowerers.iter_mut().find(|lowerer| !lowerer.is_idle());
        busy.map_or(Ok(()), |lowerer| lowerer.wait(&self.groups))
    }
}
