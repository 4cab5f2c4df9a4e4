//! The stages that read: blocks in order, parsed by several threads, chunks in order again.
//!
//! ```text
//!               blocks             in order
//!   read ──────────────► parse ×n ──────────► caller ──► recorder
//!    │                                   ▲                  │
//!    └── a pass begins, ends ────────────┘                  │
//!    ▲                                                      │
//!    └──────── the cache, once it is whole or given up ◄────┘
//! ```
//!
//! Why       A pipeline reads ahead of what it trains, on threads of its own. What it reads, and
//!           how often, it says as a list of passes; what they are for is its own business.
//! How       Blocks and signs between them are numbered as they are read, and [`Ordered`] puts them
//!           back into that order. Whoever takes them may have a [`Recorder`] write them into a
//!           cache, which later passes read in the place of the text.
//! Failure   What cannot be read takes its place in that order, so that the caller has all that
//!           came before it, and always the first error of the data.
//! Bounds    A queue of as many blocks as there are parsing threads, and so many times
//!           [`BLOCKS_PER_PARSER`] items that wait for their turn; a block or chunk in the hands of
//!           each stage.

mod lanes;
mod ordered;
mod parse;
mod pass;
mod read;
mod record;

use std::sync::Arc;

use stepwell_base::queue::{Events, bounded};

use crate::ReadOptions;

pub(crate) use self::lanes::Lanes;
pub use self::ordered::Ordered;
pub use self::parse::ParseStage;
pub use self::pass::{Parsed, Pass, Passes};
pub use self::read::ReadStage;
use self::record::Cached;
pub use self::record::{CacheFate, CacheMaking, OnFate, Recorder, Recording};

/// Blocks and chunks between the stage that reads and the caller for each parsing thread.
pub const BLOCKS_PER_PARSER: usize = 2;

/// The stages that read, to be driven together with the caller's own, and what the caller has of
/// them.
pub struct Reading<P> {
    /// Cuts passes into blocks.
    pub read: ReadStage<P>,
    /// Turn blocks into chunks.
    pub parse: Vec<ParseStage<P>>,
    /// What comes out of them.
    pub parsed: Arc<Ordered<Parsed<P>>>,
    /// Makes the cache of what the caller hands it, where one is to be made.
    pub recorder: Option<Recorder>,
}

/// The stages that read `passes` with `threads` parsing threads; `cache` is made of what goes by,
/// and without one no pass may wait for it.
pub fn stages<P>(
    passes: Passes<P>,
    options: ReadOptions,
    threads: usize,
    cache: Option<(CacheMaking, OnFate)>,
    events: &Arc<Events>,
) -> Reading<P> {
    let parsed = Ordered::new(events, BLOCKS_PER_PARSER * threads);
    let (blocks_in, blocks) = bounded(events, threads);
    let cached = Cached::default();
    let recorder = cache.map(|cache| Recorder::new(cache, &cached, events));
    let blocks = Arc::new(blocks);
    let parse = |_| ParseStage::new(Arc::clone(&blocks), Arc::clone(&parsed));
    Reading {
        parse: (0..threads).map(parse).collect(),
        read: ReadStage::new(passes, options, cached, blocks_in, Arc::clone(&parsed)),
        parsed,
        recorder,
    }
}
