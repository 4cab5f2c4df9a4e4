//! Stage `batch`: cuts the stream of examples into mini-batches and batches, and groups keys.
//!
//! A mini-batch holds `data.mini_batch` examples in file order; the last of a pass may be short. A
//! batch holds whole mini-batches; it ends early if a checkpoint is due, so that a checkpoint falls
//! between two batches and the size of batches never affects the model.
//!
//! When an evaluation within an epoch is due, the training examples wait while those of another
//! reader are cut.
//!
//! If the data fails, all mini-batches completed before the failing chunk continue, followed by a
//! mark with the reason.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::queue::Refused;
use stepwell_base::stage::{Progress, Stage};
use stepwell_data::{Chunk, DataError, Recorder, Recording, Skips};
use stepwell_engine::{Blocks, Grouper, Purpose};

use super::counters::{Counters, Pass};
use super::cut::{BatchEnds, Cut, Parsed};
use super::feed::Feed;
use super::fill::{append, examples_at, keep_own, lines_within};
use super::shared_pass::{Filled, SharedPass};
use crate::batch::{Item, Mark, MiniBatch, RunPosition};
use crate::features::Gathered;
use crate::{Error, Result};

pub(super) struct BatchStage {
    cut: Cut,
    /// The examples that are being cut.
    feed: Feed,
    /// The feed of evaluations within epochs or, during one, that of training; `None` if there are
    /// no such evaluations.
    other: Option<Feed>,
    /// Whether such an evaluation is being cut.
    is_within: bool,
    /// Whether one comes before the next training example.
    is_due: bool,
    /// The mini-batch being filled.
    mini: Option<MiniBatch>,
    /// Number of examples of `mini`, including those of other ranks.
    filled: usize,
    batch: Vec<MiniBatch>,
    grouper: Grouper,
    /// Ids of the mini-batch being filled, by table, until they are grouped.
    gathered: Vec<Gathered>,
    number: u32,
    position: RunPosition,
    /// Steps trained before this run.
    begun: u64,
    outgoing: VecDeque<Item>,
    /// Whether no more is cut.
    over: bool,
    counters: Arc<Counters>,
    /// Writes a cache of the passing examples until it is complete.
    recorder: Option<Recorder>,
    ends: BatchEnds,
}

impl BatchStage {
    pub(super) fn new(
        cut: Cut,
        start: RunPosition,
        counters: Arc<Counters>,
        recorder: Option<Recorder>,
        ends: BatchEnds,
    ) -> Self {
        counters.add_skipped(start.skipped_earlier);
        let gathered = cut.tables.iter().map(|_| Gathered::default()).collect();
        let evaluations = ends.evaluations.clone();
        Self {
            feed: Feed::of_passes(Arc::clone(&ends.input), &cut),
            other: evaluations.map(|input| Feed::of_evaluations(input, &cut)),
            is_within: false,
            is_due: cut.evaluates_first,
            cut,
            mini: None,
            filled: 0,
            batch: Vec::new(),
            grouper: Grouper::default(),
            gathered,
            number: 0,
            position: start,
            begun: start.step,
            outgoing: VecDeque::new(),
            over: false,
            counters,
            recorder,
            ends,
        }
    }

    /// Cuts the available examples.
    fn cut_more(&mut self) -> Result<Progress> {
        if self.is_due && self.has_more() {
            self.is_due = false;
            self.is_within = self.turn_to_other();
        }
        if let Some((chunk, next)) = self.feed.chunk.take() {
            self.feed.chunk = self.fill(&chunk, next)?.map(|next| (chunk, next));
            return Ok(Progress::Progressed);
        }
        if let Filled::Whole(_) = self.fill_shared()? {
            return Ok(Progress::Progressed);
        }
        if self.fill_shuffled()? {
            return Ok(Progress::Progressed);
        }
        // Training has all that was cut, and need not wait for the disk.
        if let Some(recorder) = self.recorder.take_if(|recorder| recorder.is_due()) {
            recorder.finish()?;
            return Ok(Progress::Progressed);
        }
        if self.over {
            return Ok(Progress::Done);
        }
        let next = self.feed.held.take().or_else(|| self.feed.input.try_take().map(Ok));
        match next {
            Some(parsed) => {
                self.take(parsed?)?;
                Ok(Progress::Progressed)
            }
            None => Ok(Progress::Blocked),
        }
    }

