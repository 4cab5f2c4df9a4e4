//! Stage `ask`, where several ranks train: each asks the owners of the rows that its part of a
//! mini-batch needs, and has from there on the rows that all ask of it.
//!
//! Keys travel as far ahead as the planner knows them, so that waiting for another rank is waiting
//! for the slowest one to read, and nothing else.
//!
//! Once a batch is whole, it also decides which rows are lent for it ([`Lending`]).
//!
//! Rank 0 also says with what it asks that a checkpoint comes before a batch, where that is due by
//! the clock: all ranks hear it at the same place. A rank whose part of a mini-batch is malformed
//! says that in the place of what it would ask: all end before this mini-batch, as one rank would.
//!
//! - **Bounds.** [`ASKS`] mini-batches wait for what other ranks ask; one batch is being made of
//!   them.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Received, Receiver, Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_engine::{Grouper, TableSpec, put_ask, unite};
use stepwell_fabric::collective::{AllToAll, Collective as _};
use stepwell_fabric::{Error as FabricError, Fabric, Message, Reader};

use super::Counters;
use super::lend::Lending;
use super::word::Word;
use crate::batch::{Item, Mark, MiniBatch, Shared};
use crate::{Error, Result, talk};

/// Mini-batches that wait for what other ranks ask: their messages never fill an inbox.
pub(crate) const ASKS: usize = 8;

pub(super) struct AskStage {
    fabric: Fabric,
    tables: Vec<TableSpec>,
    grouper: Grouper,
    /// When a checkpoint is due by the clock, which rank 0 alone looks at.
    timer: Option<Timer>,
    counters: Arc<Counters>,
    /// What is lent of the rows here.
    lending: Lending,
    /// Whether a checkpoint comes before the batch at hand.
    keeps: bool,
    /// Mini-batches of the batch at hand that were not asked for yet.
    fresh: VecDeque<MiniBatch>,
    /// What is asked for; none where this rank says that it fails.
    asked: VecDeque<(Option<MiniBatch>, AllToAll)>,
    /// Those of the batch at hand that are whole.
    whole: Vec<MiniBatch>,
    /// What comes after the batch at hand.
    next: Option<Item>,
    /// Why no rank goes further than the batch at hand.
    failed: Option<Failed>,
    /// What this rank said of its data.
    own: Option<String>,
    outgoing: Option<Item>,
    /// Nothing more is taken.
    over: bool,
    input: Receiver<Item>,
    output: Sender<Item>,
}

/// Why the run ends here, and whether it keeps what was trained before.
struct Failed {
    why: String,
    keeps: bool,
}

/// Counts the time from one checkpoint to the next.
pub(super) struct Timer {
    clock: Arc<dyn Clock>,
    seconds: f64,
    since: f64,
}

impl Timer {
    /// It is due every so many seconds.
    pub(super) fn new(clock: Arc<dyn Clock>, seconds: f64) -> Self {
        let since = clock.seconds();
        Self { clock, seconds, since }
    }

    /// Whether it is due now; then it begins anew.
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
        (timer, counters): (Option<Timer>, Arc<Counters>),
        (input, output): (Receiver<Item>, Sender<Item>),
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

    /// Whether all of the batch at hand is whole.
    fn is_at_rest(&self) -> bool {
        self.fresh.is_empty() && self.asked.is_empty()
    }

    /// Takes the next item, and makes one of the batch at hand where that is whole.
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

    /// The data goes no further here, where the next mini-batch would be: that is said in the place
    /// of what would be asked, since nobody else need have seen it. Others may say so, too.
    fn fail(&mut self, error: &Error, keeps: bool, place: Option<(u32, u64)>) -> Result<()> {
        let word = Word::Fails { keeps, place, why: error.to_string() };
        let mut messages: Vec<_> = (0..self.fabric.size()).map(|_| self.fabric.message()).collect();
        messages.iter_mut().for_each(|message| word.put(message));
        self.own = Some(error.to_string());
        let exchange = AllToAll::start(&self.fabric, talk::ASK, messages)?;
        self.asked.push_back((None, exchange));
        Ok(())
    }

    /// Asks for what is fresh, as far as may wait.
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
        // What is asked stays here; what is asked of this rank takes its place.
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

    /// Makes mini-batches whole of what came.
    fn unite(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some((_, exchange)) = self.asked.front_mut()
            && let Some(messages) = exchange.poll(&self.fabric)?
            && let Some((mini, _)) = self.asked.pop_front()
        {
            let mut readers: Vec<_> = messages.iter().map(Message::reader).collect();
            let all_ask = self.hear(&mut readers)?;
            let Some(mut mini) = mini.filter(|_| all_ask) else {
                // What all trained before goes its way, and nothing that comes behind it.
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
    /// Hears what all have for the next mini-batch: whether all ask. Of several ranks that fail the
    /// one counts whose line is the first, for one rank would have met it first.
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
        // Where others end for reasons of their own this rank has said what it found.
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
            // Where all rest, this stage is the one that hears that another rank has failed.
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
