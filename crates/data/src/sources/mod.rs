//! Data of a run: files or the built-in stream, divided into passes.
//!
//! - **Why.** A run reads its data several times: it counts lines, checks the evaluation data,
//!   trains epoch by epoch, evaluates, and may resume in the middle. All of these must agree on the
//!   files, the cut between training and evaluation, and the cache.
//! - **How.** [`Sources::find`] resolves names, looks for a cache and places the cut. From then on
//!   the data is a list of [`Pass`]es for [`crate::stages`] to read.
//! - **Failure.** Errors that can be found before the first step are reported here, in one line
//!   with the file and a fix.
//! - **Cost.** To evaluate on the tail without a cache, all lines must be counted.

mod cache;
mod check;
mod find;
mod names;
mod share;
mod shared_lines;
mod streams;
mod unscaled;
mod wanted_cache;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use self::find::train_part;
pub use self::names::{NameNotes, names_notes};
use self::shared_lines::Shared;
use self::wanted_cache::Wanted;
use crate::block::Block;
use crate::chunk::Chunk;
use crate::error::DataError;
use crate::input::Input;
use crate::layout::Layout;
use crate::read_options::{Position, ReadOptions};
use crate::reader::{Decoder, Source};
use crate::schema::Schema;
use crate::stages::{Pass, Passes};
use crate::synth::SynthOptions;

/// Options for the data of a run.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Shape of an example.
    pub schema: Schema,
    /// Columns of the data; `None` for plain lines.
    pub layout: Option<Arc<Layout>>,
    /// Files or patterns; empty for the built-in stream.
    pub paths: Vec<String>,
    /// The built-in stream.
    pub stream: SynthOptions,
    /// Files or patterns for evaluation; empty for the tail of the data.
    pub eval_paths: Vec<String>,
    /// Size of the tail, as a share of the data.
    pub eval_fraction: f64,
    /// Number of epochs.
    pub epochs: u64,
    /// Whether the examples of a mini-batch of training depend on earlier ones: all readers then
    /// parse all of them.
    pub in_sequence: bool,
    /// Malformed lines per pass to skip before one is an error.
    pub skip_max: u64,
    /// Path of the cache of the text, existing or not.
    pub cache: Option<PathBuf>,
    /// Paths that the run uses for other purposes, with their settings; none may be the cache.
    pub taken: Vec<(&'static str, PathBuf)>,
    /// Most threads that parse at once.
    pub threads: usize,
}

/// Position at which a run starts reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFrom {
    /// Completed epochs.
    pub epoch: u64,
    /// Position in the training part.
    pub place: Position,
}

/// The caller's names of the passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purposes<P> {
    /// Training passes.
    pub train: P,
    /// Evaluation passes.
    pub evaluate: P,
}

/// The data of a run.
#[derive(Debug)]
pub struct Sources {
    options: SourceOptions,
    /// All data, or only the training data.
    pub input: Arc<Input>,
    /// Evaluation data; `None` for the tail of `input`.
    pub eval_input: Option<Arc<Input>>,
    /// End of the training part; `None` for the end of the input.
    pub boundary: Option<Position>,
    /// Lines of an epoch, if counted.
    pub examples: Option<u64>,
    /// Lines of each file of `input`, if counted.
    lines: Option<Vec<u64>>,
    /// How passes are split among readers, if they are.
    shared: Option<Shared>,
    /// The cache to make of `input`, if any.
    wanted: Option<Wanted>,
    /// Notes on files without records, repeated files, and a cache that isn't used.
    pub notes: Vec<String>,
    /// Probable faults in the data.
    pub warnings: Vec<String>,
}

impl Sources {
    /// Makes no cache, as another process makes it of the same data.
    pub fn without_making(mut self) -> Self {
        self.wanted = None;
        self
    }

    /// Shape of an example.
    pub fn schema(&self) -> Schema {
        self.options.schema
    }

