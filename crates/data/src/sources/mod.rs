//! What a run reads: files or the built-in stream, cut into passes.
//!
//! Why       A run reads its data several times: it counts the lines, looks at what it evaluates
//!           on, trains epoch by epoch, evaluates, and may go on in the middle. All of these have
//!           to mean the same files, the same cut between training and evaluation, the same cache.
//! How       [`Sources::find`] resolves names, looks for a cache and places the cut. From then on
//!           the data is a list of [`Pass`]es, for [`crate::stages`] to read.
//! Failure   What can be known before the first step is told here, in one line that names the file
//!           and the mend.
//! Cost      Where a tail is evaluated on and there is no cache, all lines are counted.

mod cache;
mod check;
mod names;
mod share;
mod streams;
mod unscaled;

use std::path::PathBuf;
use std::sync::Arc;

use stepwell_base::stop::StopRequest;

use self::cache::{Found, Wanted};
pub use self::names::{NamesSaid, names_notes};
use self::share::Shared;
use crate::path_columns::check_paths;
use crate::{
    Block, CacheWriter, Chunk, DataError, Decoder, Files, Input, Layout, Part, Pass, Passes,
    Position, ReadOptions, Schema, Source, SynthOptions, recordless_note, repeated_note, resolve,
};

/// What a run wants to read.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Numbers of dense features and id columns.
    pub schema: Schema,
    /// Columns of the data; none where its lines are plain.
    pub layout: Option<Arc<Layout>>,
    /// Files or patterns; none for the built-in stream.
    pub paths: Vec<String>,
    /// The built-in stream.
    pub stream: SynthOptions,
    /// Files or patterns to evaluate on; none for the tail of the data.
    pub eval_paths: Vec<String>,
    /// Share of the data that its tail has.
    pub eval_fraction: f64,
    /// Times the training part is read.
    pub epochs: u64,
    /// Whether what is trained on is put into another order when it was read.
    pub shuffled: bool,
    /// Malformed lines of a pass that are skipped before one is an error.
    pub skip_max: u64,
    /// Where the cache of the text is, or will be.
    pub cache: Option<PathBuf>,
    /// Places that the run keeps something else in, where no cache may be, by their settings.
    pub taken: Vec<(&'static str, PathBuf)>,
    /// Threads that may parse at once.
    pub threads: usize,
}

/// A place from which a run reads on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFrom {
    /// Times the training part was read to its end.
    pub epoch: u64,
    /// The place in the training part.
    pub place: Position,
}

/// What a run calls its passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purposes<P> {
    /// Those of the training part.
    pub train: P,
    /// Those of what is evaluated on.
    pub evaluate: P,
}

/// What a run reads.
#[derive(Debug)]
pub struct Sources {
    options: SourceOptions,
    /// All of the data, or what is trained on.
    pub input: Arc<Input>,
    /// None to evaluate on the tail of `input`.
    pub eval_input: Option<Arc<Input>>,
    /// Behind the training part; none for the end of the input.
    pub boundary: Option<Position>,
    /// Lines of an epoch, where they were counted.
    pub examples: Option<u64>,
    /// Lines of each file of `input`, where they were counted.
    lines: Option<Vec<u64>>,
    /// The share of passes that is wanted, where others have the rest.
    shared: Option<Shared>,
    /// The cache that is made of `input`, where one is.
    wanted: Option<Wanted>,
    /// What to say of files without records and repeated ones, and of a cache that is not used.
    pub notes: Vec<String>,
    /// Probable faults in the data.
    pub warnings: Vec<String>,
}

