//! Progress in a pass that ranks share, or that is read in streams.
//!
//! Chunks arrive in the order in which mini-batches need them, so each is of the stream that the
//! next lines come from. Bounds: one chunk of each stream.

use std::ops::Range;

use stepwell_data::{Chunk, Position, Share, Walk};

/// A pass and its current chunks.
pub(super) struct SharedPass {
    walk: Walk,
    /// Whether any part of each stream is needed here.
    wants: Vec<bool>,
    /// Chunk of each stream, and the next line in the chunk.
    chunks: Vec<Option<(Box<Chunk>, usize)>>,
}

/// Progress of a mini-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Complete, with its number of examples, including those of other ranks.
    Whole(usize),
    /// Waits for a chunk.
    Waits,
    /// No mini-batch is left: the pass is over.
    Over,
}

impl SharedPass {
    pub(super) fn new(share: Share) -> Self {
        let streams = share.streams();
        let wants = (0..streams).map(|stream| share.wants(stream)).collect();
        Self { walk: Walk::new(share), wants, chunks: (0..streams).map(|_| None).collect() }
    }

    /// Takes the chunk that the pass waited for.
    pub(super) fn give(&mut self, chunk: Box<Chunk>) {
        let Some((stream, _)) = self.walk.next() else { return };
        assert!(self.chunks[stream].is_none(), "the stream's previous chunk was taken");
        self.chunks[stream] = Some((chunk, 0));
    }

    /// Calls `append` with the next lines of chunks until a mini-batch is complete.
    pub(super) fn fill(&mut self, mut append: impl FnMut(&Chunk, Range<usize>)) -> Filled {
        while let Some((stream, left)) = self.walk.next() {
            let mut lines = left;
            if self.wants[stream] {
                let Some((chunk, next)) = &mut self.chunks[stream] else { return Filled::Waits };
                let end = chunk.line_count as usize;
                lines = left.min(end - *next);
                append(chunk, *next..*next + lines);
                *next += lines;
                if *next == end {
                    self.chunks[stream] = None;
                }
            }
            if let Some(examples) = self.walk.take(lines) {
                return Filled::Whole(examples);
            }
        }
        Filled::Over
    }

    /// Position at which reading continues after the last complete mini-batch.
    pub(super) fn place(&self) -> Position {
        self.walk.share().place_after(self.walk.behind())
    }

    /// Number of examples of the pass, and of complete mini-batches so far.
    pub(super) fn examples(&self) -> (u64, u64) {
        (self.walk.share().examples(), self.walk.behind())
    }
}
