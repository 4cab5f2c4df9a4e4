//! What a run reads: files or the built-in stream, cut into passes.

use std::sync::Arc;

use stepwell_base::stop::StopRequest;
use stepwell_data::{
    Block, CacheWriter, Chunk, Decoder, Input, Position as Place, ReadOptions, Schema, Source,
    SynthOptions, empty_note, lines_of_each_until, repeated_note, resolve,
};
use stepwell_engine::Purpose;
use stepwell_settings::Config;

use super::cache::{self, Found, Wanted};
use crate::Result;
use crate::batch::Position;
use crate::capacity::BLOCK_BYTES;
use crate::features::Features;
use crate::pipeline::Pass;

/// What a run reads.
pub(super) struct Sources {
    pub(super) schema: Schema,
    pub(super) input: Arc<Input>,
    /// None to evaluate on the tail of `input`.
    pub(super) eval_input: Option<Arc<Input>>,
    /// Behind the training part; none for the end of the input.
    pub(super) boundary: Option<Place>,
    /// Lines of an epoch, where they were counted.
    pub(super) examples: Option<u64>,
    /// The cache that is made of `input`, where one is.
    pub(super) cache: Option<Wanted>,
    /// What to say of empty files and repeated ones, and of a cache that is not used.
    pub(super) notes: Vec<String>,
}

impl Sources {
    /// The examples of the first block; none where there are none. What is wrong with it is for who
    /// reads it in earnest.
    pub(super) fn first_chunk(&self, features: &Features) -> Option<Chunk> {
        let options = ReadOptions {
            block_bytes: BLOCK_BYTES,
            example_keys_max: features.example_keys_max().unwrap_or(usize::MAX),
            ..ReadOptions::new(self.schema)
        };
        let mut source = Source::open(&self.input, &options).ok()?;
        let mut block = Block::default();
        if !source.next_block(&mut block).ok()? {
            return None;
        }
        let decoder = Decoder::new(&self.input, self.schema);
        let mut chunk = decoder.chunk();
        decoder.decode(&block, &mut chunk).ok()?;
        (!chunk.is_empty()).then_some(chunk)
    }
}

/// Columns of the data.
pub(super) const SCHEMA: Schema = Schema::CRITEO;

pub(super) fn sources(config: &Config, stop: &StopRequest) -> Result<Sources> {
    let input = match config.data.paths.as_slice() {
        [] => Input::synth(&synth_options(config))?,
        paths => Input::Files(resolve(paths)?),
    };
    let eval_input = match config.data.eval_paths.as_slice() {
        [] => None,
        paths => Some(Arc::new(Input::Files(resolve(paths)?))),
    };
    let eval_files = eval_input.as_deref().map_or(&[][..], Input::files);
    let mut notes = Vec::new();
    notes.extend(empty_note(input.files(), "data files")?);
    notes.extend(empty_note(eval_files, "files to evaluate on")?);
    notes.extend(repeated_note(input.files(), "data files"));
    notes.extend(repeated_note(eval_files, "files to evaluate on"));
    cache::check_apart(input.files())?;
    cache::check_apart(eval_files)?;
    let Found { cache, mut wanted, note } = cache::find(config, input.files(), eval_files)?;
    notes.extend(note);
    let (mut boundary, mut examples) = (None, None);
    if eval_input.is_none() && config.data.eval_fraction > 0.0 {
        let lines = match &cache {
            Some(cache) => cache.lines_of_each(),
            None => lines(&input, stop)?,
        };
        let total: u64 = lines.iter().sum();
        boundary = Some(place_of(train_part(config, total), &lines));
        examples = Some(total);
    }
    if let Some(wanted) = &mut wanted {
        wanted.blocks = CacheWriter::blocks_max(input.files(), examples, SCHEMA);
    }
    let input = match cache {
        Some(cache) if cache::skips_fit(&cache, boundary, config.data.skip_max) => {
            Input::Cache(cache)
        }
        Some(cache) => {
            notes.push(cache::skips_note(&cache, config.data.skip_max));
            input
        }
        None => input,
    };
    let input = Arc::new(input);
    Ok(Sources { schema: SCHEMA, input, eval_input, boundary, examples, cache: wanted, notes })
}

/// Lines of each file: counting reads all of them.
fn lines(input: &Input, stop: &StopRequest) -> Result<Vec<u64>> {
    Ok(match input {
        Input::Files(files) => lines_of_each_until(files, stop)?,
        input => input.lines_of_each()?,
    })
}

/// The options of the built-in stream.
pub fn synth_options(config: &Config) -> SynthOptions {
    SynthOptions {
        seed: config.seed,
        examples: config.synth.examples,
        vocab_scale: config.synth.vocab_scale,
        ..SynthOptions::default()
    }
}

/// Lines of the training part: all but the tail, whose length is rounded, a half up. Scripts that
/// compare with other trainers use the same rule.
fn train_part(config: &Config, total: u64) -> u64 {
    total - (total as f64 * config.data.eval_fraction).round() as u64
}

/// The place before line `ordinal` of all files together.
fn place_of(ordinal: u64, lines: &[u64]) -> Place {
    let mut left = ordinal;
    for (file, count) in lines.iter().enumerate() {
        if left < *count || file + 1 == lines.len() {
            return Place { file: file as u32, line: left };
        }
        left -= count;
    }
    Place::default()
}

/// Training and evaluation of every epoch from `start` on, made as they are read.
pub(super) fn training_passes(
    config: &Config,
    sources: &Sources,
    start: Position,
) -> impl Iterator<Item = Pass> + Send + use<> {
    let (input, end) = (Arc::clone(&sources.input), sources.boundary);
    let evaluation = evaluation_pass(sources, 0);
    // Epochs behind the one that makes the cache read it.
    let made = sources.cache.is_some().then(|| cache::epoch_made(start));
    let own_tail = sources.eval_input.is_none();
    (start.epoch..config.data.epochs).flat_map(move |epoch| {
        let resumed = epoch == start.epoch;
        let from =
            if resumed { Place { file: start.file, line: start.line } } else { Place::default() };
        let input = Arc::clone(&input);
        let cached = made.is_some_and(|made| epoch > made);
        let train = Pass { purpose: Purpose::Train, epoch, input, start: from, end, cached };
        let cached = cached && own_tail;
        let evaluation = evaluation.clone().map(|pass| Pass { epoch, cached, ..pass });
        std::iter::once(train).chain(evaluation)
    })
}

pub(super) fn evaluation_pass(sources: &Sources, epoch: u64) -> Option<Pass> {
    let (input, start) = match (&sources.eval_input, sources.boundary) {
        (Some(input), _) => (input, Place::default()),
        (None, Some(boundary)) => (&sources.input, boundary),
        (None, None) => return None,
    };
    let input = Arc::clone(input);
    Some(Pass { purpose: Purpose::Evaluate, epoch, input, start, end: None, cached: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_rounded_a_half_up() {
        let tail = |total, eval_fraction| {
            let mut config = Config::default();
            config.data.eval_fraction = eval_fraction;
            total - train_part(&config, total)
        };
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
