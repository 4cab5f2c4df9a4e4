//! A step that ranks share: each computes its blocks of the mini-batch, and updates its own rows.
//!
//! ```text
//!  answer   current rows that all ranks ask of this one                                   own rows
//!  early    rows of the next step that this step does not change                          own rows
//!  compute  answers ─► visiting rows ─► x ─► loss ─► gradients ─► sums by subtree      own blocks
//!  sum      dense gradients of all ranks, in the one tree                               own lanes
//!  update   row gradients of all ranks, in the one tree ─► rows; dense parameters        own rows
//! ```
//!
//! A lent row is read and updated by its borrower, when that rank's blocks are computed: no other
//! rank has gradients of it.
//!
//! Between these phases it waits for the other ranks, which do the same; a poll never blocks. Dense
//! gradients are reduced and scattered, then gathered. Sums over blocks follow the tree that a
//! single rank uses, so the model has the same bits ([`stepwell_nn::tree_sum_of_subtrees`]).

use std::sync::Arc;

use stepwell_base::owner::owner;
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Borrowed, Gradients, Group, Guests, Part, Purpose};
use stepwell_fabric::collective::{AllToAll, Collective as _, all_gather};
use stepwell_fabric::{Fabric, Malformed, Message};

use super::early::Early;
use super::said::{NextWord, Said, Scored, lanes_of, put_dense, row_sums};
use super::{RowLaps, Trainer};
use crate::batch::{MiniBatch, Shared};
use crate::dense::Processor;
use crate::machine::Late;
use crate::{Result, talk};

/// State of a trainer that shares its steps.
pub(super) struct Sharing {
    pub(super) fabric: Fabric,
    guests: Guests,
    /// Borrowed rows, if rows are lent, and whether they may stay for the next mini-batch.
    borrowed: Option<Borrowed>,
    lends_on: bool,
    early: Early,
    /// Asks all ranks to end.
    pub(super) stop: StopRequest,
    /// Whether dense gradients are summed here, and not by a protocol.
    sums_dense: bool,
    /// Whether rows may be sent before their step begins.
    goes_early: bool,
    /// Delay of this rank in every step.
    pub(super) late: Option<Late>,
    phase: Phase,
    pub(super) scored: Scored,
}

/// What a step waits for.
enum Phase {
    /// Nothing: the next step can begin.
    Begin,
    /// Weights of the rows of this rank's examples.
    Answers(Awaited),
    /// All ranks' messages about their blocks.
    Said(Awaited),
    /// Dense gradients, each lane summed by one rank. `said` contains row gradients.
    Summed { said: Vec<Message>, summed: Awaited },
}

/// Messages of all ranks, once they have arrived.
struct Awaited {
    exchange: AllToAll,
    came: Vec<Message>,
}

impl Awaited {
    fn new(exchange: AllToAll) -> Self {
        Self { exchange, came: Vec::new() }
    }

    /// Whether all have arrived.
    fn poll(&mut self, fabric: &Fabric) -> Result<bool> {
        if self.came.is_empty()
            && let Some(came) = self.exchange.poll(fabric)?
        {
            self.came = came;
        }
        Ok(!self.came.is_empty())
    }
}

/// Result of polling a shared step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It waits for other ranks.
    Nowhere,
    /// It progressed; poll again.
    On,
    /// The step is over.
    ToTheEnd,
}

impl Sharing {
    pub(super) fn new(
        fabric: Fabric,
        (guests, borrowed): (Guests, Option<Borrowed>),
        stop: StopRequest,
    ) -> Self {
        let (phase, early, scored) = (Phase::Begin, Early::default(), Scored::default());
        Self {
            fabric,
            guests,
            borrowed,
            lends_on: false,
            early,
            stop,
            sums_dense: true,
            goes_early: true,
            late: None,
            phase,
            scored,
        }
    }

    /// The same state if a protocol moves the dense part, with a delay of `late`.
    pub(super) fn beside_protocol(self, late: Option<Late>) -> Self {
        Self { sums_dense: false, late, ..self }
    }

