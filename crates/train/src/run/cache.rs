//! What becomes of `data.cache`: a cache that is read, or one that is made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_data::{
    CacheAt, CacheWriter, DataCache, Input, PackedWriter, Position as Place, SourceFile,
};
use stepwell_settings::Config;

use super::sources::{SCHEMA, Sources};
use crate::batch::Position;
use crate::pipeline::CacheMaking;
use crate::{Error, Result};

/// A cache that is to be made.
pub(super) struct Wanted {
    path: PathBuf,
    /// The files of text as they are now.
    sources: Vec<SourceFile>,
    /// Blocks that it has at most.
    pub(super) blocks: u64,
    /// Malformed lines that it remembers at most.
    malformed: u64,
}

impl Wanted {
    /// The most bytes that making it takes, and reading it afterwards.
    pub(super) fn bytes_max(&self) -> u64 {
        CacheWriter::bytes_max(&self.sources, SCHEMA, self.blocks, self.malformed)
    }
}

/// What there is at `data.cache`.
#[derive(Default)]
pub(super) struct Found {
    pub(super) cache: Option<Arc<DataCache>>,
    pub(super) wanted: Option<Wanted>,
    pub(super) note: Option<String>,
}

/// Looks for the cache of `files`, before anything else reads them; a run also reads `others`.
pub(super) fn find(config: &Config, files: &[PathBuf], others: &[PathBuf]) -> Result<Found> {
    let Some(path) = &config.data.cache else { return Ok(Found::default()) };
    check_place(config, path, files.iter().chain(others))?;
    let sources = files.iter().map(|file| Ok(SourceFile::of(file)?)).collect::<Result<Vec<_>>>()?;
    let note = match DataCache::find(path, files, &sources, SCHEMA)? {
        CacheAt::Whole(cache) => {
            return Ok(Found { cache: Some(Arc::new(cache)), ..Found::default() });
        }
        CacheAt::Absent => None,
        CacheAt::Other(why) => Some(format!(
            "{} was made of other data ({why}): the data is parsed, and the cache made anew",
            path.display()
        )),
    };
    // Training and evaluation may be two parts of the data.
    let malformed = config.data.skip_max.saturating_mul(2);
    let wanted = Wanted { path: path.clone(), sources, blocks: 0, malformed };
    Ok(Found { cache: None, wanted: Some(wanted), note })
}

/// Refuses a place for the cache that the run reads or keeps something else in.
fn check_place<'a>(
    config: &Config,
    path: &Path,
    reads: impl Iterator<Item = &'a PathBuf>,
) -> Result<()> {
    let fail = |what: &str| {
        let path = path.display();
        Err(Error::Config(format!("data.cache = {path} {what}: name another place for it")))
    };
    let places = [path.to_owned(), PackedWriter::unfinished(path)].map(|place| real(&place));
    for file in reads.map(|file| real(file)) {
        if file == places[0] {
            return fail("is one of the data files");
        }
        if file == places[1] {
            return fail(&format!("is written as {} first, a data file", places[1].display()));
        }
    }
    for (key, folder) in
        [("checkpoint.dir", &config.checkpoint.dir), ("tiers.ssd", &config.tiers.ssd)]
    {
        if folder.as_ref().is_some_and(|folder| places.contains(&real(folder))) {
            return fail(&format!("is {key} too"));
        }
    }
    Ok(())
}

/// Where a path leads; where nothing is there yet, as it stands.
fn real(path: &Path) -> PathBuf {
    let there = path.canonicalize().or_else(|_| std::path::absolute(path));
    there.unwrap_or_else(|_| path.to_owned())
}

/// Refuses a cache that stands among the text it may have been made of: its examples would be
/// trained on twice.
pub(super) fn check_apart(files: &[PathBuf]) -> Result<()> {
    let Some(cache) = DataCache::among_text(files)? else { return Ok(()) };
    Err(Error::Config(format!(
        "{} is a cache that data.cache made of text, and stands among text: name it alone, or \
         leave it out",
        cache.display()
    )))
}

/// Whether a run that reads the cache skips no more lines than it may; one that skips more reads
/// the text, to stop where and why it stops without a cache.
pub(super) fn skips_fit(cache: &DataCache, boundary: Option<Place>, skip_max: u64) -> bool {
    let all = Place { file: u32::MAX, line: 0 };
    let (train, evaluate) = cache.malformed_around(boundary.unwrap_or(all));
    train.max(evaluate) <= skip_max
}

/// What to say where they do not fit.
pub(super) fn skips_note(cache: &DataCache, skip_max: u64) -> String {
    let path = cache.path().display();
    format!(
        "{path} has malformed lines beyond data.skip_max = {skip_max}: the text is read instead"
    )
}

/// The epoch that makes the cache: the first that is read from its start.
pub(super) fn epoch_made(start: Position) -> u64 {
    start.epoch + u64::from((start.file, start.line) != (0, 0))
}

/// Begins the cache, where one is to be made; dropped, it leaves nothing.
pub(super) fn begin(sources: &Sources) -> Result<Option<CacheWriter>> {
    let Some(wanted) = &sources.cache else { return Ok(None) };
    let Wanted { path, sources: now, blocks, .. } = wanted;
    Ok(Some(CacheWriter::new(path, sources.input.files(), now, SCHEMA, *blocks)?))
}

/// What was begun, where a run from `start` on has an epoch left that reads all of the data.
pub(super) fn made_by(
    config: &Config,
    sources: &Sources,
    begun: Option<CacheWriter>,
    start: Position,
) -> Option<CacheMaking> {
    let epoch = epoch_made(start);
    let writer = begun.filter(|_| epoch < config.data.epochs)?;
    let (path, input) = (writer.path().to_owned(), Arc::clone(&sources.input));
    Some(CacheMaking { writer, path, input, epoch })
}

/// What to say of a run that begins at `start`.
pub(super) fn note(config: &Config, sources: &Sources, start: Position) -> Option<String> {
    let path = config.data.cache.as_ref()?.display();
    if let Input::Cache(cache) = &*sources.input {
        let examples = cache.examples();
        return Some(format!("reading {path}, {examples} examples, in the place of the text"));
    }
    sources.cache.as_ref()?;
    let epoch = epoch_made(start);
    let end = match epoch >= config.data.epochs {
        true => "no later one is left to make it in".to_owned(),
        false => format!("epoch {} makes it", epoch + 1),
    };
    (epoch > start.epoch)
        .then(|| format!("{path} is not made in an epoch that is resumed in its middle: {end}"))
}
