//! Stage `read`: reads files or the built-in stream as blocks in order, epoch by epoch.

use std::sync::Arc;

use stepwell_base::queue::{Refused, Sender};
use stepwell_base::stage::{Progress, Stage};

use super::lanes::Lanes;
use super::ordered::Ordered;
use super::pass::{Parsed, Pass, Passes};
use super::record::Cached;
use crate::block::Block;
use crate::error::DataError;
use crate::read_options::ReadOptions;
use crate::reader::Decoder;

/// A block to parse.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) number: u64,
    pub(super) decoder: Decoder,
    pub(super) block: Block,
}

#[derive(Debug)]
enum Outgoing<P> {
    Raw(Raw),
    Sign(u64, Parsed<P>),
}

/// A pass that is being read.
struct Open<P> {
    pass: Arc<Pass<P>>,
    lanes: Lanes,
    decoder: Decoder,
}

/// Reads passes, one after another.
pub struct ReadStage<P> {
    passes: Passes<P>,
    /// A pass that waits for its cache.
    waiting: Option<Pass<P>>,
    cache: Cached,
    open: Option<Open<P>>,
    outgoing: Option<Outgoing<P>>,
    number: u64,
    finished: bool,
    options: ReadOptions,
    blocks: Sender<Raw>,
    ordered: Arc<Ordered<Parsed<P>>>,
}

impl<P> ReadStage<P> {
    pub(super) fn new(
        passes: Passes<P>,
        options: ReadOptions,
        cache: Cached,
        blocks: Sender<Raw>,
        ordered: Arc<Ordered<Parsed<P>>>,
    ) -> Self {
        Self {
            passes,
            waiting: None,
            cache,
            open: None,
            outgoing: None,
            number: 0,
            finished: false,
            options,
            blocks,
            ordered,
        }
    }

    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }

    /// Whether the next pass must wait until its cache is complete or abandoned.
    fn waits(&mut self) -> bool {
        if self.open.is_some() || self.finished {
            return false;
        }
        self.waiting = self.waiting.take().or_else(|| self.passes.next());
        let Some(pass) = self.waiting.as_mut().filter(|pass| pass.cached) else { return false };
        let Some(cache) = self.cache.get() else { return true };
        pass.cached = false;
        if let Some(cache) = cache {
            pass.input = Arc::clone(cache);
        }
        false
    }

    /// Next output; `None` at the very end.
    fn next(&mut self) -> Result<Option<Outgoing<P>>, DataError> {
        if let Some(open) = &mut self.open {
            let decoder = open.decoder.clone();
            if let Some(block) = open.lanes.next_block()? {
                let number = self.number();
                return Ok(Some(Outgoing::Raw(Raw { number, decoder, block })));
            }
            let end = Parsed::End(Arc::clone(&open.pass));
            self.open = None;
            return Ok(Some(Outgoing::Sign(self.number(), end)));
        }
        if let Some(pass) = self.waiting.take().map(Arc::new) {
            self.open = Some(self.enter(&pass)?);
            return Ok(Some(Outgoing::Sign(self.number(), Parsed::Begin(pass))));
        }
        if self.finished {
            return Ok(None);
        }
        self.finished = true;
        Ok(Some(Outgoing::Sign(self.number(), Parsed::Last)))
    }

    /// Output for a read error; reading ends.
    fn failed(&mut self, error: DataError) -> Outgoing<P> {
        (self.open, self.waiting, self.finished) = (None, None, true);
        Outgoing::Sign(self.number(), Parsed::Failed(error))
    }

    fn enter(&self, pass: &Arc<Pass<P>>) -> Result<Open<P>, DataError> {
        let lanes = Lanes::open(pass, self.options)?;
        let decoder = Decoder::new(&pass.input, self.options.schema);
        Ok(Open { pass: Arc::clone(pass), lanes, decoder })
    }
}

impl<P: Send + Sync> Stage for ReadStage<P> {
    type Error = DataError;

    fn name(&self) -> &'static str {
        "read"
    }

    fn poll(&mut self) -> Result<Progress, DataError> {
        if self.outgoing.is_none() {
            if self.waits() {
                return Ok(Progress::Blocked);
            }
            self.outgoing = match self.next() {
                Ok(next) => next,
                Err(error) => Some(self.failed(error)),
            };
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