    /// Whether an example of the current pass can be cut now.
    fn has_more(&mut self) -> bool {
        let Feed { pass: Some(pass), chunk, shared, shuffle, held, .. } = &mut self.feed else {
            return false;
        };
        if let Some((chunk, next)) = chunk {
            return *next < lines_within(chunk, &chunk.lines, pass.end);
        }
        if let Some(shared) = shared {
            let (all, behind) = shared.examples();
            return behind < all;
        }
        shuffle.is_active() && shuffle.turn(matches!(held, Some(Ok(Parsed::End(_)))))
    }

    /// Switches to the other feed; returns false if there is none.
    fn turn_to_other(&mut self) -> bool {
        let Some(other) = &mut self.other else { return false };
        std::mem::swap(&mut self.feed, other);
        true
    }

    /// Fills the next window while mini-batches of the current one wait to be taken.
    fn read_ahead(&mut self) -> Progress {
        if self.feed.held.is_some() || !self.feed.shuffle.reads_ahead() {
            return Progress::Blocked;
        }
        match self.feed.input.try_take() {
            None => return Progress::Blocked,
            Some(chunk @ Parsed::Chunk(_)) => self.feed.held = self.take(chunk).err().map(Err),
            Some(other) => self.feed.held = Some(Ok(other)),
        }
        Progress::Progressed
    }

    /// Fills the current mini-batch from the current window; returns whether it did anything.
    fn fill_shuffled(&mut self) -> Result<bool> {
        // A held end completes the window; after a held error, the examples before it are dropped.
        let is_over = matches!(self.feed.held, Some(Ok(Parsed::End(_))));
        if !self.feed.shuffle.is_active() || !self.feed.shuffle.turn(is_over) {
            return Ok(false);
        }
        let mut mini =
            self.mini.take().unwrap_or_else(|| self.cut.empty_mini(&self.ends, Purpose::Train));
        let room = self.cut.mini_batch - self.filled;
        let (tables, derived) = (&self.cut.tables[..], &self.cut.derived[..]);
        let gathered = &mut self.gathered;
        self.filled += self.feed.shuffle.take(room, &mut self.position, |chunk, example| {
            append(&mut mini, gathered, chunk, example..example + 1, (tables, derived));
        });
        self.mini = Some(mini);
        if self.filled == self.cut.mini_batch {
            self.close_mini()?;
        }
        Ok(true)
    }

    /// Stops cutting: no later example may be trained.
    fn fail(&mut self, error: Error) {
        (self.mini, self.recorder) = (None, None);
        self.over = true;
        self.feed.clear();
        self.close_batch();
        let keeps = self.cut.checkpoint_at_end && self.position.step > self.begun;
        // In order with the mini-batches: the planner may end before it sees the mark. With other
        // ranks, what follows must be agreed on first.
        if keeps && self.cut.rank.is_none() {
            self.outgoing.push_back(Item::Checkpoint);
        }
        let place = match &error {
            Error::Data(DataError::Malformed { line, .. }) => Some((self.feed.file, *line)),
            _ => None,
        };
        self.outgoing.push_back(Item::Mark(Mark::Failed { error: Box::new(error), keeps, place }));
    }

