//! A rank's own blocks of a mini-batch that several ranks compute.

use stepwell_base::owner::RankOf;
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Borrowed, Guests, Part, Purpose};
use stepwell_fabric::{Fabric, Message};

use super::block_results::{BlockResults, NextStep, lanes_of, put_dense};
use super::trained::{RowLaps, TrainedModel};
use crate::batch::{MiniBatch, Shared};
use crate::exchange::blocks_of_all;
use crate::ranks::{Late, Ranks};
use crate::run_plan::RunPlan;
use crate::{Error, Result};

/// Computes a rank's own blocks.
pub(super) struct OwnBlocks {
    pub(super) fabric: Fabric,
    guests: Guests,
    /// Asks all ranks to end.
    stop: StopRequest,
    /// Delay of this rank in every step.
    delay: Option<Late>,
    dense_sums: DenseSums,
}

/// Where the dense gradients of ranks are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DenseSums {
    /// At the ranks, each of which sums its lanes.
    ByLanes,
    /// By a protocol, out of step.
    ByProtocol,
}

/// Messages for a mini-batch that arrive before its blocks are computed, and borrowed rows.
#[derive(Default)]
pub(super) struct Arrived<'a> {
    /// The owners' answers.
    pub(super) answers: Vec<Message>,
    /// Messages with rows sent a step ahead, by owner.
    pub(super) early: &'a mut [Option<Message>],
    /// Borrowed rows, if the mini-batch may use some.
    pub(super) borrowed: Option<&'a mut Borrowed>,
    /// Whether this rank has sent rows for the next step.
    pub(super) is_ahead: bool,
}

impl OwnBlocks {
    /// Computes the blocks of a rank that is one of `ranks`.
    ///
    /// # Errors
    /// If the system lacks memory for other ranks' rows.
    pub(super) fn new(
        plan: &RunPlan<'_>,
        model: &TrainedModel,
        ranks: &Ranks,
        delay: Option<Late>,
        dense_sums: DenseSums,
    ) -> Result<Self> {
        let Ranks { fabric, stop, .. } = ranks;
        let own = blocks_of_all(plan).of_rank(fabric.place());
        let examples = own.examples_max();
        let ids = model.model.features().ids_by_table();
        let rows: Vec<usize> = ids.into_iter().map(|ids| ids as usize * examples).collect();
        let guests = Guests::new(model.embeddings.tables(), &rows);
        let guests = guests.map_err(Error::no_memory_of_ranks)?;
        let (fabric, stop) = (fabric.clone(), stop.clone());
        Ok(Self { fabric, guests, stop, delay, dense_sums })
    }

    /// Gives back the buffers of messages.
    pub(super) fn keep(&self, messages: impl IntoIterator<Item = Message>) {
        messages.into_iter().for_each(|message| self.fabric.keep(message));
    }

    /// An empty message for each rank, with room for `bytes(rank)` bytes.
    pub(super) fn messages(&self, bytes: impl Fn(usize) -> usize) -> Vec<Message> {
        (0..self.fabric.size()).map(|rank| self.fabric.message_of(bytes(rank))).collect()
    }

    /// Computes this rank's blocks of `mini` with `model`; returns the message to each rank.
    ///
    /// # Errors
    /// Names the rank that sent an invalid message.
    pub(super) fn compute(
        &mut self,
        model: &mut TrainedModel,
        mini: &mut MiniBatch,
        arrived: Arrived<'_>,
    ) -> Result<Vec<Message>> {
        let trains = mini.purpose == Purpose::Train;
        let Arrived { answers, early, mut borrowed, is_ahead } = arrived;
        let Shared { parts, routes, .. } = &mut mini.cargo.shared;
        let lent = borrowed.as_deref_mut().map(|borrowed| (borrowed, model.embeddings.tables()));
        self.guests.take((&answers, early), parts, routes, lent)?;
        self.keep(early.iter_mut().filter_map(Option::take));
        let mut parts = std::mem::take(parts);
        if trains {
            parts.iter_mut().for_each(Part::sort_bags);
        }
        let rows = model.embeddings.visit(&mut parts, &self.guests);
        if let Some(delay) = self.delay.filter(|_| trains) {
            delay.hold_up(self.fabric.rank(), mini.cargo.after.step);
        }
        let sums = model.run_blocks(&mini.cargo, &rows, trains)?;
        let (cargo, blocks) = (&mini.cargo, mini.cargo.blocks);
        let sums_lanes = trains && self.dense_sums == DenseSums::ByLanes;
        let lanes = if sums_lanes { model.dense.summed_count() } else { 0 };
        let kinds = model.model.label_lanes();
        let routes = if trains { &cargo.shared.routes[..] } else { &[] };
        let mut messages = self.messages(|rank| {
            let lanes = lanes_of(lanes, RankOf { rank, ranks: self.fabric.size() }).len();
            BlockResults::bytes_max(blocks, lanes, kinds, rank)
                + model.embeddings.sums_bytes_max(routes, rank, blocks)
        });
        let logits = &model.buffers.logits;
        let results = BlockResults { sums: &sums, logits, examples: cargo, kinds, trains };
        // Read once: all ranks receive the same value, and end after the same step.
        let next =
            NextStep { asks: self.stop.is_made(), lends_on: cargo.shared.lends_on, is_ahead };
        for (to, message) in messages.iter_mut().enumerate() {
            results.put(message, to, next);
        }
        if trains {
            put_dense(&mut *model.dense, &model.pool, &mut messages, blocks, lanes)?;
            let gradients = model.buffers.gradients(cargo, model.embeddings.columns().count);
            let laps = RowLaps(&model.profile);
            let own = (gradients, blocks);
            if let Some(borrowed) = borrowed.as_deref() {
                model.embeddings.update_borrowed((&rows, mini.number), own, borrowed, &laps);
            }
            let owners = (routes, borrowed.as_deref());
            model.embeddings.sum_for_owners(&rows, own, owners, &mut messages);
        }
        drop(rows);
        if let Some(borrowed) = borrowed {
            borrowed.given_back(&parts);
        }
        mini.cargo.shared.parts = parts;
        self.keep(answers);
        Ok(messages)
    }
}
