//! Stage `batch`: cuts the stream of examples into mini-batches and batches, and groups keys.
//!
//! A mini-batch holds `data.mini_batch` examples in file order; the last of a pass may be short. A
//! batch holds whole mini-batches; it ends early where a checkpoint is due, so that a checkpoint
//! falls between two batches and the size of batches never shows in the model.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::queue::{Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_data::{Chunk, Position as Place, Skips};
use stepwell_engine::Grouper;

use super::Counters;
use super::cache::{Recorder, Recording};
use super::ordered::Ordered;
use super::read::{Parsed, Pass};
use super::spares::Spares;
use crate::batch::{GroupPart, Item, Mark, MiniBatch, Position, Purpose};
use crate::{Error, Result};

/// How the stream is cut.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) mini_batch: usize,
    pub(super) mini_batches: usize,
    /// Steps between checkpoints; 0 for none.
    pub(super) checkpoint_every: u64,
    /// Whether a checkpoint follows the last training pass.
    pub(super) checkpoint_at_end: bool,
    pub(super) epochs: u64,
    pub(super) skip_max: u64,
    /// Feature fields of each table group.
    pub(super) group_fields: Vec<Vec<usize>>,
}

pub(super) struct BatchStage {
    cut: Cut,
    pass: Option<Arc<Pass>>,
    skips: Skips,
    /// Of them, those before the chunk at hand.
    skipped_before_chunk: u64,
    /// Whether the pass to come goes on where a run was resumed.
    resumed: bool,
    chunk: Option<(Box<Chunk>, usize)>,
    /// The mini-batch being filled.
    mini: Option<MiniBatch>,
    batch: Vec<MiniBatch>,
    grouper: Grouper,
    /// Memory for keys, by table group: the grouped form takes their place.
    keys: Vec<Vec<Key>>,
    number: u32,
    position: Position,
    outgoing: VecDeque<Item>,
    last_seen: bool,
    counters: Arc<Counters>,
    /// Makes a cache of what goes by, until it is whole.
    recorder: Option<Recorder>,
    ends: BatchEnds,
}

/// Where examples come from and where mini-batches go.
pub(super) struct BatchEnds {
    pub(super) input: Arc<Ordered<Parsed>>,
    pub(super) output: Sender<Item>,
    pub(super) spares: Arc<Spares>,
}

impl BatchStage {
    pub(super) fn new(
        cut: Cut,
        start: Position,
        counters: Arc<Counters>,
        recorder: Option<Recorder>,
        ends: BatchEnds,
    ) -> Self {
        counters.skipped(start.skipped_earlier);
        Self {
            skips: Skips::new(cut.skip_max),
            skipped_before_chunk: 0,
            resumed: true,
            cut,
            pass: None,
            chunk: None,
            mini: None,
            batch: Vec::new(),
            grouper: Grouper::default(),
            keys: Vec::new(),
            number: 0,
            position: start,
            outgoing: VecDeque::new(),
            last_seen: false,
            counters,
            recorder,
            ends,
        }
    }

    fn take(&mut self, parsed: Parsed) -> Result<()> {
        match parsed {
            Parsed::Begin(pass) => {
                let resumed = std::mem::take(&mut self.resumed);
                let skipped = if resumed { self.position.skipped } else { 0 };
                self.skips = Skips::resume(self.cut.skip_max, skipped);
                self.position.epoch = pass.epoch;
                if pass.purpose == Purpose::Train {
                    (self.position.file, self.position.line) = (pass.start.file, pass.start.line);
                    self.position.skipped = skipped;
                }
                self.pass = Some(pass);
            }
            Parsed::Chunk(mut chunk) => {
                let Some(pass) = &self.pass else { return Ok(()) };
                // Whoever reads the lines behind the pass counts those that are malformed.
                let malformed = lines_within(&chunk, &chunk.malformed, pass.end);
                chunk.malformed.truncate(malformed);
                self.skipped_before_chunk = self.skips.skipped();
                self.skips.add(pass.input.files(), &chunk)?;
                if let Some(recorder) = &mut self.recorder {
                    let examples = lines_within(&chunk, &chunk.lines, pass.end);
                    if recorder.add(pass, &chunk, examples)? == Recording::GivenUp {
                        self.recorder = None;
                    }
                }
                self.chunk = Some((chunk, 0));
            }
            Parsed::End(pass) => {
                self.counters.skipped(self.skips.skipped());
                self.end_pass(&pass)?;
                self.position.skipped_earlier += self.skips.skipped();
                if let Some(recorder) = &mut self.recorder {
                    recorder.end(&pass);
                }
            }
            Parsed::Last => self.last_seen = true,
        }
        Ok(())
    }

    /// Moves examples of the chunk at hand into the mini-batch at hand.
    fn fill(&mut self, chunk: &Chunk, next: usize) -> Result<usize> {
        let Some(pass) = self.pass.clone() else { return Ok(chunk.len()) };
        let end = lines_within(chunk, &chunk.lines, pass.end);
        if next >= end {
            return Ok(chunk.len());
        }
        let mut mini = self.mini.take().unwrap_or_else(|| self.empty_mini(pass.purpose));
        let take = (self.cut.mini_batch - mini.examples()).min(end - next);
        append(&mut mini, chunk, next..next + take, &self.cut.group_fields);
        if pass.purpose == Purpose::Train {
            let after = chunk.position_after(next + take - 1);
            (self.position.file, self.position.line) = (after.file, after.line);
            let before = chunk.malformed_before(next + take - 1);
            self.position.skipped = self.skipped_before_chunk + before as u64;
        }
        let full = mini.examples() == self.cut.mini_batch;
        self.mini = Some(mini);
        if full {
            self.close_mini()?;
        }
        Ok(next + take)
    }

