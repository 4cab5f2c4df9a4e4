//! The sources of a pass in the `read` stage: one source, or one per stream.
//!
//! Blocks of streams are returned in the order in which mini-batches need them, so that the
//! consumer holds at most one chunk per stream, and knows the stream of the next chunk.

use super::pass::Pass;
use crate::block::Block;
use crate::error::DataError;
use crate::pass_share::{Follower, Walk};
use crate::read_options::{Position, ReadOptions};
use crate::reader::Source;

/// Sources of a pass.
pub(crate) struct Lanes {
    lanes: Vec<Option<Lane>>,
    /// Mini-batches, if the pass is split among readers.
    walk: Option<Walk>,
    /// End of the pass, if it isn't.
    end: Option<Position>,
}

struct Lane {
    source: Source,
    follower: Follower,
    /// Lines read that no mini-batch has taken yet.
    ahead: usize,
}

impl Lanes {
    /// Opens the wanted part of `pass`.
    pub(crate) fn open<P>(pass: &Pass<P>, options: ReadOptions) -> Result<Self, DataError> {
        let lane = |start, follower| -> Result<_, DataError> {
            let source = Source::open(&pass.input, &ReadOptions { start, ..options })?;
            Ok(Some(Lane { source, follower, ahead: 0 }))
        };
        let lanes = match &pass.share {
            None => vec![lane(pass.start, Follower::new(None, 0))?],
            Some(share) => (0..share.streams())
                .map(|stream| match share.wants(stream) && share.lines_of(stream) > 0 {
                    true => {
                        lane(share.start_of(stream), Follower::new(Some(share.clone()), stream))
                    }
                    false => Ok(None),
                })
                .collect::<Result<_, _>>()?,
        };
        Ok(Self { lanes, walk: pass.share.clone().map(Walk::new), end: pass.end })
    }

    /// Next block; `None` at the end, or if a source has become shorter.
    pub(crate) fn next_block(&mut self) -> Result<Option<Block>, DataError> {
        let Some(walk) = &mut self.walk else { return self.next_alone() };
        while let Some((stream, needed)) = walk.next() {
            let Some(lane) = &mut self.lanes[stream] else {
                walk.take(needed);
                continue;
            };
            let taken = needed.min(lane.ahead);
            if taken > 0 {
                lane.ahead -= taken;
                walk.take(taken);
                continue;
            }
            let mut block = Block::default();
            let more = lane.source.next_block_of(&mut block, &mut lane.follower)?;
            lane.ahead += block.lines as usize;
            return Ok(more.then_some(block));
        }
        Ok(None)
    }

    /// Next block that starts before the end of the pass.
    fn next_alone(&mut self) -> Result<Option<Block>, DataError> {
        let Some(Some(Lane { source, follower, .. })) = self.lanes.first_mut() else {
            return Ok(None);
        };
        let mut block = Block::default();
        if !source.next_block_of(&mut block, follower)? {
            return Ok(None);
        }
        let start = Position { file: block.file, line: block.first_line };
        Ok(self.end.is_none_or(|end| start < end).then_some(block))
    }
}
