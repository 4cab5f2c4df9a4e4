//! Input and output of the reading stages.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::error::DataError;
use crate::input::Input;
use crate::pass_share::Share;
use crate::read_options::Position;

/// One reading of a part of the data.
#[derive(Clone, Debug)]
pub struct Pass<P> {
    /// The caller's name of the pass, passed through.
    pub purpose: P,
    /// Number of times all of the data has been read before.
    pub epoch: u64,
    /// Data.
    pub input: Arc<Input>,
    /// Start of the part.
    pub start: Position,
    /// End of the part; `None` for the end of the files.
    pub end: Option<Position>,
    /// Whether to read the cache that an earlier pass makes, if it succeeds, instead of `input`.
    pub cached: bool,
    /// Share of this reader; `None` for all lines.
    pub share: Option<Share>,
}

/// Passes to read, in order.
pub type Passes<P> = Box<dyn Iterator<Item = Pass<P>> + Send>;

/// Output, in order.
#[derive(Debug)]
pub enum Parsed<P> {
    /// Start of this pass.
    Begin(Arc<Pass<P>>),
    /// Wanted examples of a block; the last chunk of a pass may extend past its end.
    Chunk(Box<Chunk>),
    /// End of this pass.
    End(Arc<Pass<P>>),
    /// No more passes.
    Last,
    /// A read error; the output ends here.
    Failed(DataError),
}
