//! Stage `ask`, with several ranks: each rank asks the owners of the rows that its part of a
//! mini-batch needs, and receives the requests of all ranks for its own rows.
//!
//! Keys travel as far ahead as the planner knows them, so a rank only waits for another one that is
//! slower to read its data.
//!
//! Once a batch is complete, the stage also decides which rows are lent for it ([`Lending`]).
//!
//! When a checkpoint is due by the clock, rank 0 adds that to its requests: all ranks learn it at
//! the same place. A rank whose part of a mini-batch is malformed sends its error in place of a
//! request: all end before this mini-batch, as one rank would.
//!
//! - **Bounds.** [`ASKS`] mini-batches wait for other ranks' requests, and one batch is being
//!   completed.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_engine::{Grouper, TableSpec, put_ask, unite};
use stepwell_fabric::collective::{AllToAll, Collective as _};
use stepwell_fabric::{Error as FabricError, Fabric, Message, Reader};

use super::counters::Counters;
use super::lend::Lending;
use super::word::Word;
use crate::batch::{Item, Mark, MiniBatch, Shared};
use crate::exchange::ASKS;
use crate::{Error, Result, talk};

pub(super) struct AskStage {
    fabric: Fabric,
    tables: Vec<TableSpec>,
    grouper: Grouper,
    /// Times checkpoints that are due by the clock; used by rank 0 alone.
    timer: Option<Timer>,
    counters: Arc<Counters>,
    /// Decides which of this rank's rows are lent.
    lending: Lending,
    /// Whether a checkpoint precedes the current batch.
    keeps: bool,
    /// Mini-batches of the current batch that were not yet requested.
    fresh: VecDeque<MiniBatch>,
    /// Requested mini-batches; `None` if this rank reports a failure.
    asked: VecDeque<(Option<MiniBatch>, AllToAll)>,
    /// Completed mini-batches of the current batch.
    whole: Vec<MiniBatch>,
    /// The item after the current batch.
    next: Option<Item>,
    /// Failure that ends the run after the current batch, on all ranks.
    failed: Option<Failed>,
    /// The failure that this rank reported, if its own data failed.
    own: Option<String>,
    outgoing: Option<Item>,
    /// Whether no more input is taken.
    over: bool,
    input: Receiver<Item>,
    output: Sender<Item>,
}

/// Reason why the run ends here, and whether it saves what was trained before.
struct Failed {
    why: String,
    keeps: bool,
}

/// Measures the time between checkpoints.
pub(super) struct Timer {
    clock: Arc<dyn Clock>,
    seconds: f64,
    since: f64,
}

impl Timer {
    /// A timer that is due every `seconds` seconds.
    pub(super) fn new(clock: Arc<dyn Clock>, seconds: f64) -> Self {
        let since = clock.seconds();
        Self { clock, seconds, since }
    }

    /// Whether it is due now; if so, restarts it.
    fn is_due(&mut self) -> bool {
        let now = self.clock.seconds();
        let due = now - self.since >= self.seconds;
        if due {
            self.since = now;
        }
        due
    }
}

impl AskStage {
    pub(super) fn new(
        fabric: Fabric,
        lending: Lending,
        timer: Option<Timer>,
        counters: Arc<Counters>,
        input: Receiver<Item>,
        output: Sender<Item>,
    ) -> Self {
        Self {
            fabric,
            grouper: Grouper::default(),
            timer,
            counters,
            tables: lending.tables().to_vec(),
            lending,
            keeps: false,
            fresh: VecDeque::new(),
            asked: VecDeque::new(),
            whole: Vec::new(),
            next: None,
            failed: None,
            own: None,
            outgoing: None,
            over: false,
            input,
            output,
        }
    }

    /// Whether no mini-batch of the current batch is incomplete.
    fn is_at_rest(&self) -> bool {
        self.fresh.is_empty() && self.asked.is_empty()
    }

    /// Emits the current batch if it is complete, and takes the next item.
    fn turn(&mut self) -> Result<bool> {
        if !self.is_at_rest() || self.outgoing.is_some() {
            return Ok(false);
        }
        if std::mem::take(&mut self.keeps) {
            self.outgoing = Some(Item::Checkpoint);
            return Ok(true);
        }
        if !self.whole.is_empty() {
            let mut batch = std::mem::take(&mut self.whole);
            self.lending.lend(&mut batch);
            self.outgoing = Some(Item::Batch(batch));
            return Ok(true);
        }
        if let Some(failed) = &mut self.failed {
            if std::mem::take(&mut failed.keeps) {
                self.outgoing = Some(Item::Checkpoint);
                return Ok(true);
            }
            let Some(Failed { why, keeps }) = self.failed.take() else { return Ok(false) };
            let error = Box::new(Error::DataOfRanks(why));
            self.outgoing = Some(Item::Mark(Mark::Failed { error, keeps, place: None }));
            self.over = true;
            return Ok(true);
        }
        if self.over {
            return Ok(false);
        }
        match self.next.take() {
            Some(Item::Batch(batch)) => self.fresh = batch.into(),
            Some(Item::Mark(Mark::Failed { error, keeps, place })) => {
                self.fail(&error, keeps, place)?;
            }
            Some(other) => self.outgoing = Some(other),
            None => match self.input.try_recv() {
                Received::Item(item) => self.next = Some(item),
                Received::Empty => return Ok(false),
                Received::Closed => self.over = true,
            },
        }
        Ok(true)
    }

