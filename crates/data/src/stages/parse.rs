//! Stage `parse`, several instances at once: turns blocks into columns, and hashes keys.

use std::sync::Arc;

use stepwell_base::queue::{Received, Receiver};
use stepwell_base::stage::{Progress, Stage};

use super::ordered::Ordered;
use super::pass::Parsed;
use super::read::Raw;
use crate::error::DataError;

/// One of several parsing stages.
pub struct ParseStage<P> {
    blocks: Arc<Receiver<Raw>>,
    ordered: Arc<Ordered<Parsed<P>>>,
    /// A finished chunk that is too far ahead.
    held: Option<(u64, Parsed<P>)>,
}

impl<P> ParseStage<P> {
    pub(super) fn new(blocks: Arc<Receiver<Raw>>, ordered: Arc<Ordered<Parsed<P>>>) -> Self {
        Self { blocks, ordered, held: None }
    }
}

impl<P: Send + Sync> Stage for ParseStage<P> {
    type Error = DataError;

    fn name(&self) -> &'static str {
        "parse"
    }

    fn poll(&mut self) -> Result<Progress, DataError> {
        if self.held.is_none() {
            match self.blocks.try_recv() {
                Received::Item(raw) => {
                    let mut chunk = Box::new(raw.decoder.chunk());
                    let parsed = match raw.decoder.decode(&raw.block, &mut chunk) {
                        Ok(()) => Parsed::Chunk(chunk),
                        Err(error) => Parsed::Failed(error),
                    };
                    self.held = Some((raw.number, parsed));
                }
                Received::Empty => return Ok(Progress::Blocked),
                Received::Closed => return Ok(Progress::Done),
            }
        }
        if let Some((number, parsed)) = self.held.take()
            && let Err(parsed) = self.ordered.try_put(number, parsed)
        {
            self.held = Some((number, parsed));
            return Ok(Progress::Blocked);
        }
        Ok(Progress::Progressed)
    }
}
