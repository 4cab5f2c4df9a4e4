//! The cache that a run is to make of its data, and how much it takes.

use std::path::PathBuf;

use crate::data_cache::{CacheWriter, SourceFile};
use crate::schema::Schema;

/// A cache to make.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) path: PathBuf,
    /// Current state of the text files.
    pub(super) sources: Vec<SourceFile>,
    /// Most blocks.
    pub(super) blocks: u64,
    /// Most malformed lines to record.
    pub(super) malformed: u64,
}

impl Wanted {
    /// Most bytes for making and then reading the cache.
    pub(super) fn bytes_max(&self, schema: Schema) -> u64 {
        CacheWriter::bytes_max(&self.sources, schema, self.blocks, self.malformed)
    }
}
