//! Handles `data.cache`: finds a cache to read, or plans one to make.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{info, warn};

use super::wanted_cache::Wanted;
use super::{ReadFrom, SourceOptions, Sources};
use crate::data_cache::{CacheAt, CacheWriter, DataCache, SourceFile};
use crate::error::DataError;
use crate::files::Files;
use crate::input::Input;
use crate::packed::PackedWriter;
use crate::read_options::Position;
use crate::stages::CacheMaking;

/// State of `data.cache`.
#[derive(Default)]
pub(super) struct Found {
    pub(super) cache: Option<Arc<DataCache>>,
    pub(super) wanted: Option<Wanted>,
    pub(super) note: Option<String>,
}

/// Looks for the cache of `input`, before anything else reads it; the run also reads `others`.
pub(super) fn find(
    options: &SourceOptions,
    input: &Input,
    others: &[PathBuf],
) -> Result<Found, DataError> {
    let Some(path) = &options.cache else { return Ok(Found::default()) };
    let files = input.files();
    check_place(options, path, files.iter().chain(others))?;
    let sources = files.iter().map(|file| SourceFile::of(file, options.layout.as_deref()));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let files = Files { paths: files.to_vec(), layout: options.layout.clone() };
    let note = match DataCache::find(path, &files, &sources, options.schema)? {
        CacheAt::Whole(cache) => {
            info!(path = %path.display(), examples = cache.examples(), "data cache found");
            return Ok(Found { cache: Some(Arc::new(*cache)), ..Found::default() });
        }
        CacheAt::Absent => None,
        CacheAt::Other(why) => {
            let path = path.display();
            warn!(%path, why, "data cache refused: it was made of other data");
            Some(format!(
                "{path} was made of other data ({why}): the data is parsed, and the cache is made \
                 again"
            ))
        }
    };
    // Training and evaluation may each skip this many lines of the data.
    let malformed = options.skip_max.saturating_mul(2);
    let wanted = Wanted { path: path.clone(), sources, blocks: 0, malformed };
    Ok(Found { cache: None, wanted: Some(wanted), note })
}

/// Returns an error if the run uses the path of the cache for something else.
fn check_place<'a>(
    options: &SourceOptions,
    path: &Path,
    reads: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), DataError> {
    let fail = |what: &str| {
        let path = path.display();
        Err(DataError::Options(format!("data.cache = {path} {what}: choose another path for it")))
    };
    let places = [path.to_owned(), PackedWriter::unfinished(path)].map(|place| real(&place));
    for file in reads.map(|file| real(file)) {
        if file == places[0] {
            return fail("is one of the data files");
        }
        if file == places[1] {
            return fail(&format!(
                "is first written as {}, which is a data file",
                places[1].display()
            ));
        }
    }
    for (key, taken) in &options.taken {
        if places.contains(&real(taken)) {
            return fail(&format!("is also {key}"));
        }
    }
    Ok(())
}

/// Resolves a path; if nothing exists there, makes it absolute.
fn real(path: &Path) -> PathBuf {
    let there = path.canonicalize().or_else(|_| std::path::absolute(path));
    there.unwrap_or_else(|_| path.to_owned())
}

/// Returns an error if a cache is in a list of text files: its examples would be trained on twice.
pub(super) fn check_apart(files: &[PathBuf]) -> Result<(), DataError> {
    let Some(cache) = DataCache::among_text(files)? else { return Ok(()) };
    Err(DataError::Options(format!(
        "{} is a cache that data.cache made of text, but is listed among text: name it alone, or \
         leave it out",
        cache.display()
    )))
}

/// Whether a run that reads the cache stays within the limit on skipped lines. If not, the run
/// reads the text, so that it stops where it would without a cache, with the same error.
pub(super) fn skips_fit(cache: &DataCache, boundary: Option<Position>, skip_max: u64) -> bool {
    let all = Position { file: u32::MAX, line: 0 };
    let (train, evaluate) = cache.malformed_around(boundary.unwrap_or(all));
    train.max(evaluate) <= skip_max
}

/// Note for a cache with too many malformed lines.
pub(super) fn skips_note(cache: &DataCache, skip_max: u64) -> String {
    let path = cache.path().display();
    warn!(%path, skip_max, "data cache refused: it has more malformed lines");
    format!(
        "{path} has more malformed lines than data.skip_max = {skip_max}: the text is read instead"
    )
}

impl Sources {
    /// Starts the cache, if one is to be made. If dropped, it removes the file.
    ///
    /// # Errors
    /// A path that can't be written.
    pub fn begin_cache(&self) -> Result<Option<CacheWriter>, DataError> {
        let Some(Wanted { path, sources: now, blocks, .. }) = &self.wanted else { return Ok(None) };
        let paths = self.input.files().to_vec();
        let files = Files { paths, layout: self.options.layout.clone() };
        CacheWriter::new(path, &files, now, self.schema(), *blocks).map(Some)
    }

    /// Plan to complete the started cache, if a run from `from` still has an epoch that reads all
    /// data.
    pub fn cache_making(&self, begun: Option<CacheWriter>, from: ReadFrom) -> Option<CacheMaking> {
        let epoch = from.epoch_made();
        let writer = begun.filter(|_| epoch < self.options.epochs)?;
        let (path, input) = (writer.path().to_owned(), Arc::clone(&self.input));
        Some(CacheMaking { writer, path, input, epoch })
    }

    /// Blocks of the cache to make, and the most bytes that making and reading it takes.
    pub fn cache_room(&self) -> Option<(u64, u64)> {
        let wanted = self.wanted.as_ref()?;
        Some((wanted.blocks, wanted.bytes_max(self.schema())))
    }

    /// Note about the cache for a run that starts at `from`.
    pub fn cache_note(&self, from: ReadFrom) -> Option<String> {
        let path = self.options.cache.as_ref()?.display();
        if let Input::Cache(cache) = &*self.input {
            let examples = cache.examples();
            return Some(format!("reading {path}, {examples} examples, in the place of the text"));
        }
        self.wanted.as_ref()?;
        let epoch = from.epoch_made();
        let end = match epoch >= self.options.epochs {
            true => "no later epoch can make it".to_owned(),
            false => format!("epoch {} makes it", epoch + 1),
        };
        (epoch > from.epoch)
            .then(|| format!("{path} is not made in an epoch that is resumed in the middle: {end}"))
    }
}