    fn empty_mini(&mut self, purpose: Purpose) -> MiniBatch {
        let fresh = || MiniBatch {
            number: 0,
            after: Position::default(),
            purpose,
            labels: Vec::with_capacity(self.cut.mini_batch),
            dense: Vec::new(),
            truth: Vec::new(),
            groups: self.cut.group_fields.iter().map(|_| GroupPart::default()).collect(),
        };
        let mut mini = MiniBatch { purpose, ..self.ends.spares.take().unwrap_or_else(fresh) };
        for part in &mut mini.groups {
            part.bags.keys = self.keys.pop().unwrap_or_default();
        }
        mini
    }

    fn close_mini(&mut self) -> Result<()> {
        let Some(mut mini) = self.mini.take() else { return Ok(()) };
        for part in &mut mini.groups {
            self.grouper.group_into(&part.bags, &mut part.lookup);
            // The grouped form says it all from here on, and rows find their bags by number.
            let mut keys = std::mem::take(&mut part.bags.keys);
            keys.clear();
            self.keys.push(keys);
        }
        mini.number = self.number;
        self.number =
            self.number.checked_add(1).filter(|next| *next < u32::MAX).ok_or_else(|| {
                Error::Config(format!(
                    "one process trains at most {} mini-batches; go on with --resume",
                    u32::MAX - 1
                ))
            })?;
        let train = mini.purpose == Purpose::Train;
        self.position.step += u64::from(train);
        mini.after = self.position;
        self.batch.push(mini);
        let every = self.cut.checkpoint_every;
        let due = train && every > 0 && self.position.step.is_multiple_of(every);
        if due || self.batch.len() == self.cut.mini_batches {
            self.close_batch();
        }
        if due {
            self.outgoing.push_back(Item::Mark(Mark::Checkpoint));
        }
        Ok(())
    }

    fn close_batch(&mut self) {
        if !self.batch.is_empty() {
            self.outgoing.push_back(Item::Batch(std::mem::take(&mut self.batch)));
        }
    }

    fn end_pass(&mut self, pass: &Pass) -> Result<()> {
        self.close_mini()?;
        self.close_batch();
        if pass.purpose == Purpose::Evaluate {
            self.outgoing.push_back(Item::Mark(Mark::Evaluated));
            return Ok(());
        }
        self.outgoing.push_back(Item::Mark(Mark::EpochTrained));
        if self.cut.checkpoint_at_end && pass.epoch + 1 == self.cut.epochs {
            self.outgoing.push_back(Item::Mark(Mark::Checkpoint));
        }
        Ok(())
    }
}

/// How many of `lines` of `chunk`, which ascend, lie before `end`.
fn lines_within(chunk: &Chunk, lines: &[u32], end: Option<Place>) -> usize {
    let Some(end) = end else { return lines.len() };
    if chunk.file != end.file {
        return if chunk.file < end.file { lines.len() } else { 0 };
    }
    lines.partition_point(|line| chunk.first_line + u64::from(*line) < end.line)
}

fn append(
    mini: &mut MiniBatch,
    chunk: &Chunk,
    examples: std::ops::Range<usize>,
    group_fields: &[Vec<usize>],
) {
    let dense = chunk.schema.dense;
    mini.labels.extend_from_slice(&chunk.labels[examples.clone()]);
    mini.dense.extend_from_slice(&chunk.dense[examples.start * dense..examples.end * dense]);
    if !chunk.truth.is_empty() {
        // Examples before these, from a source that knows no truth, have none.
        mini.truth.resize(mini.labels.len() - examples.len(), f32::NAN);
        mini.truth.extend_from_slice(&chunk.truth[examples.clone()]);
    }
    for (part, fields) in mini.groups.iter_mut().zip(group_fields) {
        if fields.len() == chunk.schema.slots {
            append_all_fields(part, chunk, examples.clone());
        } else {
            append_fields(part, chunk, examples.clone(), fields);
        }
    }
}

fn append_all_fields(part: &mut GroupPart, chunk: &Chunk, examples: std::ops::Range<usize>) {
    let slots = chunk.schema.slots;
    let first = chunk.keys_start(examples.start);
    let last = chunk.keys_start(examples.end);
    let base = part.bags.keys.len() as u32;
    part.bags.keys.extend_from_slice(&chunk.keys[first..last]);
    let ends = &chunk.bag_ends[examples.start * slots..examples.end * slots];
    part.bags.ends.extend(ends.iter().map(|end| end - first as u32 + base));
}

fn append_fields(
    part: &mut GroupPart,
    chunk: &Chunk,
    examples: std::ops::Range<usize>,
    fields: &[usize],
) {
    for example in examples {
        for field in fields {
            part.bags.keys.extend_from_slice(chunk.bag(example, *field));
            part.bags.ends.push(part.bags.keys.len() as u32);
        }
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
                    Ok(Progress::Blocked)
                }
                Err(Refused::Closed(_)) => Ok(Progress::Done),
            };
        }
        if let Some((chunk, next)) = self.chunk.take() {
            let next = self.fill(&chunk, next)?;
            if next < chunk.len() {
                self.chunk = Some((chunk, next));
            }
            return Ok(Progress::Progressed);
        }
        // Whatever trains has all that was cut, and need not wait for the disk.
        if let Some(recorder) = self.recorder.take_if(|recorder| recorder.is_due()) {
            recorder.finish()?;
            return Ok(Progress::Progressed);
        }
        if self.last_seen {
            return Ok(Progress::Done);
        }
        match self.ends.input.try_take() {
            Some(parsed) => {
                self.take(parsed)?;
                Ok(Progress::Progressed)
            }
            None => Ok(Progress::Blocked),
        }
    }
}
