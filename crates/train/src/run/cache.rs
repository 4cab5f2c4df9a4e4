//! What becomes of `data.cache`: a cache that is read, or one that is made.

use std::path::PathBuf;
use std::sync::Arc;

use stepwell_data::{CacheAt, CacheWriter, DataCache, Input, Position as Place, SourceFile};

use super::sources::{SCHEMA, Sources};
use crate::Result;
use crate::batch::Position;
use crate::config::Config;
use crate::pipeline::CacheMaking;

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

/// Looks for the cache of `files`, before anything else reads them.
pub(super) fn find(config: &Config, files: &[PathBuf]) -> Result<Found> {
    let Some(path) = &config.data.cache else { return Ok(Found::default()) };
    if let Ok(real) = path.canonicalize()
        && files.iter().any(|file| file.canonicalize().is_ok_and(|file| file == real))
    {
        return Err(crate::Error::Config(format!(
            "data.cache = {} is one of the data files: name another place for it",
            path.display()
        )));
    }
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

/// Begins the cache, where one is to be made and an epoch is left that reads all of the data.
pub(super) fn begin(
    config: &Config,
    sources: &Sources,
    start: Position,
) -> Result<Option<CacheMaking>> {
    let Some(wanted) = &sources.cache else { return Ok(None) };
    let epoch = epoch_made(start);
    if epoch >= config.data.epochs {
        return Ok(None);
    }
    let (path, files) = (wanted.path.clone(), sources.input.files());
    let writer = CacheWriter::new(&path, files, &wanted.sources, SCHEMA, wanted.blocks)?;
    Ok(Some(CacheMaking { writer, path, input: Arc::clone(&sources.input), epoch }))
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
