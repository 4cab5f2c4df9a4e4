//! Stage `parse`, several at once: blocks into columns, keys hashed.

use std::sync::Arc;

use stepwell_base::queue::{Received, Receiver};
use stepwell_base::stage::{Progress, Stage};

use super::ordered::Ordered;
use super::read::{Parsed, Raw};
use crate::{Error, Result};

pub(super) struct ParseStage {
    pub(super) blocks: Arc<Receiver<Raw>>,
    pub(super) ordered: Arc<Ordered<Parsed>>,
    /// A finished chunk that is too far ahead for now.
    pub(super) held: Option<(u64, Parsed)>,
}

impl Stage for ParseStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "parse"
    }

    fn poll(&mut self) -> Result<Progress> {
        if self.held.is_none() {
            match self.blocks.try_recv() {
                Received::Item(raw) => {
                    let mut chunk = Box::new(raw.decoder.chunk());
                    raw.decoder.decode(&raw.block, &mut chunk)?;
                    self.held = Some((raw.number, Parsed::Chunk(chunk)));
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
