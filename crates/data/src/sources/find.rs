//! Finds the data of a run: its files, the cut between training and evaluation, and the cache.

use std::sync::Arc;

use stepwell_base::stop::StopRequest;
use tracing::info;

use super::cache::{self, Found};
use super::names::{NameNotes, names_notes};
use super::{SourceOptions, Sources, streams};
use crate::data_cache::CacheWriter;
use crate::error::DataError;
use crate::file_notes::{recordless_note, repeated_note};
use crate::file_reader::check_paths;
use crate::files::Files;
use crate::input::Input;
use crate::layout::{Layout, Part};
use crate::read_options::Position;
use crate::resolve::resolve;

impl Sources {
    /// Finds the data of `options`, and counts its lines if necessary. Stops when `stop` is
    /// requested.
    ///
    /// # Errors
    /// Files that can't be read or don't match each other, and [`DataError::Stopped`].
    pub fn find(options: SourceOptions, stop: &StopRequest) -> Result<Self, DataError> {
        streams::check(&options)?;
        let input = match options.paths.as_slice() {
            [] => Input::synth(&options.stream)?,
            paths => Input::Files(options.files(paths, Part::Train)?),
        };
        let is_split = options.layout.as_deref().is_some_and(Layout::splits);
        let eval_input = match options.eval_paths.as_slice() {
            // The other part of the same files.
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
        let NameNotes { mut notes, warnings } =
            notes_on_files(&options, &input, eval_input.as_deref())?;
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
        if let (Some(wanted), Input::Files(files)) = (&mut wanted, &input) {
            wanted.blocks = CacheWriter::blocks_max(files, examples, options.schema);
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
        info!(files = input.files().len(), lines = examples, "data found");
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
}

impl SourceOptions {
    /// Files that match `patterns`, with the layout restricted to `part`.
    fn files(&self, patterns: &[String], part: Part) -> Result<Files, DataError> {
        let layout = match &self.layout {
            Some(layout) if layout.splits() => Some(Arc::new(layout.of_part(part))),
            layout => layout.clone(),
        };
        Ok(Files { paths: resolve(patterns)?, layout })
    }
}

/// Notes and warnings about the files for training and evaluation.
fn notes_on_files(
    options: &SourceOptions,
    input: &Input,
    eval_input: Option<&Input>,
) -> Result<NameNotes, DataError> {
    let NameNotes { mut notes, mut warnings } = NameNotes::default();
    let layout = options.layout.as_deref();
    // With a split, and when a model is only scored, both are the same files.
    let others = eval_input.filter(|other| other.files() != input.files());
    let evaluated = others.map(|input| (input, "files to evaluate on"));
    let both = || [(input, "data files")].into_iter().chain(evaluated);
    notes.extend(both().filter_map(|(of, what)| recordless_note(of.files(), layout, what)));
    notes.extend(both().filter_map(|(of, what)| repeated_note(of.files(), what)));
    for input in std::iter::once(input).chain(others) {
        if let Input::Files(files) = input {
            let of_names = names_notes(files)?;
            notes.extend(of_names.notes);
            warnings.extend(of_names.warnings);
        }
    }
    Ok(NameNotes { notes, warnings })
}

/// Lines of the training part: all except the tail, whose length is rounded half up. Scripts that
/// compare with other trainers use the same rule.
pub(crate) fn train_part(eval_fraction: f64, total: u64) -> u64 {
    total - (total as f64 * eval_fraction).round() as u64
}

/// Position of line `ordinal`, counted over all files.
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
        // Rounding half to even would give 0, 2, 2.
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
