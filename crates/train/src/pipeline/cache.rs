//! Writes the cache of the data while the data goes by, and hands it to whoever reads next.
//!
//! The stage that has the chunks in order writes them, before it cuts them; what it cut is on its
//! way before the file is synced, so that training goes on meanwhile. A pass that reads the cache
//! waits until it is whole.
//!
//! Failure   Where the disk refuses, the cache is given up with a word to the observer, and passes
//!           that were to read it read the text: the model is the same.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use stepwell_base::queue::Bell;
use stepwell_data::{CacheWriter, Chunk, DataError, Input};

use super::Observer;
use super::read::Pass;
use crate::Result;

/// What became of the cache, once that is known: it is whole, or there will be none.
pub(super) type Cached = Arc<OnceLock<Option<Arc<Input>>>>;

/// A cache to be made.
pub(crate) struct CacheMaking {
    pub(crate) writer: CacheWriter,
    pub(crate) path: PathBuf,
    /// What it is made of.
    pub(crate) input: Arc<Input>,
    /// The epoch that reads all of it.
    pub(crate) epoch: u64,
}

/// Makes the cache.
pub(super) struct Recorder {
    making: CacheMaking,
    fate: Fate,
    /// Whether all of the input went by.
    whole: bool,
}

/// Who is told what became of the cache.
struct Fate {
    cached: Cached,
    observer: Arc<dyn Observer>,
    /// Rung when it is known, which no queue shows.
    bell: Arc<Bell>,
}

/// Whether there still is a cache to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recording {
    /// There is.
    On,
    /// The disk refused it.
    GivenUp,
}

impl Recorder {
    pub(super) fn new(
        making: CacheMaking,
        cached: &Cached,
        observer: &Arc<dyn Observer>,
        bell: &Arc<Bell>,
    ) -> Self {
        let (cached, observer) = (Arc::clone(cached), Arc::clone(observer));
        let fate = Fate { cached, observer, bell: Arc::clone(bell) };
        Self { making, fate, whole: false }
    }

    fn takes(&self, pass: &Pass) -> bool {
        pass.epoch == self.making.epoch && Arc::ptr_eq(&pass.input, &self.making.input)
    }

    /// The next chunk of `pass`, of which `examples` examples and all malformed lines lie in it.
    pub(super) fn add(&mut self, pass: &Pass, chunk: &Chunk, examples: usize) -> Result<Recording> {
        if !self.takes(pass) {
            return Ok(Recording::On);
        }
        match self.making.writer.add(chunk, examples) {
            Err(refused @ DataError::Packing { .. }) => {
                self.fate.given_up(&refused);
                Ok(Recording::GivenUp)
            }
            added => Ok(added.map(|()| Recording::On)?),
        }
    }

    /// `pass` is over.
    pub(super) fn end(&mut self, pass: &Pass) {
        self.whole |= self.takes(pass) && pass.end.is_none();
    }

    /// Whether there is a cache to complete.
    pub(super) fn is_due(&self) -> bool {
        self.whole
    }

    /// Gives the cache its name, and to its readers.
    pub(super) fn finish(self) -> Result<()> {
        let Self { making, fate, .. } = self;
        match making.writer.finish() {
            Err(refused @ DataError::Packing { .. }) => fate.given_up(&refused),
            made => {
                let cache = made?;
                fate.observer.cached(cache.examples(), &making.path);
                fate.is(Some(Arc::new(Input::Cache(Arc::new(cache)))));
            }
        }
        Ok(())
    }
}

impl Fate {
    fn given_up(&self, why: &DataError) {
        self.observer.cache_given_up(&why.to_string());
        self.is(None);
    }

    fn is(&self, cache: Option<Arc<Input>>) {
        assert!(self.cached.set(cache).is_ok(), "a run makes one cache");
        self.bell.ring();
    }
}
