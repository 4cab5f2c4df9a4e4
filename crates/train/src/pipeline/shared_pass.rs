//! Where a pass is that ranks share, or that is read in streams.
//!
//! Chunks come in the order in which mini-batches need them, so that each is of the stream whose
//! lines are waited for. Bounds: one chunk of each stream.

use std::ops::Range;

use stepwell_data::{Chunk, Position, Share, Walk};

/// A pass, and the chunks at hand.
pub(super) struct SharedPass {
    walk: Walk,
    /// Whether anything of a stream is wanted here, by stream.
    wants: Vec<bool>,
    /// By stream, and which of its lines is next.
    chunks: Vec<Option<(Box<Chunk>, usize)>>,
}

/// How far a mini-batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// It has so many examples, those of other ranks among them.
    Whole(usize),
    /// It waits for a chunk.
    Waits,
    /// There is none: the pass is over.
    Over,
}

impl SharedPass {
    pub(super) fn new(share: Share) -> Self {
        let streams = share.streams();
        let wants = (0..streams).map(|stream| share.wants(stream)).collect();
        Self { walk: Walk::new(share), wants, chunks: (0..streams).map(|_| None).collect() }
    }

    /// Takes the chunk that was waited for.
    pub(super) fn give(&mut self, chunk: Box<Chunk>) {
        let Some((stream, _)) = self.walk.next() else { return };
        assert!(self.chunks[stream].is_none(), "a chunk comes when there is none of its stream");
        self.chunks[stream] = Some((chunk, 0));
    }

    /// Has `append` take the lines of chunks that are next, until a mini-batch is whole.
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

    /// Where reading goes on behind the last whole mini-batch.
    pub(super) fn place(&self) -> Position {
        self.walk.share().place_after(self.walk.behind())
    }

    /// Examples of the pass, and of whole mini-batches so far.
    pub(super) fn examples(&self) -> (u64, u64) {
        (self.walk.share().examples(), self.walk.behind())
    }
}
