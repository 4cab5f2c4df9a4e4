//! Stage `read`: files or the built-in stream, as blocks in order, epoch by epoch.

use std::path::PathBuf;
use std::sync::Arc;

use stepwell_base::queue::{Refused, Sender};
use stepwell_base::stage::{Progress, Stage};
use stepwell_data::{Block, Chunk, LineReader, Position};

use super::ordered::Ordered;
use crate::batch::Purpose;
use crate::{Error, Result};

/// One reading of a part of the data.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub(crate) purpose: Purpose,
    pub(crate) epoch: u64,
    /// None for the built-in stream.
    pub(crate) files: Option<Arc<Vec<PathBuf>>>,
    pub(crate) start: Position,
    /// The place behind the part; none for the end of the files.
    pub(crate) end: Option<Position>,
}

/// The parts to be read, one after the other.
pub(crate) type Passes = Box<dyn Iterator<Item = Pass> + Send>;

/// A block to be parsed.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) number: u64,
    /// Whether it is a range of the built-in stream.
    pub(super) synthetic: bool,
    pub(super) block: Block,
}

/// What reaches the cutter, in order.
#[derive(Debug)]
pub(super) enum Parsed {
    Begin(Arc<Pass>),
    Chunk(Box<Chunk>),
    End(Arc<Pass>),
    /// No pass will follow.
    Last,
}

#[derive(Debug)]
enum Outgoing {
    Raw(Raw),
    Sign(u64, Parsed),
}

#[derive(Debug)]
enum Feed {
    Files(LineReader),
    Synthetic(u64),
}

/// Examples of one block of the built-in stream.
const SYNTHETIC_EXAMPLES: u32 = 1024;

pub(super) struct ReadStage {
    passes: Passes,
    open: Option<(Arc<Pass>, Feed)>,
    outgoing: Option<Outgoing>,
    number: u64,
    finished: bool,
    block_bytes: usize,
    blocks: Sender<Raw>,
    ordered: Arc<Ordered<Parsed>>,
}

impl ReadStage {
    pub(super) fn new(
        passes: Passes,
        block_bytes: usize,
        blocks: Sender<Raw>,
        ordered: Arc<Ordered<Parsed>>,
    ) -> Self {
        Self {
            passes,
            open: None,
            outgoing: None,
            number: 0,
            finished: false,
            block_bytes,
            blocks,
            ordered,
        }
    }

    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }

    /// The next thing to hand on; none at the very end.
    fn next(&mut self) -> Result<Option<Outgoing>> {
        if let Some((pass, feed)) = &mut self.open {
            let pass = Arc::clone(pass);
            let Some((block, synthetic)) = next_block(&pass, feed)? else {
                self.open = None;
                return Ok(Some(Outgoing::Sign(self.number(), Parsed::End(pass))));
            };
            let number = self.number();
            return Ok(Some(Outgoing::Raw(Raw { number, synthetic, block })));
        }
        if let Some(pass) = self.passes.next().map(Arc::new) {
            let feed = self.open_feed(&pass)?;
            self.open = Some((Arc::clone(&pass), feed));
            return Ok(Some(Outgoing::Sign(self.number(), Parsed::Begin(pass))));
        }
        if self.finished {
            return Ok(None);
        }
        self.finished = true;
        Ok(Some(Outgoing::Sign(self.number(), Parsed::Last)))
    }

    fn open_feed(&self, pass: &Pass) -> Result<Feed> {
        let Some(files) = &pass.files else { return Ok(Feed::Synthetic(pass.start.line)) };
        let reader = LineReader::open(files.to_vec(), pass.start, self.block_bytes)?;
        Ok(Feed::Files(reader))
    }
}

fn next_block(pass: &Pass, feed: &mut Feed) -> Result<Option<(Block, bool)>> {
    match feed {
        Feed::Files(reader) => {
            let mut block = Block::default();
            if !reader.next_block(&mut block)? {
                return Ok(None);
            }
            let start = Position { file: block.file, line: block.first_line };
            Ok((pass.end.is_none_or(|end| start < end)).then_some((block, false)))
        }
        Feed::Synthetic(next) => {
            let left = pass.end.map_or(0, |end| end.line.saturating_sub(*next));
            let lines = left.min(u64::from(SYNTHETIC_EXAMPLES)) as u32;
            let block = Block { first_line: *next, lines, ..Block::default() };
            *next += u64::from(lines);
            Ok((lines > 0).then_some((block, true)))
        }
    }
}

impl Stage for ReadStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "read"
    }

    fn poll(&mut self) -> Result<Progress> {
        if self.outgoing.is_none() {
            self.outgoing = self.next()?;
        }
        match self.outgoing.take() {
            None => return Ok(Progress::Done),
            Some(Outgoing::Raw(raw)) => match self.blocks.try_send(raw) {
                Ok(()) => {}
                Err(Refused::Full(raw)) => {
                    self.outgoing = Some(Outgoing::Raw(raw));
                    return Ok(Progress::Blocked);
                }
                Err(Refused::Closed(_)) => return Ok(Progress::Done),
            },
            Some(Outgoing::Sign(number, sign)) => {
                if let Err(sign) = self.ordered.try_put(number, sign) {
                    self.outgoing = Some(Outgoing::Sign(number, sign));
                    return Ok(Progress::Blocked);
                }
            }
        }
        Ok(Progress::Progressed)
    }
}