    /// Reports that this rank's data fails at the next mini-batch, in place of a request: other
    /// ranks need not have seen it. Others may report it, too.
    fn fail(&mut self, error: &Error, keeps: bool, place: Option<(u32, u64)>) -> Result<()> {
        let word = Word::Fails { keeps, place, why: error.to_string() };
        let mut messages: Vec<_> = (0..self.fabric.size()).map(|_| self.fabric.message()).collect();
        messages.iter_mut().for_each(|message| word.put(message));
        self.own = Some(error.to_string());
        let exchange = AllToAll::start(&self.fabric, talk::ASK, messages)?;
        self.asked.push_back((None, exchange));
        Ok(())
    }

    /// Requests fresh mini-batches, up to the number that may wait.
    fn ask(&mut self) -> Result<bool> {
        let mut any = false;
        while self.asked.len() < ASKS
            && let Some(mut mini) = self.fresh.pop_front()
        {
            let exchange = self.ask_for(&mut mini)?;
            self.asked.push_back((Some(mini), exchange));
            any = true;
        }
        Ok(any)
    }

    fn ask_for(&mut self, mini: &mut MiniBatch) -> Result<AllToAll> {
        let (rank, ranks) = (self.fabric.rank(), self.fabric.size());
        let is_first = self.asked.is_empty() && self.whole.is_empty();
        let keeps = is_first && self.timer.as_mut().is_some_and(Timer::is_due);
        let Shared { parts, routes, .. } = &mut mini.cargo.shared;
        // This rank's own request moves to `shared.parts`; `mini.parts` will have the requests of
        // all ranks to this one.
        std::mem::swap(&mut mini.parts, parts);
        mini.parts.resize_with(parts.len(), Default::default);
        routes.resize_with(parts.len(), Default::default);
        let mut messages: Vec<_> = (0..ranks).map(|_| self.fabric.message()).collect();
        let word = Word::Asks { after_checkpoint: keeps };
        messages.iter_mut().for_each(|message| word.put(message));
        for ((table, part), routes) in self.tables.iter().zip(parts).zip(routes) {
            routes.find(table, &part.request, ranks);
            for (owner, message) in messages.iter_mut().enumerate() {
                put_ask(message, table, &part.request, (routes, owner));
            }
            let of_others = part.request.distinct.len() - routes.of(rank).len();
            self.counters.add_asked(of_others, of_others * table.weight_count());
        }
        Ok(AllToAll::start(&self.fabric, talk::ASK, messages)?)
    }

    /// Completes mini-batches from received requests.
    fn unite(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some((_, exchange)) = self.asked.front_mut()
            && let Some(messages) = exchange.poll(&self.fabric)?
            && let Some((mini, _)) = self.asked.pop_front()
        {
            let mut readers: Vec<_> = messages.iter().map(Message::reader).collect();
            let all_ask = self.hear(&mut readers)?;
            let Some(mut mini) = mini.filter(|_| all_ask) else {
                // Earlier mini-batches continue; nothing after them does.
                self.fresh.clear();
                self.asked.clear();
                self.next = None;
                return Ok(true);
            };
            unite(&mut self.grouper, &self.tables, readers, &mut mini.parts)?;
            messages.into_iter().for_each(|message| self.fabric.keep(message));
            self.whole.push(mini);
            any = true;
        }
        Ok(any)
    }
}

impl AskStage {
    /// Reads all ranks' messages for the next mini-batch; returns whether all ask. Of several
    /// failures, the one with the first line counts, as one rank would have met it first.
    fn hear(&mut self, readers: &mut [Reader<'_>]) -> Result<bool> {
        let (mut keeps_before, mut first) = (false, None);
        for (rank, reader) in readers.iter_mut().enumerate() {
            let wrong = |why| FabricError::malformed(rank, why);
            match Word::read(reader).map_err(wrong)? {
                Word::Asks { after_checkpoint } => keeps_before |= after_checkpoint,
                Word::Fails { keeps, place, why } => {
                    let order = place.unwrap_or((u32::MAX, u64::MAX));
                    if first.as_ref().is_none_or(|(other, _, _)| order < *other) {
                        first = Some((order, keeps, why));
                    }
                }
            }
        }
        let Some((_, keeps, why)) = first else {
            self.keeps |= keeps_before;
            return Ok(true);
        };
        self.failed = Some(Failed { why, keeps });
        Ok(false)
    }
}

impl Stage for AskStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "ask"
    }

    fn poll(&mut self) -> Result<Progress> {
        let told = self.advance();
        // If others end for their own reasons, this rank reports the failure it found.
        match (told, self.own.take()) {
            (Err(Error::Fabric(_)), Some(why)) => Err(Error::DataOfRanks(why)),
            (told, own) => {
                self.own = own;
                told
            }
        }
    }
}

impl AskStage {
    fn advance(&mut self) -> Result<Progress> {
        if self.failed.is_none() {
            // If all stages are idle, it is this one that notices another rank's failure.
            self.fabric.check()?;
        }
        let mut any = self.unite()?;
        any |= self.ask()?;
        any |= self.turn()?;
        if let Some(item) = self.outgoing.take() {
            match self.output.try_send(item) {
                Ok(()) => any = true,
                Err(Refused::Full(item)) => self.outgoing = Some(item),
                Err(Refused::Closed(_)) => return Ok(Progress::Done),
            }
        }
        let rests = self.is_at_rest() && self.whole.is_empty() && self.failed.is_none();
        if self.over && rests && self.outgoing.is_none() {
            return Ok(Progress::Done);
        }
        Ok(if any { Progress::Progressed } else { Progress::Blocked })
    }
}