    /// Whether ids may have values other than 1.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn may_have_values(&self) -> Result<bool, DataError> {
        let evaluated = self.eval_input.as_deref().map_or(Ok(false), Input::may_have_values)?;
        Ok(evaluated || self.input.may_have_values()?)
    }

    /// Examples of the first block; `None` if there are none, or on an error, which reading reports
    /// later.
    pub fn first_chunk(&self, options: &ReadOptions) -> Option<Chunk> {
        let mut source = Source::open(&self.input, options).ok()?;
        let mut block = Block::default();
        if !source.next_block(&mut block).ok()? {
            return None;
        }
        let decoder = Decoder::new(&self.input, options.schema);
        let mut chunk = decoder.chunk();
        decoder.decode(&block, &mut chunk).ok()?;
        (!chunk.is_empty()).then_some(chunk)
    }

    /// Training and evaluation passes of every epoch after `from`, created lazily.
    pub fn passes<P>(&self, from: ReadFrom, purposes: Purposes<P>) -> Passes<P>
    where
        P: Clone + Send + 'static,
    {
        let (input, end) = (Arc::clone(&self.input), self.boundary);
        let Purposes { train, evaluate } = purposes;
        let evaluation = self.evaluation(evaluate, 0);
        // The epoch that makes the cache; later epochs read it.
        let made = self.wanted.is_some().then(|| from.epoch_made());
        let own_tail = self.eval_input.is_none();
        let (shared, in_sequence) = (self.shared.clone(), self.options.in_sequence);
        Box::new((from.epoch..self.options.epochs).flat_map(move |epoch| {
            let start = if epoch == from.epoch { from.place } else { Position::default() };
            let (purpose, input) = (train.clone(), Arc::clone(&input));
            let cached = made.is_some_and(|made| epoch > made);
            // The reader that makes the cache must see all of its examples.
            let makes = made == Some(epoch);
            // Shuffling and leaving out need all previous examples to determine a mini-batch.
            let shared = shared.as_ref().filter(|_| !makes && !in_sequence);
            let share =
                shared.and_then(|shared| shared.of(&shared.input, Position::default(), end, start));
            let train = Pass { purpose, epoch, input, start, end, cached, share };
            let (cached, makes) = (cached && own_tail, makes && own_tail);
            let evaluation = evaluation.clone().map(|pass| {
                let share = pass.share.filter(|_| !makes);
                Pass { epoch, cached, share, ..pass }
            });
            std::iter::once(train).chain(evaluation)
        }))
    }

    /// The evaluation pass after each epoch, if any.
    pub fn evaluation<P>(&self, purpose: P, epoch: u64) -> Option<Pass<P>> {
        let (input, start) = match (&self.eval_input, self.boundary) {
            (Some(input), _) => (input, Position::default()),
            (None, Some(boundary)) => (&self.input, boundary),
            (None, None) => return None,
        };
        let share = self.shared.as_ref().and_then(|shared| {
            let other = self.eval_input.is_some();
            let lines = if other { &shared.eval_input } else { &shared.input };
            shared.of(lines, start, None, start)
        });
        let input = Arc::clone(input);
        Some(Pass { purpose, epoch, input, start, end: None, cached: false, share })
    }

    /// The evaluation pass, again and again, if there is any.
    pub fn evaluations<P>(&self, purpose: P) -> Option<Passes<P>>
    where
        P: Clone + Send + 'static,
    {
        let pass = self.evaluation(purpose, 0)?;
        Some(Box::new(std::iter::repeat(pass)))
    }

    /// A pass over all data.
    pub fn whole<P>(&self, purpose: P) -> Pass<P> {
        let (input, start) = (Arc::clone(&self.input), Position::default());
        Pass { purpose, epoch: 0, input, start, end: None, cached: false, share: None }
    }
}

impl ReadFrom {
    /// The epoch that makes a cache: the first one read from its start.
    fn epoch_made(self) -> u64 {
        self.epoch + u64::from(self.place != Position::default())
    }
}