    /// Refuses an owner that did not ask for a lent row back by the end of a batch. A batch that
    /// ends early on this rank alone, because data cannot be read, is the last one, and the run
    /// reports why.
    fn all_are_back(&self) -> Result<()> {
        let left = self.borrowed.as_ref().filter(|_| !self.lends_on).and_then(Borrowed::any);
        left.map_or(Ok(()), |key| {
            let why = Malformed::Wrong("it lent a row and does not ask for it back");
            let owner = owner(key, self.fabric.size());
            Err(stepwell_fabric::Error::malformed(owner, why).into())
        })
    }

    /// Gives back the buffers of messages.
    pub(super) fn keep(&self, messages: Vec<Message>) {
        messages.into_iter().for_each(|message| self.fabric.keep(message));
    }

    /// An empty message for each rank, with room for `bytes(rank)` bytes.
    fn messages(&self, bytes: impl Fn(usize) -> usize) -> Vec<Message> {
        (0..self.fabric.size()).map(|rank| self.fabric.message_of(bytes(rank))).collect()
    }
}

impl Trainer {
    /// Advances `mini` without blocking, until it is scored and, if that is its purpose, trained.
    /// When it begins, the `next` one is read, if it has arrived.
    ///
    /// # Errors
    /// If another rank is gone, or sends an invalid message.
    pub(crate) fn poll_shared(
        &mut self,
        (mini, next): (&mut MiniBatch, Option<&mut MiniBatch>),
        groups: &[Arc<Group>],
    ) -> Result<Moved> {
        let Some(mut sharing) = self.sharing.take() else {
            unreachable!("a shared step needs several ranks")
        };
        let phase = std::mem::replace(&mut sharing.phase, Phase::Begin);
        let moved = self.poll_phase(&mut sharing, phase, (mini, next), groups);
        self.sharing = Some(sharing);
        moved
    }

    fn poll_phase(
        &mut self,
        sharing: &mut Sharing,
        phase: Phase,
        (mini, next): (&mut MiniBatch, Option<&mut MiniBatch>),
        groups: &[Arc<Group>],
    ) -> Result<Moved> {
        // All work is done in the compute threads: otherwise one would be idle next to this one.
        let pool = Arc::clone(&self.pool);
        sharing.phase = match phase {
            Phase::Begin => {
                let answers = pool.install(|| self.answer(sharing, (mini, next), groups))?;
                Phase::Answers(answers)
            }
            Phase::Answers(mut answers) => {
                if !answers.poll(&sharing.fabric)? {
                    sharing.phase = Phase::Answers(answers);
                    return Ok(Moved::Nowhere);
                }
                let messages = pool.install(|| self.compute(sharing, &answers.came, mini))?;
                sharing.keep(answers.came);
                let said = AllToAll::start(&sharing.fabric, talk::SAID, messages)?;
                Phase::Said(Awaited::new(said))
            }
            Phase::Said(mut said) => {
                if !said.poll(&sharing.fabric)? {
                    sharing.phase = Phase::Said(said);
                    return Ok(Moved::Nowhere);
                }
                let summed = pool.install(|| self.hear(sharing, &said.came, mini))?;
                let Some(summed) = summed else {
                    sharing.keep(said.came);
                    return Ok(Moved::ToTheEnd);
                };
                Phase::Summed { said: said.came, summed }
            }
            Phase::Summed { said, mut summed } => {
                if !summed.poll(&sharing.fabric)? {
                    sharing.phase = Phase::Summed { said, summed };
                    return Ok(Moved::Nowhere);
                }
                let rank = (sharing.fabric.rank(), sharing.fabric.size());
                pool.install(|| self.update_shared((&said, &summed.came, rank), mini, groups))?;
                sharing.keep(said);
                sharing.keep(summed.came);
                return Ok(Moved::ToTheEnd);
            }
        };
        Ok(Moved::On)
    }