impl Sources {
    /// Finds what `options` name, and counts its lines where that is needed, until somebody asks to
    /// `stop`.
    ///
    /// # Errors
    /// Files that cannot be read or do not belong together, and [`DataError::Stopped`].
    pub fn find(options: SourceOptions, stop: &StopRequest) -> Result<Self, DataError> {
        streams::check(&options)?;
        let input = match options.paths.as_slice() {
            [] => Input::synth(&options.stream)?,
            paths => Input::Files(options.files(paths, Part::Train)?),
        };
        let is_split = options.layout.as_deref().is_some_and(Layout::splits);
        let eval_input = match options.eval_paths.as_slice() {
            // Other examples of the same files.
            [] if is_split => {
                Some(Arc::new(Input::Files(options.files(&options.paths, Part::Evaluate)?)))
            }
            [] => None,
            paths => Some(Arc::new(Input::Files(options.files(paths, Part::Evaluate)?))),
        };
        let eval_files = eval_input.as_deref().map_or(&[][..], Input::files);
        if let Some(layout) = &options.layout {
            check_paths(layout, input.files().iter().chain(eval_files))?;
        }
        let (mut notes, warnings) = said_of_files(&options, &input, eval_input.as_deref())?;
        cache::check_apart(input.files())?;
        cache::check_apart(eval_files)?;
        let Found { cache, mut wanted, note } = cache::find(&options, &input, eval_files)?;
        notes.extend(note);
        let (mut boundary, mut examples, mut counted) = (None, None, None);
        if eval_input.is_none() && options.eval_fraction > 0.0 {
            let lines = match &cache {
                Some(cache) => cache.lines_of_each(),
                None => input.lines_of_each_until(stop)?,
            };
            let total: u64 = lines.iter().sum();
            boundary = Some(place_of(train_part(options.eval_fraction, total), &lines));
            (examples, counted) = (Some(total), Some(lines));
        }
        if let Some(wanted) = &mut wanted {
            wanted.blocks = CacheWriter::blocks_max(input.files(), examples, options.schema);
        }
        let input = match cache {
            Some(cache) if cache::skips_fit(&cache, boundary, options.skip_max) => {
                Input::Cache(cache)
            }
            Some(cache) => {
                notes.push(cache::skips_note(&cache, options.skip_max));
                input
            }
            None => input,
        };
        let input = Arc::new(input);
        let lines = counted;
        let shared = None;
        Ok(Self {
            options,
            input,
            eval_input,
            boundary,
            examples,
            lines,
            shared,
            wanted,
            notes,
            warnings,
        })
    }

    /// Makes no cache: another process makes it of the same data.
    pub fn without_making(mut self) -> Self {
        self.wanted = None;
        self
    }

    /// Columns of the data.
    pub fn schema(&self) -> Schema {
        self.options.schema
    }

    /// Whether ids may have values other than 1.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn may_have_values(&self) -> Result<bool, DataError> {
        let evaluated = self.eval_input.as_deref().map_or(Ok(false), Input::may_have_values)?;
        Ok(evaluated || self.input.may_have_values()?)
    }

    /// The examples of the first block; none where there are none. What is wrong with it is for who
    /// reads it in earnest.
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

    /// Training and evaluation of every epoch from `from` on, made as they are read.
    pub fn passes<P>(&self, from: ReadFrom, purposes: Purposes<P>) -> Passes<P>
    where
        P: Clone + Send + 'static,
    {
        let (input, end) = (Arc::clone(&self.input), self.boundary);
        let Purposes { train, evaluate } = purposes;
        let evaluation = self.evaluation(evaluate, 0);
        // Epochs behind the one that makes the cache read it.
        let made = self.wanted.is_some().then(|| from.epoch_made());
        let own_tail = self.eval_input.is_none();
        let (shared, shuffled) = (self.shared.clone(), self.options.shuffled);
        Box::new((from.epoch..self.options.epochs).flat_map(move |epoch| {
            let start = if epoch == from.epoch { from.place } else { Position::default() };
            let (purpose, input) = (train.clone(), Arc::clone(&input));
            let cached = made.is_some_and(|made| epoch > made);
            // Whoever makes the cache has to see all that it is made of.
            let makes = made == Some(epoch);
            // Which examples a mini-batch has is known when all before it are parsed.
            let shared = shared.as_ref().filter(|_| !makes && !shuffled);
            let share = shared
                .and_then(|shared| shared.of(&shared.input, (Position::default(), end), start));
            let train = Pass { purpose, epoch, input, start, end, cached, share };
            let (cached, makes) = (cached && own_tail, makes && own_tail);
            let evaluation = evaluation.clone().map(|pass| {
                let share = pass.share.filter(|_| !makes);
                Pass { epoch, cached, share, ..pass }
            });
            std::iter::once(train).chain(evaluation)
        }))
    }

    /// What is evaluated on after each epoch, if anything is.
    pub fn evaluation<P>(&self, purpose: P, epoch: u64) -> Option<Pass<P>> {
        let (input, start) = match (&self.eval_input, self.boundary) {
            (Some(input), _) => (input, Position::default()),
            (None, Some(boundary)) => (&self.input, boundary),
            (None, None) => return None,
        };
        let share = self.shared.as_ref().and_then(|shared| {
            let other = self.eval_input.is_some();
            let lines = if other { &shared.eval_input } else { &shared.input };
            shared.of(lines, (start, None), start)
        });
        let input = Arc::clone(input);
        Some(Pass { purpose, epoch, input, start, end: None, cached: false, share })
    }

    /// All of the data.
    pub fn whole<P>(&self, purpose: P) -> Pass<P> {
        let (input, start) = (Arc::clone(&self.input), Position::default());
        Pass { purpose, epoch: 0, input, start, end: None, cached: false, share: None }
    }
}

