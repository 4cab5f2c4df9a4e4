//! What a run reads: files or the built-in stream, cut into passes.

use std::path::PathBuf;
use std::sync::Arc;

use stepwell_data::{Position as Place, Schema, Synth, SynthOptions, lines_of_each, resolve};

use crate::Result;
use crate::batch::{Position, Purpose};
use crate::config::Config;
use crate::pipeline::Pass;

/// What a run reads.
pub(super) struct Sources {
    pub(super) schema: Schema,
    pub(super) files: Arc<Vec<PathBuf>>,
    pub(super) eval_files: Arc<Vec<PathBuf>>,
    pub(super) synth: Option<Arc<Synth>>,
    /// Behind the training part; none for the end of the files.
    pub(super) boundary: Option<Place>,
    /// Lines of an epoch, where they were counted.
    pub(super) examples: Option<u64>,
}

pub(super) fn sources(config: &Config) -> Result<Sources> {
    let schema = Schema::CRITEO;
    if config.data.paths.is_empty() {
        return synthetic_sources(config, schema);
    }
    let files = resolve(&config.data.paths)?;
    let eval_files = match config.data.eval_paths.as_slice() {
        [] => Vec::new(),
        paths => resolve(paths)?,
    };
    let (mut boundary, mut examples) = (None, None);
    if eval_files.is_empty() && config.data.eval_fraction > 0.0 {
        let lines = lines_of_each(&files)?;
        let total: u64 = lines.iter().sum();
        boundary = Some(place_of(train_part(config, total), &lines));
        examples = Some(total);
    }
    Ok(Sources {
        schema,
        files: Arc::new(files),
        eval_files: Arc::new(eval_files),
        synth: None,
        boundary,
        examples,
    })
}

fn synthetic_sources(config: &Config, schema: Schema) -> Result<Sources> {
    let total = config.synth.examples;
    let synth = Synth::new(&synth_options(config))?;
    Ok(Sources {
        schema,
        files: Arc::default(),
        eval_files: Arc::default(),
        synth: Some(Arc::new(synth)),
        boundary: Some(Place { file: 0, line: train_part(config, total) }),
        examples: Some(total),
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

/// Lines of the training part: all but the tail.
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
    let files = sources.synth.is_none().then(|| Arc::clone(&sources.files));
    let end = sources.boundary;
    let evaluation = evaluation_pass(sources, 0);
    (start.epoch..config.data.epochs).flat_map(move |epoch| {
        let resumed = epoch == start.epoch;
        let from =
            if resumed { Place { file: start.file, line: start.line } } else { Place::default() };
        let files = files.clone();
        let train = Pass { purpose: Purpose::Train, epoch, files, start: from, end };
        let evaluation = evaluation.clone().map(|pass| Pass { epoch, ..pass });
        std::iter::once(train).chain(evaluation)
    })
}

pub(super) fn evaluation_pass(sources: &Sources, epoch: u64) -> Option<Pass> {
    let purpose = Purpose::Evaluate;
    if !sources.eval_files.is_empty() {
        let files = Some(Arc::clone(&sources.eval_files));
        return Some(Pass { purpose, epoch, files, start: Place::default(), end: None });
    }
    let start = sources.boundary?;
    let files = sources.synth.is_none().then(|| Arc::clone(&sources.files));
    let end = match sources.synth {
        Some(_) => Some(Place { file: 0, line: sources.examples? }),
        None => None,
    };
    (end != Some(start)).then_some(Pass { purpose, epoch, files, start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

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
