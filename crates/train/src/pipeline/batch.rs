//! Stage `batch`: cuts the stream of examples into mini-batches and batches, and groups keys.
//!
//! A mini-batch holds `data.mini_batch` examples in file order; the last of a pass may be short. A
//! batch holds whole mini-batches; it ends early where a checkpoint is due, so that a checkpoint
//! falls between two batches and the size of batches never shows in the model.
//!
//! Where the data fails, all whole mini-batches before that place go their way, and a mark behind
//! them says why the run ends there.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::queue::{Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_data::{Chunk, DataError, Ordered, Position, Recorder, Recording, Skips};
use stepwell_engine::{Blocks, Cargo as _, Grouper, Part, Purpose, Spares};

use super::{Counters, Pass};
use crate::batch::{Examples, Item, Mark, MiniBatch, RunPosition};
use crate::features::{Features, Gathered, TableInput, append_example};
use crate::{Error, Result};

type Parsed = stepwell_data::Parsed<Purpose>;

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
    /// Blocks of a mini-batch.
    pub(super) blocks: usize,
    /// This rank, of so many that share mini-batches; none where nobody does.
    pub(super) rank: Option<(usize, usize)>,
    /// What each table has of the data.
    pub(super) tables: Vec<TableInput>,
    /// What bags may have.
    pub(super) features: Features,
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
    /// Ids of the mini-batch being filled, by table: the grouped form takes their place.
    gathered: Vec<Gathered>,
    number: u32,
    position: RunPosition,
    /// Steps that were trained before this run.
    begun: u64,
    outgoing: VecDeque<Item>,
    /// Nothing more is cut.
    over: bool,
    counters: Arc<Counters>,
    /// Makes a cache of what goes by, until it is whole.
    recorder: Option<Recorder>,
    ends: BatchEnds,
}

/// Where examples come from and where mini-batches go.
pub(super) struct BatchEnds {
    pub(super) input: Arc<Ordered<Parsed>>,
    pub(super) output: Sender<Item>,
    pub(super) spares: Arc<Spares<Examples>>,
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

