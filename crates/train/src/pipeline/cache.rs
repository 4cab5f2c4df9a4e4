//! Writes the cache of the data while the data goes by, and hands it to whoever reads next.
//!
//! The stage that has the chunks in order writes them, before it cuts them; what it cut is on its
//! way before the file is synced, so that training goes on meanwhile. A pass that reads the cache
//! waits until it is whole.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use stepwell_base::queue::Bell;
use stepwell_data::{CacheWriter, Chunk, Input};

use super::Observer;
use super::read::Pass;
use crate::Result;

/// The cache, once it is whole.
pub(super) type Cached = Arc<OnceLock<Arc<Input>>>;

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
    cached: Cached,
    observer: Arc<dyn Observer>,
    /// Rung when the cache is whole, which no queue shows.
    bell: Arc<Bell>,
    /// Whether all of the input went by.
    whole: bool,
}

impl Recorder {
    pub(super) fn new(
        making: CacheMaking,
        cached: &Cached,
        observer: &Arc<dyn Observer>,
        bell: &Arc<Bell>,
    ) -> Self {
        let (cached, observer) = (Arc::clone(cached), Arc::clone(observer));
        Self { making, cached, observer, bell: Arc::clone(bell), whole: false }
    }

    fn takes(&self, pass: &Pass) -> bool {
        pass.epoch == self.making.epoch && Arc::ptr_eq(&pass.input, &self.making.input)
    }

    /// The next chunk of `pass`, of which `examples` examples and all malformed lines lie in it.
    pub(super) fn add(&mut self, pass: &Pass, chunk: &Chunk, examples: usize) -> Result<()> {
        if self.takes(pass) {
            self.making.writer.add(chunk, examples)?;
        }
        Ok(())
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
        let cache = self.making.writer.finish()?;
        self.observer.cached(cache.examples(), &self.making.path);
        let input = Arc::new(Input::Cache(Arc::new(cache)));
        assert!(self.cached.set(input).is_ok(), "a run makes one cache");
        self.bell.ring();
        Ok(())
    }
}
