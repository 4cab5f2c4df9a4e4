//! Stage `lower`: copies rows down from devices, before any other stage on the host moves rows.

use std::sync::Arc;

use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};

use super::flow::{Cargo, Pause, Ready, Unit};
use crate::device::{AboveMoves, Lowerer};
use crate::{DeviceTier, Error, Group, Result};

/// Stage `lower`: copies rows from devices down into their host slots.
pub struct LowerStage<C, M> {
    groups: Vec<Arc<Group>>,
    tier: Arc<DeviceTier>,
    /// Lowerers by device.
    lowerers: Vec<Lowerer>,
    /// The current item, its current list of rows (by group and device), and how many rows of that
    /// list were begun.
    at_hand: Option<(Ready<C, M>, (usize, usize))>,
    /// Rows to lower after the last item.
    last: Option<(AboveMoves, (usize, usize))>,
    input: Receiver<Ready<C, M>>,
    output: Sender<Ready<C, M>>,
}

impl<C: Cargo, M: Send> LowerStage<C, M> {
    pub(super) fn new(
        (tier, groups): (&Arc<DeviceTier>, &[Arc<Group>]),
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
    fn lower(
        &mut self,
        moves: &AboveMoves,
        (list, begun): &mut (usize, usize),
    ) -> Result<Progress> {
        let devices = self.tier.len();
        let mut any = false;
        while let Some(unit) = moves.units.get(*list) {
            let rest = &unit.victims[*begun..];
            if rest.is_empty() {
                (*list, *begun) = (*list + 1, 0);
                continue;
            }
            let (group, device) = (*list / devices, *list % devices);
            let count = self.lowerers[device].begin(group, rest, moves.over)?;
            if count == 0 {
                break;
            }
            *begun += count;
            any = true;
        }
        for lowerer in &mut self.lowerers {
            any |= lowerer.advance(&self.groups, false)?;
        }
        let is_over = *list == moves.units.len() && self.lowerers.iter().all(Lowerer::is_idle);
        Ok(match (is_over, any) {
            (true, _) => Progress::Done,
            (false, true) => Progress::Progressed,
            (false, false) => Progress::Pending,
        })
    }

    fn lower_at_hand(&mut self, next: Ready<C, M>, mut begun: (usize, usize)) -> Result<Progress> {
        let progress = match &next {
            Ready::Unit(Unit { above, .. }) | Ready::Checkpoint(Pause { above, .. }) => {
                self.lower(above, &mut begun)?
            }
            Ready::Mark(_) => Progress::Done,
        };
        if progress != Progress::Done {
            self.at_hand = Some((next, begun));
            return Ok(progress);
        }
        match self.output.try_send(next) {
            Ok(()) => Ok(Progress::Progressed),
            Err(Refused::Full(next)) => {
                self.at_hand = Some((next, begun));
                Ok(Progress::Blocked)
            }
            Err(Refused::Closed(_)) => Ok(Progress::Done),
        }
    }

    /// Lowers the rows left on devices at the end.
    fn lower_last(&mut self) -> Result<Progress> {
        let (moves, mut begun) =
            self.last.take().unwrap_or_else(|| (self.tier.take_left(), (0, 0)));
        let progress = self.lower(&moves, &mut begun)?;
        if progress != Progress::Done {
            self.last = Some((moves, begun));
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
        if let Some((next, begun)) = self.at_hand.take() {
            return self.lower_at_hand(next, begun);
        }
        match self.input.try_recv() {
            Received::Item(next) => self.lower_at_hand(next, (0, 0)),
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => self.lower_last(),
        }
    }

    fn wait(&mut self) -> Result<()> {
        let busy = self.lowerers.iter_mut().find(|lowerer| !lowerer.is_idle());
        busy.map_or(Ok(()), |lowerer| lowerer.advance(&self.groups, true).map(drop))
    }
}