    fn take(&mut self, parsed: Parsed) -> Result<()> {
        match parsed {
            Parsed::Begin(pass) => {
                let resumed = std::mem::take(&mut self.feed.resumed);
                let skipped = if resumed { self.position.skipped } else { 0 };
                self.feed.skips = Skips::resume(self.cut.skip_max, skipped);
                if !self.is_within {
                    self.position.epoch = pass.epoch;
                }
                if pass.purpose == Purpose::Train {
                    (self.position.file, self.position.line) = (pass.start.file, pass.start.line);
                    self.position.skipped = skipped;
                }
                if pass.purpose == Purpose::Train && !resumed {
                    (self.position.window, self.position.taken) = (0, 0);
                }
                let shuffles = self.cut.shuffle > 0 && pass.purpose == Purpose::Train;
                self.feed.shuffle.begin(shuffles.then_some(self.position));
                self.feed.shared = pass.share.clone().map(SharedPass::new);
                self.feed.pass = Some(pass);
            }
            Parsed::Chunk(mut chunk) => {
                let Some(pass) = &self.feed.pass else { return Ok(()) };
                self.feed.file = chunk.file;
                // The rank that reads the lines behind the pass counts their malformed ones.
                let malformed = lines_within(&chunk, &chunk.malformed, pass.end);
                chunk.malformed.truncate(malformed);
                self.feed.skipped_before_chunk = self.feed.skips.skipped();
                self.feed.skips.add(pass.input.files(), &chunk)?;
                if let Some(recorder) = self.recorder.as_mut().filter(|_| !self.is_within) {
                    let examples = lines_within(&chunk, &chunk.lines, pass.end);
                    if recorder.add(pass, &chunk, examples)? == Recording::GivenUp {
                        self.recorder = None;
                    }
                }
                self.cut.features.refuse_too_many(&chunk, pass.input.files())?;
                if !self.is_within {
                    self.counters.add_cut_lists(&chunk, pass, self.cut.rank);
                }
                if let Some(negatives) = self.cut.negatives
                    && pass.purpose == Purpose::Train
                {
                    let left_out = negatives.leave_out(&mut chunk, pass)?;
                    if pass.epoch == 0 {
                        self.counters.add_left_out(left_out);
                    }
                }
                match &mut self.feed.shared {
                    Some(shared) => shared.give(chunk),
                    None if self.feed.shuffle.is_active() => {
                        let examples = lines_within(&chunk, &chunk.lines, pass.end);
                        self.feed.shuffle.give(*chunk, examples, self.feed.skipped_before_chunk);
                    }
                    None => self.feed.chunk = Some((chunk, 0)),
                }
            }
            // The remaining examples form a window.
            Parsed::End(pass) if self.feed.shuffle.is_active() && self.feed.shuffle.turn(true) => {
                self.feed.held = Some(Ok(Parsed::End(pass)));
            }
            Parsed::End(pass) => {
                let (skipped, is_within) = (self.feed.skips.skipped(), self.is_within);
                self.counters.add_skipped(skipped);
                self.end_pass(&pass)?;
                self.position.skipped_earlier += skipped;
                if let Some(recorder) = self.recorder.as_mut().filter(|_| !is_within) {
                    recorder.end(&pass);
                }
            }
            Parsed::Last => self.over = true,
            Parsed::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Moves examples of the current chunk, from number `next`, into the current mini-batch;
    /// returns the number of the first that is left, if any.
    fn fill(&mut self, chunk: &Chunk, next: usize) -> Result<Option<usize>> {
        let Some(pass) = self.feed.pass.clone() else { return Ok(None) };
        let end = lines_within(chunk, &chunk.lines, pass.end);
        if next >= end {
            return Ok(None);
        }
        let mut mini =
            self.mini.take().unwrap_or_else(|| self.cut.empty_mini(&self.ends, pass.purpose));
        let examples = next..next + (self.cut.mini_batch - self.filled).min(end - next);
        let from = (&self.cut.tables[..], &self.cut.derived[..]);
        append(&mut mini, &mut self.gathered, chunk, examples.clone(), from);
        self.filled += examples.len();
        self.mini = Some(mini);
        if pass.purpose == Purpose::Train {
            let last = chunk.lines[examples.end - 1];
            let after = chunk.position_after(last);
            (self.position.file, self.position.line) = (after.file, after.line);
            let before = chunk.malformed_before(last);
            self.position.skipped = self.feed.skipped_before_chunk + before as u64;
        }
        if self.filled == self.cut.mini_batch {
            self.close_mini()?;
        }
        Ok((examples.end < end).then_some(examples.end))
    }

    /// Fills the current mini-batch of a shared pass with the lines that have arrived.
    fn fill_shared(&mut self) -> Result<Filled> {
        let (Some(shared), Some(pass)) = (&mut self.feed.shared, &self.feed.pass) else {
            return Ok(Filled::Waits);
        };
        let purpose = pass.purpose;
        let mut mini = self.mini.take().unwrap_or_else(|| self.cut.empty_mini(&self.ends, purpose));
        let gathered = &mut self.gathered;
        let (tables, derived) = (&self.cut.tables[..], &self.cut.derived[..]);
        let filled = shared.fill(|chunk, lines| {
            append(&mut mini, gathered, chunk, examples_at(chunk, &lines), (tables, derived));
        });
        let place = shared.place();
        self.mini = Some(mini).filter(|_| filled != Filled::Over);
        if let Filled::Whole(examples) = filled {
            if purpose == Purpose::Train {
                (self.position.file, self.position.line) = (place.file, place.line);
            }
            self.filled = examples;
            self.close_mini()?;
        }
        Ok(filled)
    }

    fn close_mini(&mut self) -> Result<()> {
        let Some(mut mini) = self.mini.take() else { return Ok(()) };
        let examples = std::mem::take(&mut self.filled);
        let blocks = Blocks::new(examples, self.cut.blocks).beside_servers(self.cut.servers);
        mini.cargo.blocks = blocks;
        if let Some(rank) = self.cut.rank {
            mini.cargo.blocks = blocks.of_rank(rank);
            keep_own(&mut mini, &mut self.gathered);
        }
        for ((part, gathered), table) in
            mini.parts.iter_mut().zip(&mut self.gathered).zip(&self.cut.tables)
        {
            part.request.weigh(&table.fields, gathered.weights());
            self.grouper.group_into(&gathered.keys, table.salt, &mut part.request);
            // The request replaces the gathered keys, and rows find their bags by number.
            gathered.clear();
        }
        mini.number = self.number;
        self.number =
            self.number.checked_add(1).filter(|next| *next < u32::MAX).ok_or_else(|| {
                Error::Config(format!(
                    "one process trains at most {} mini-batches; continue with --resume",
                    u32::MAX - 1
                ))
            })?;
        let train = mini.purpose == Purpose::Train;
        self.position.step += u64::from(train);
        mini.cargo.after = self.position;
        self.batch.push(mini);
        let every = self.cut.checkpoint_every;
        let due = train && every > 0 && self.position.step.is_multiple_of(every);
        if due || self.batch.len() == self.cut.mini_batches {
            self.close_batch();
        }
        if due {
            self.outgoing.push_back(Item::Checkpoint);
        }
        let every = self.cut.evaluate_every;
        if train && every > 0 && self.position.step.is_multiple_of(every) {
            self.close_batch();
            self.is_due = true;
        }
        Ok(())
    }

    fn close_batch(&mut self) {
        if !self.batch.is_empty() {
            self.outgoing.push_back(Item::Batch(std::mem::take(&mut self.batch)));
        }
    }

    fn end_pass(&mut self, pass: &Pass) -> Result<()> {
        let shared = self.feed.shared.take().map(|shared| shared.examples());
        if let Some((counted, found)) = shared.filter(|(counted, found)| counted > found) {
            return Err(Error::Data(DataError::Options(format!(
                "the data ends after {found} examples, but {counted} lines were counted: it \
                 changed during the run; continue when nothing writes to it"
            ))));
        }
        self.close_mini()?;
        self.close_batch();
        if pass.purpose == Purpose::Evaluate {
            let within_epoch = std::mem::take(&mut self.is_within);
            if within_epoch {
                self.turn_to_other();
            }
            let after = self.cut.checkpoint_evaluated.then_some(Item::Checkpoint);
            let mark = Item::Mark(Mark::Evaluated { within_epoch });
            self.outgoing.extend([mark].into_iter().chain(after));
            return Ok(());
        }
        // The evaluation of the epoch follows.
        self.is_due = false;
        let last = pass.epoch + 1 == self.cut.epochs;
        self.outgoing.push_back(Item::Mark(Mark::EpochTrained { last }));
        if self.cut.checkpoint_at_end && last {
            self.outgoing.push_back(Item::Checkpoint);
        }
        Ok(())
    }
}

impl Stage for BatchStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "batch"
    }

    fn poll(&mut self) -> Result<Progress> {
        if let Some(item) = self.outgoing.pop_front() {
            return match self.ends.output.try_send(item) {
                Ok(()) => Ok(Progress::Progressed),
                Err(Refused::Full(item)) => {
                    self.outgoing.push_front(item);
                    Ok(self.read_ahead())
                }
                Err(Refused::Closed(_)) => Ok(Progress::Done),
            };
        }
        match self.cut_more() {
            Ok(progress) => Ok(progress),
            Err(error) => {
                self.fail(error);
                Ok(Progress::Progressed)
            }
        }
    }
}
