//! Writes the cache while data is read, and passes it to later readers.
//!
//! The consumer, who has chunks in order, records them before cutting them into mini-batches. These
//! are passed on before the file is synced, so that training continues concurrently. A pass that
//! reads the cache waits until it is complete.
//!
//! Failure: after a disk error, or if it needs more blocks than planned, the cache is abandoned and
//! reported, and passes that would read it read the text: the examples are the same.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use stepwell_base::queue::Events;
use tracing::{info, warn};

use super::pass::Pass;
use crate::chunk::Chunk;
use crate::data_cache::CacheWriter;
use crate::error::DataError;
use crate::input::Input;

/// The finished cache, or `None` if it was abandoned; unset until then.
pub(super) type Cached = Arc<OnceLock<Option<Arc<Input>>>>;

/// A cache to make.
pub struct CacheMaking {
    /// Writer of the cache.
    pub writer: CacheWriter,
    /// Path of the cache.
    pub path: PathBuf,
    /// The text from which it is made.
    pub input: Arc<Input>,
    /// The epoch that reads all of the text.
    pub epoch: u64,
}

/// Outcome of making a cache.
#[derive(Debug)]
pub enum CacheFate<'a> {
    /// The cache is complete.
    Made {
        /// Number of examples.
        examples: u64,
        /// Path of the cache.
        path: &'a Path,
    },
    /// Abandoned: a disk error, or too many blocks.
    GivenUp(&'a DataError),
}

/// Callback for the outcome.
pub type OnFate = Box<dyn Fn(CacheFate<'_>) + Send>;

/// Makes the cache.
pub struct Recorder {
    making: CacheMaking,
    fate: Fate,
    /// Whether all of the input was recorded.
    whole: bool,
}

/// Publishes the outcome.
struct Fate {
    cached: Cached,
    on_fate: OnFate,
    /// Notified about the outcome, which no queue shows.
    events: Arc<Events>,
}

/// Whether the cache is still being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Still being made.
    On,
    /// Abandoned: a disk error, or too many blocks.
    GivenUp,
}

impl Recorder {
    pub(super) fn new(
        making: CacheMaking,
        on_fate: OnFate,
        cached: &Cached,
        events: &Arc<Events>,
    ) -> Self {
        let fate = Fate { cached: Arc::clone(cached), on_fate, events: Arc::clone(events) };
        Self { making, fate, whole: false }
    }

    fn takes<P>(&self, pass: &Pass<P>) -> bool {
        pass.epoch == self.making.epoch && Arc::ptr_eq(&pass.input, &self.making.input)
    }

    /// Records the next chunk of `pass`, with its first `examples` examples and all its malformed
    /// lines.
    ///
    /// # Errors
    /// The errors of [`CacheWriter::add`], except those that abandon the cache.
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
            Err(refused @ (DataError::Packing { .. } | DataError::CacheTooLarge { .. })) => {
                self.fate.given_up(&refused);
                Ok(Recording::GivenUp)
            }
            added => added.map(|()| Recording::On),
        }
    }

    /// Notes the end of `pass`.
    pub fn end<P>(&mut self, pass: &Pass<P>) {
        self.whole |= self.takes(pass) && pass.end.is_none();
    }

    /// Whether the cache is ready to be completed.
    pub fn is_due(&self) -> bool {
        self.whole
    }

    /// Completes the cache, and passes it to its readers.
    ///
    /// # Errors
    /// The errors of [`CacheWriter::finish`], except disk errors.
    pub fn finish(self) -> Result<(), DataError> {
        let Self { making, fate, .. } = self;
        match making.writer.finish() {
            Err(refused @ DataError::Packing { .. }) => fate.given_up(&refused),
            made => {
                let cache = made?;
                let (examples, path) = (cache.examples(), &*making.path);
                info!(path = %path.display(), examples, "data cache made");
                (fate.on_fate)(CacheFate::Made { examples, path });
                fate.is(Some(Arc::new(Input::Cache(Arc::new(cache)))));
            }
        }
        Ok(())
    }
}

impl Fate {
    fn given_up(&self, why: &DataError) {
        warn!(error = %why, "data cache given up: the text is read");
        (self.on_fate)(CacheFate::GivenUp(why));
        self.is(None);
    }

    fn is(&self, cache: Option<Arc<Input>>) {
        assert!(self.cached.set(cache).is_ok(), "a run makes one cache");
        self.events.notify();
    }
}
