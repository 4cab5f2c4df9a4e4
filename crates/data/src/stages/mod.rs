//! Pipeline stages that read: blocks in order, parsed by several threads, chunks in order again.
//!
//! ```text
//!               blocks             in order
//!   read ──────────────► parse ×n ──────────► caller ──► recorder
//!    │                                   ▲                  │
//!    └── a pass begins, ends ────────────┘                  │
//!    ▲                                                      │
//!    └──────── the cache, once complete or abandoned ◄──────┘
//! ```
//!
//! - **Why.** A pipeline reads ahead of training, on separate threads. The caller lists the passes
//!   to read; their purpose doesn't matter here.
//! - **How.** Blocks and the markers between them are numbered when they are read, and [`Ordered`]
//!   restores that order. The consumer may have a [`Recorder`] write chunks to a cache, which later
//!   passes read instead of text.
//! - **Failure.** A read error takes its place in that order, so the caller gets everything before
//!   it, and always the first error of the data.
//! - **Bounds.** A queue of one block per parsing thread, [`BLOCKS_PER_PARSER`] waiting items per
//!   parsing thread, and one block or chunk in each stage.

mod lanes;
mod ordered;
mod parse;
mod pass;
mod read;
mod record;

use std::sync::Arc;

use stepwell_base::queue::{Events, bounded};

use crate::read_options::ReadOptions;

pub(crate) use self::lanes::Lanes;
pub use self::ordered::Ordered;
pub use self::parse::ParseStage;
pub use self::pass::{Parsed, Pass, Passes};
pub use self::read::ReadStage;
use self::record::Cached;
pub use self::record::{CacheFate, CacheMaking, OnFate, Recorder, Recording};

/// Blocks and chunks between the `read` stage and the caller, per parsing thread.
pub const BLOCKS_PER_PARSER: usize = 2;

/// The reading stages, to be driven together with the caller's own, and their output.
pub struct Reading<P> {
    /// Cuts passes into blocks.
    pub read: ReadStage<P>,
    /// Turn blocks into chunks.
    pub parse: Vec<ParseStage<P>>,
    /// Output of the stages.
    pub parsed: Arc<Ordered<Parsed<P>>>,
    /// Makes the cache from the chunks that the caller passes to it, if one is to be made.
    pub recorder: Option<Recorder>,
}

/// Stages that read `passes` with `threads` parsing threads. `cache` describes the cache to make;
/// without one, no pass may wait for it.
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
    let recorder = cache.map(|(making, on_fate)| Recorder::new(making, on_fate, &cached, events));
    let blocks = Arc::new(blocks);
    let parse = |_| ParseStage::new(Arc::clone(&blocks), Arc::clone(&parsed));
    Reading {
        parse: (0..threads).map(parse).collect(),
        read: ReadStage::new(passes, options, cached, blocks_in, Arc::clone(&parsed)),
        parsed,
        recorder,
    }
}
