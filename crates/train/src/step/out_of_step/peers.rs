//! State of all ranks, as this rank knows it as an owner and as a requester.

use std::collections::VecDeque;

use stepwell_fabric::{Fabric, Message, Result};
use stepwell_sync::Counts;

use crate::report::OutOfStepReport;
use crate::run_plan::RankPlan;
use crate::talk;

/// All ranks, including this one, as this owner sees them.
#[derive(Debug)]
pub(super) struct Peers {
    ranks: Vec<Rank>,
    /// The rows of this rank's next mini-batch, by owner.
    rows: Vec<Option<Message>>,
    /// Number of answers, and the sum and maximum of the steps that their rows lacked.
    answers: u64,
    lacked: u64,
    lacked_max: u64,
    depends_on_time: bool,
}

#[derive(Debug, Default)]
struct Rank {
    /// Gradients that the rank sent, of steps that are not in the rows.
    learned: VecDeque<Message>,
    /// Numbers of steps whose gradients the rank has sent, and for which it was sent rows.
    received: u64,
    answered: u64,
}

impl Peers {
    pub(super) fn new(plan: RankPlan) -> Self {
        let RankPlan { count, depends_on_time, .. } = plan;
        let (rows, ranks) = (vec![None; count], (0..count).map(|_| Rank::default()).collect());
        Self { ranks, rows, answers: 0, lacked: 0, lacked_max: 0, depends_on_time }
    }

    /// Receives gradients.
    pub(super) fn receive(&mut self, fabric: &Fabric) -> Result<bool> {
        let mut any = false;
        for (from, rank) in self.ranks.iter_mut().enumerate() {
            while let Some(message) = fabric.receive(from, talk::LEARNED)? {
                rank.learned.push_back(message);
                rank.received += 1;
                any = true;
            }
        }
        Ok(any)
    }

    /// Returns the earliest step before `last` whose rows some rank waits for, and all ranks that
    /// wait for it.
    pub(super) fn asking(&self, last: u64) -> Option<(u64, Vec<usize>)> {
        let asks = |rank: &Rank| rank.answered == rank.received && rank.received < last;
        let asking = self.ranks.iter().filter(|rank| asks(rank));
        let step = asking.map(|rank| rank.received).min()?;
        let all = self.ranks.iter().enumerate();
        let of_step = all.filter(|(_, rank)| asks(rank) && rank.received == step);
        Some((step, of_step.map(|(number, _)| number).collect()))
    }

    /// Records that a rank was sent rows that lack `lacks` steps; `None` for a server, which reads
    /// no rows.
    pub(super) fn answered(&mut self, rank: usize, lacks: Option<u64>) {
        self.ranks[rank].answered += 1;
        let Some(lacks) = lacks else { return };
        self.answers += 1;
        self.lacked += lacks;
        self.lacked_max = self.lacked_max.max(lacks);
    }

    /// Whether the rows of this rank's next mini-batch have arrived.
    pub(super) fn rows_are_here(&mut self, fabric: &Fabric) -> Result<bool> {
        for (from, rows) in self.rows.iter_mut().enumerate().filter(|(_, rows)| rows.is_none()) {
            *rows = fabric.receive(from, talk::ROWS)?;
        }
        Ok(self.rows.iter().all(Option::is_some))
    }

    /// Takes the rows of this rank's next mini-batch.
    pub(super) fn take_rows(&mut self) -> Vec<Message> {
        self.rows.iter_mut().filter_map(Option::take).collect()
    }

    /// Takes all ranks' gradients of the next step, once all have arrived.
    pub(super) fn take_learned(&mut self) -> Option<Vec<Message>> {
        if self.ranks.iter().any(|rank| rank.learned.is_empty()) {
            return None;
        }
        Some(self.ranks.iter_mut().filter_map(|rank| rank.learned.pop_front()).collect())
    }

    /// The figures of the run so far, including the protocol's.
    pub(super) fn figures(&self, dense: Counts) -> OutOfStepReport {
        OutOfStepReport {
            staleness_max: self.lacked_max,
            staleness_mean: self.lacked as f64 / self.answers.max(1) as f64,
            gradients: dense.given,
            dropped: dense.dropped,
            updates: dense.updates,
            age_max: dense.age_max,
            depends_on_time: self.depends_on_time,
        }
    }
}
