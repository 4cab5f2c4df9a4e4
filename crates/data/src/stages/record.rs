//! Writes the cache of the data while the data goes by, and hands it to whoever reads next.
//!
//! Who has the chunks in order has them written, before he cuts them; what he cut is on its way
//! before the file is synced, so that training goes on meanwhile. A pass that reads the cache waits
//! until it is whole.
//!
//! Failure   Where the disk refuses, the cache is given up, which somebody is told, and passes that
//!           were to read it read the text: the examples are the same.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use stepwell_base::queue::Events;

use super::pass::Pass;
use crate::{CacheWriter, Chunk, DataError, Input};

/// What became of the cache, once that is known: it is whole, or there will be none.
pub(super) type Cached = Arc<OnceLock<Option<Arc<Input>>>>;

/// A cache to be made.
pub struct CacheMaking {
    /// Writes it.
    pub writer: CacheWriter,
    /// Where it will be.
    pub path: PathBuf,
    /// What it is made of.
    pub input: Arc<Input>,
    /// The epoch that reads all of it.
    pub epoch: u64,
}

/// What became of a cache.
#[derive(Debug)]
pub enum CacheFate<'a> {
    /// It is whole.
    Made {
        /// Examples in it.
        examples: u64,
        /// Where it is.
        path: &'a Path,
    },
    /// The disk refused it.
    GivenUp(&'a DataError),
}

/// Told what became of a cache.
pub type OnFate = Box<dyn Fn(CacheFate<'_>) + Send>;

/// Makes the cache.
pub struct Recorder {
    making: CacheMaking,
    fate: Fate,
    /// Whether all of the input went by.
    whole: bool,
}

/// Who is told what became of the cache.
struct Fate {
    cached: Cached,
    on_fate: OnFate,
    /// Rung when it is known, which no queue shows.
    events: Arc<Events>,
}

/// Whether there still is a cache to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// There is.
    On,
    /// The disk refused it.
    GivenUp,
}

impl Recorder {
    pub(super) fn new(
        (making, on_fate): (CacheMaking, OnFate),
        cached: &Cached,
        events: &Arc<Events>,
    ) -> Self {
        let fate = Fate { cached: Arc::clone(cached), on_fate, events: Arc::clone(events) };
        Self { making, fate, whole: false }
    }

    fn takes<P>(&self, pass: &Pass<P>) -> bool {
        pass.epoch == self.making.epoch && Arc::ptr_eq(&pass.input, &self.making.input)
    }

    /// The next chunk of `pass`, of which `examples` examples and all malformed lines lie in it.
    ///
    /// # Errors
    /// Whatever else than the disk refuses it, as [`CacheWriter::add`].
    pub fn add<P>(
        &mut self,
        pass: &Pass<P>,
        chunk: &Chunk,
        examples: usize,
    ) -> Result<Recording, DataError> {
        if !self.takes(pass) {
            return Ok(Recording::On);
        }
        match self.making.writer.add(chunk, examples) {
            Err(refused @ DataError::Packing { .. }) => {
                self.fate.given_up(&refused);
                Ok(Recording::GivenUp)
            }
            added => added.map(|()| Recording::On),
        }
    }

    /// `pass` is over.
    pub fn end<P>(&mut self, pass: &Pass<P>) {
        self.whole |= self.takes(pass) && pass.end.is_none();
    }

    /// Whether there is a cache to complete.
    pub fn is_due(&self) -> bool {
        self.whole
    }

    /// Gives the cache its name, and to its readers.
    ///
    /// # Errors
    /// Whatever else than the disk refuses it, as [`CacheWriter::finish`].
    pub fn finish(self) -> Result<(), DataError> {
        let Self { making, fate, .. } = self;
        match making.writer.finish() {
            Err(refused @ DataError::Packing { .. }) => fate.given_up(&refused),
            made => {
                let cache = made?;
                let (examples, path) = (cache.examples(), &*making.path);
                (fate.on_fate)(CacheFate::Made { examples, path });
                fate.is(Some(Arc::new(Input::Cache(Arc::new(cache)))));
            }
        }
        Ok(())
    }
}

impl Fate {
    fn given_up(&self, why: &DataError) {
        (self.on_fate)(CacheFate::GivenUp(why));
        self.is(None);
    }

    fn is(&self, cache: Option<Arc<Input>>) {
        assert!(self.cached.set(cache).is_ok(), "a run makes one cache");
        self.events.notify();
    }
}
