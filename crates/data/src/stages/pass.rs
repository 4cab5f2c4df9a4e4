//! What is read, and what comes of it.

use std::sync::Arc;

use crate::{Chunk, DataError, Input, Position, Share};

/// One reading of a part of the data.
#[derive(Clone, Debug)]
pub struct Pass<P> {
    /// What it is read for: carried along, for whoever takes what was read.
    pub purpose: P,
    /// How often all of the data was read before.
    pub epoch: u64,
    /// What the part is of.
    pub input: Arc<Input>,
    /// Where it begins.
    pub start: Position,
    /// The place behind the part; none for the end of the files.
    pub end: Option<Position>,
    /// Whether a cache is read in the place of `input`, which a pass before this one makes if it
    /// can.
    pub cached: bool,
    /// The share of it that is wanted; none where all is.
    pub share: Option<Share>,
}

/// The parts to be read, one after the other.
pub type Passes<P> = Box<dyn Iterator<Item = Pass<P>> + Send>;

/// What was read, in order.
#[derive(Debug)]
pub enum Parsed<P> {
    /// What follows is of this pass.
    Begin(Arc<Pass<P>>),
    /// Examples of a block that are wanted; the last one of a pass may reach beyond its end.
    Chunk(Box<Chunk>),
    /// Nothing more is of this pass.
    End(Arc<Pass<P>>),
    /// No pass will follow.
    Last,
    /// What comes here in order cannot be read; nothing that comes after it means anything.
    Failed(DataError),
}