    /// Sends the current rows that others ask for, and rows for the `next` mini-batch that this one
    /// does not change.
    fn answer(
        &mut self,
        sharing: &mut Sharing,
        (mini, next): (&mut MiniBatch, Option<&mut MiniBatch>),
        groups: &[Arc<Group>],
    ) -> Result<Awaited> {
        let trains = mini.purpose == Purpose::Train;
        let rows = self.embeddings.hold(mini.number, &mut mini.parts, groups, trains)?;
        let mut messages = sharing.messages(|rank| self.embeddings.answer_bytes(&rows, rank));
        self.embeddings.answer(&rows, &mut messages);
        let answers = AllToAll::start(&sharing.fabric, talk::ANSWER, messages)?;
        sharing.early.send(&sharing.fabric, &self.embeddings, (rows, next), groups)?;
        Ok(Awaited::new(answers))
    }

    /// Computes this rank's blocks; returns the message to each rank.
    pub(super) fn compute(
        &mut self,
        sharing: &mut Sharing,
        answers: &[Message],
        mini: &mut MiniBatch,
    ) -> Result<Vec<Message>> {
        let trains = mini.purpose == Purpose::Train;
        let blocks = mini.cargo.blocks;
        sharing.all_are_back()?;
        let Sharing { fabric, guests, borrowed, early, .. } = sharing;
        let borrowed = borrowed.as_mut().filter(|_| trains);
        let Shared { parts, routes, .. } = &mut mini.cargo.shared;
        let lent = borrowed.map(|borrowed| (borrowed, self.embeddings.tables()));
        guests.take((answers, early.came()), parts, routes, lent)?;
        early.taken(fabric);
        let mut parts = std::mem::take(parts);
        if trains {
            parts.iter_mut().for_each(Part::sort_bags);
        }
        let rows = self.embeddings.visit(&mut parts, &sharing.guests);
        if let Some(late) = sharing.late.filter(|_| trains) {
            late.hold_up(sharing.fabric.rank(), mini.cargo.after.step);
        }
        let sums = self.run_blocks(&mini.cargo, &rows, trains)?;
        let lanes = if trains && sharing.sums_dense { self.dense.parameter_count() } else { 0 };
        let mut messages = sharing.messages(|rank| {
            let lanes = lanes_of(lanes, (rank, sharing.fabric.size())).len();
            let rows = if trains { &mini.cargo.shared.routes[..] } else { &[] };
            Said::bytes_max(blocks, (lanes, self.model.label_lanes()), rank)
                + self.embeddings.sums_bytes_max(rows, rank, blocks)
        });
        let (logits, examples) = (&self.logits, &mini.cargo);
        let said = Said { sums: &sums, logits, examples, kinds: self.model.label_lanes(), trains };
        // Read once: all ranks receive the same value, and end after the same step.
        let (asks, lends_on) = (sharing.stop.is_made(), mini.cargo.shared.lends_on);
        let follows = NextWord { asks, lends_on, is_ahead: sharing.early.is_ahead() };
        for (to, message) in messages.iter_mut().enumerate() {
            said.put(message, to, follows);
        }
        if trains {
            put_dense((&mut *self.dense, &self.pool), &mut messages, (blocks, lanes))?;
            let columns = mini.cargo.count * self.embeddings.columns().count;
            let (d_x, d_first_order) = (&self.d_x[..columns], &self.d_first_order[..]);
            let labels = if self.clicks.is_empty() { &mini.cargo.labels } else { &self.clicks };
            let gradients = Gradients { d_x, d_first_order, labels };
            let laps = RowLaps(&self.profile);
            let own = (gradients, blocks);
            if let Some(borrowed) = sharing.borrowed.as_ref() {
                self.embeddings.update_borrowed((&rows, mini.number), own, borrowed, &laps);
            }
            let owners = (&mini.cargo.shared.routes[..], sharing.borrowed.as_ref());
            self.embeddings.sum_for_owners(&rows, own, owners, &mut messages);
        }
        drop(rows);
        if let Some(borrowed) = sharing.borrowed.as_mut().filter(|_| trains) {
            borrowed.given_back(&parts);
        }
        sharing.lends_on = lends_on;
        mini.cargo.shared.parts = parts;
        Ok(messages)
    }