impl SourceOptions {
    /// The files that `patterns` name, with the columns of the data, and what of them is wanted.
    fn files(&self, patterns: &[String], part: Part) -> Result<Files, DataError> {
        let layout = match &self.layout {
            Some(layout) if layout.splits() => Some(Arc::new(layout.of_part(part))),
            layout => layout.clone(),
        };
        Ok(Files { paths: resolve(patterns)?, layout })
    }
}

impl ReadFrom {
    /// The epoch that makes a cache: the first that is read from its start.
    fn epoch_made(self) -> u64 {
        self.epoch + u64::from(self.place != Position::default())
    }
}

/// Notes and warnings on the files of training and evaluation.
fn said_of_files(
    options: &SourceOptions,
    input: &Input,
    eval_input: Option<&Input>,
) -> Result<(Vec<String>, Vec<String>), DataError> {
    let (mut notes, mut warnings) = (Vec::new(), Vec::new());
    let layout = options.layout.as_deref();
    let evaluated = eval_input.map(|input| (input, "files to evaluate on"));
    let both = || [(input, "data files")].into_iter().chain(evaluated);
    notes.extend(both().filter_map(|(of, what)| recordless_note(of.files(), layout, what)));
    notes.extend(both().filter_map(|(of, what)| repeated_note(of.files(), what)));
    // Those of a split are the same files.
    let others = eval_input.filter(|_| !layout.is_some_and(Layout::splits));
    for input in std::iter::once(input).chain(others) {
        if let Input::Files(files) = input {
            let said = names_notes(files)?;
            notes.extend(said.notes);
            warnings.extend(said.warnings);
        }
    }
    Ok((notes, warnings))
}

/// Lines of the training part: all but the tail, whose length is rounded, a half up. Scripts that
/// compare with other trainers use the same rule.
pub(crate) fn train_part(eval_fraction: f64, total: u64) -> u64 {
    total - (total as f64 * eval_fraction).round() as u64
}

/// The place before line `ordinal` of all files together.
fn place_of(ordinal: u64, lines: &[u64]) -> Position {
    let mut left = ordinal;
    for (file, count) in lines.iter().enumerate() {
        if left < *count || file + 1 == lines.len() {
            return Position { file: file as u32, line: left };
        }
        left -= count;
    }
    Position::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_rounded_a_half_up() {
        let tail = |total, eval_fraction| total - train_part(eval_fraction, total);
        assert_eq!((tail(9999, 0.2), tail(9998, 0.2), tail(9997, 0.2)), (2000, 2000, 1999));
        // To the even number it would be 0, 2, 2.
        assert_eq!((tail(1, 0.5), tail(3, 0.5), tail(5, 0.5)), (1, 2, 3));
        assert_eq!((tail(0, 0.5), tail(7, 0.0), tail(1, 0.999)), (0, 0, 1));
    }

    #[test]
    fn places_of_ordinals() {
        let lines = [3, 1, 4];
        let at = |ordinal| {
            let place = place_of(ordinal, &lines);
            (place.file, place.line)
        };
        assert_eq!((at(0), at(2), at(3), at(4)), ((0, 0), (0, 2), (1, 0), (2, 0)));
        assert_eq!(at(8), (2, 4));
    }
}