    /// Cuts what is there.
    fn cut_more(&mut self) -> Result<Progress> {
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
        if self.over {
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

    /// Nothing is cut from here on, for what comes is not to be trained.
    fn fail(&mut self, error: Error) {
        (self.chunk, self.mini, self.recorder) = (None, None, None);
        self.over = true;
        self.close_batch();
        // What is wrong with the data itself all ranks find at the same place; who cannot read it
        // may be alone, and nobody would put the other parts of a checkpoint there.
        let of_all = matches!(error, Error::Data(DataError::Malformed { .. }));
        let keeps = self.cut.checkpoint_at_end && (of_all || self.cut.rank.is_none());
        // In order with the mini-batches: the planner may end before the mark is seen.
        if keeps && self.position.step > self.begun {
            self.outgoing.push_back(Item::Checkpoint);
        }
        self.outgoing.push_back(Item::Mark(Mark::Failed(Box::new(error))));
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
                self.cut.features.refuse_too_many(&chunk, pass.input.files())?;
                self.chunk = Some((chunk, 0));
            }
            Parsed::End(pass) => {
                self.counters.add_skipped(self.skips.skipped());
                self.end_pass(&pass)?;
                self.position.skipped_earlier += self.skips.skipped();
                if let Some(recorder) = &mut self.recorder {
                    recorder.end(&pass);
                }
            }
            Parsed::Last => self.over = true,
            Parsed::Failed(error) => return Err(error.into()),
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
        let take = (self.cut.mini_batch - mini.cargo.examples()).min(end - next);
        let examples = next..next + take;
        append(&mut mini, &mut self.gathered, chunk, examples, &self.cut.tables);
        if pass.purpose == Purpose::Train {
            let after = chunk.position_after(next + take - 1);
            (self.position.file, self.position.line) = (after.file, after.line);
            let before = chunk.malformed_before(next + take - 1);
            self.position.skipped = self.skipped_before_chunk + before as u64;
        }
        let full = mini.cargo.examples() == self.cut.mini_batch;
        self.mini = Some(mini);
        if full {
            self.close_mini()?;
        }
        Ok(next + take)
    }

    fn empty_mini(&mut self, purpose: Purpose) -> MiniBatch {
        let fresh = || MiniBatch {
            number: 0,
            purpose,
            parts: self.cut.tables.iter().map(|_| Part::default()).collect(),
            cargo: Examples {
                labels: Vec::with_capacity(self.cut.mini_batch),
                ..Examples::default()
            },
        };
        MiniBatch { purpose, ..self.ends.spares.take().unwrap_or_else(fresh) }
    }

    fn close_mini(&mut self) -> Result<()> {
        let Some(mut mini) = self.mini.take() else { return Ok(()) };
        if let Some((rank, ranks)) = self.cut.rank {
            let blocks = Blocks::new(mini.cargo.examples(), self.cut.blocks).of_rank(rank, ranks);
            keep_own(&mut mini, &mut self.gathered, blocks);
        }
        for ((part, gathered), table) in
            mini.parts.iter_mut().zip(&mut self.gathered).zip(&self.cut.tables)
        {
            part.request.weigh(&table.fields, &gathered.weights);
            self.grouper.group_into(&gathered.keys, table.salt, &mut part.request);
            // The request says it all from here on, and rows find their bags by number.
            gathered.clear();
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
            self.outgoing.push_back(Item::Checkpoint);
        }
        Ok(())
    }
}

/// How many of `lines` of `chunk`, which ascend, lie before `end`.
fn lines_within(chunk: &Chunk, lines: &[u32], end: Option<Position>) -> usize {
    let Some(end) = end else { return lines.len() };
    if chunk.file != end.file {
        return if chunk.file < end.file { lines.len() } else { 0 };
    }
    lines.partition_point(|line| chunk.first_line + u64::from(*line) < end.line)
}

fn append(
    mini: &mut MiniBatch,
    gathered: &mut [Gathered],
    chunk: &Chunk,
    examples: Range<usize>,
    tables: &[TableInput],
) {
    let (dense, cargo) = (chunk.schema.dense, &mut mini.cargo);
    cargo.labels.extend_from_slice(&chunk.labels[examples.clone()]);
    cargo.dense.extend_from_slice(&chunk.dense[examples.start * dense..examples.end * dense]);
    if !chunk.truth.is_empty() {
        // Examples before these, from a source that knows no truth, have none.
        cargo.truth.resize(cargo.labels.len() - examples.len(), f32::NAN);
        cargo.truth.extend_from_slice(&chunk.truth[examples.clone()]);
    }
    for ((part, gathered), table) in mini.parts.iter_mut().zip(gathered).zip(tables) {
        let ends = &mut part.request.ends;
        if table.has_all_columns(chunk.schema.id_columns) {
            append_all_fields((&mut gathered.keys, ends), chunk, examples.clone());
        } else {
            for example in examples.clone() {
                append_example((gathered, ends), (chunk, example), &table.sources);
            }
        }
    }
}

/// Leaves of `mini` what is of `blocks`, those of one rank.
fn keep_own(mini: &mut MiniBatch, gathered: &mut [Gathered], blocks: Blocks) {
    let (place, all) = (blocks.place(), mini.cargo.examples());
    let cargo = &mut mini.cargo;
    keep(&mut cargo.labels, place.clone());
    let dense = cargo.dense.len() / all.max(1);
    keep(&mut cargo.dense, place.start * dense..place.end * dense);
    keep(&mut cargo.truth, place.clone());
    for (part, gathered) in mini.parts.iter_mut().zip(gathered) {
        let ends = &mut part.request.ends;
        let bags = ends.len() / all.max(1);
        let bags = place.start * bags..place.end * bags;
        let before = |bag: usize| if bag == 0 { 0 } else { ends[bag - 1] as usize };
        let ids = before(bags.start)..before(bags.end);
        keep(ends, bags);
        ends.iter_mut().for_each(|end| *end -= ids.start as u32);
        keep(&mut gathered.keys, ids.clone());
        keep(&mut gathered.weights, ids);
    }
    cargo.shared.blocks = Some(blocks);
}

/// Leaves of `values` those of `range` that are there.
fn keep<T>(values: &mut Vec<T>, range: Range<usize>) {
    values.truncate(range.end);
    values.drain(..range.start.min(values.len()));
}

fn append_all_fields(
    (keys, all_ends): (&mut Vec<Key>, &mut Vec<u32>),
    chunk: &Chunk,
    examples: Range<usize>,
) {
    let columns = chunk.schema.id_columns;
    let first = chunk.keys_start(examples.start);
    let last = chunk.keys_start(examples.end);
    let base = keys.len() as u32;
    keys.extend_from_slice(&chunk.keys[first..last]);
    let ends = &chunk.bag_ends[examples.start * columns..examples.end * columns];
    all_ends.extend(ends.iter().map(|end| end - first as u32 + base));
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
        match self.cut_more() {
            Ok(progress) => Ok(progress),
            Err(error) => {
                self.fail(error);
                Ok(Progress::Progressed)
            }
        }
    }
}