    /// Reads all ranks' messages about their blocks. If they train, sums this rank's lanes of the
    /// dense gradients, and sends them.
    fn hear(
        &mut self,
        sharing: &mut Sharing,
        said: &[Message],
        mini: &MiniBatch,
    ) -> Result<Option<Awaited>> {
        let blocks = mini.cargo.blocks.of_all();
        let fabric = &sharing.fabric;
        let own = lanes_of(self.dense.parameter_count(), (fabric.rank(), fabric.size()));
        let lanes = (mini.purpose == Purpose::Train).then_some(own.len());
        let subtrees = sharing.scored.hear(
            (said, fabric.rank()),
            (blocks, self.model.label_lanes()),
            lanes,
        )?;
        sharing.early.receive(fabric, &sharing.scored.ahead)?;
        if lanes.is_none() {
            return Ok(None);
        }
        let mut message = fabric.message_of(own.len() * size_of::<f32>() + 8);
        self.sum_lanes(&subtrees, message.room(own.len()));
        Ok(Some(Awaited::new(all_gather(fabric, talk::SUMMED, message)?)))
    }

    /// Updates this rank's rows and the dense part by all ranks' messages.
    fn update_shared(
        &mut self,
        (said, summed, rank): (&[Message], &[Message], (usize, usize)),
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
    ) -> Result<()> {
        let blocks = mini.cargo.blocks.of_all();
        let (count, (own, ranks)) = (self.dense.parameter_count(), rank);
        let (mut gradient, mut of_rows) = (Vec::with_capacity(ranks), Vec::with_capacity(ranks));
        for (rank, (said, summed)) in said.iter().zip(summed).enumerate() {
            let wrong = |why| stepwell_fabric::Error::malformed(rank, why);
            let lanes = lanes_of(count, (rank, ranks));
            let sum = summed.reader().take_exactly::<f32>(lanes.len()).map_err(wrong)?;
            gradient.push((lanes.start, sum));
            of_rows.push(row_sums(said, blocks.of_rank(rank, ranks), own).map_err(wrong)?);
        }
        let Self { embeddings, dense, profile, pool, .. } = self;
        let mut rows = embeddings.hold_again(mini.number, &mut mini.parts, groups);
        let profile = &*profile;
        let rows = || embeddings.apply_sums(&mut rows, of_rows, blocks, &RowLaps(profile));
        let dense = || dense.step(Some(&gradient), Processor { pool, profile });
        let (outcome, stepped) = pool.install(|| rayon::join(rows, dense));
        outcome.map_err(crate::Error::of_shared_rows)?;
        stepped
    }

    /// Whether rows are sent before their step begins.
    pub(crate) fn sends_early(&self) -> bool {
        let takes_time = |sharing: &Sharing| sharing.goes_early && sharing.fabric.takes_time();
        self.sharing.as_ref().is_some_and(takes_time) && self.embeddings.sends_early()
    }

    /// Delays this rank in every step.
    pub(crate) fn hold_up(&mut self, late: Late) {
        self.sharing.iter_mut().for_each(|sharing| sharing.late = Some(late));
    }

    /// Prevents rows from being sent before their step.
    pub(crate) fn never_early(&mut self) {
        self.sharing.iter_mut().for_each(|sharing| sharing.goes_early = false);
    }

    /// Number of rows sent to other ranks before their step so far.
    pub(crate) fn rows_early(&self) -> u64 {
        self.sharing.as_ref().map_or(0, |sharing| sharing.early.sent())
    }

    /// Number of rows that other ranks lent to this one so far.
    pub(crate) fn rows_borrowed(&self) -> u64 {
        let sharing = self.sharing.as_ref();
        sharing.and_then(|sharing| sharing.borrowed.as_ref()).map_or(0, Borrowed::count)
    }

    /// Takes the scores of all ranks' last mini-batch.
    pub(crate) fn take_scored(&mut self) -> Scored {
        self.sharing.as_mut().map(|sharing| std::mem::take(&mut sharing.scored)).unwrap_or_default()
    }

    /// Takes back the buffers of these scores.
    pub(crate) fn keep_scored(&mut self, scored: Scored) {
        if let Some(sharing) = &mut self.sharing {
            sharing.scored = scored;
        }
    }
}
