//! Reads the evaluation data once before training starts.
//!
//! Why: training reads the evaluation data only after an epoch. A malformed line or damaged block
//! in it should be reported before the first step.
//!
//! How: reads blocks in order, parses them on several threads, and counts malformed lines in order,
//! like an evaluation, but with a separate count that isn't reported.
//!
//! Cost: reads and parses the evaluation part once more, at 2 million lines per second and thread
//! if uncompressed. Memory: a block and a chunk per thread, with at most [`LANES_MAX`] and at most
//! `threads` threads, which the plan includes for reading.

use std::path::PathBuf;

use rayon::ThreadPool;
use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
use stepwell_base::stop::StopRequest;

use super::Sources;
use crate::block::Block;
use crate::chunk::Chunk;
use crate::error::DataError;
use crate::input::Input;
use crate::pass_share::Share;
use crate::read_options::ReadOptions;
use crate::reader::{Decoder, Skips};
use crate::stages::{Lanes, Pass};

/// Most blocks parsed at once: no more can be read while one is parsed.
const LANES_MAX: usize = 8;

impl Sources {
    /// The evaluation pass, if it may be malformed or damaged; the built-in stream can't be.
    pub fn to_check(&self) -> Option<Pass<()>> {
        self.evaluation((), 0).filter(|pass| !matches!(*pass.input, Input::Stream(_)))
    }

    /// Reads the wanted part of `pass`, passes each chunk to `accept`, and returns the examples of
    /// the whole pass.
    ///
    /// # Errors
    /// The errors of an evaluation, and [`DataError::Stopped`].
    pub fn check<E: From<DataError>>(
        &self,
        pass: &Pass<()>,
        options: ReadOptions,
        stop: &StopRequest,
        accept: impl Fn(&Chunk, &[PathBuf]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut source = Lanes::open(pass, options)?;
        let decoder = Decoder::new(&pass.input, options.schema);
        let lane = || (Block::default(), decoder.chunk());
        let threads = self.options.threads.min(LANES_MAX);
        let pool = if threads > 1 { pool(threads) } else { None };
        let lanes = if pool.is_some() { threads } else { 1 };
        let mut lanes: Vec<_> = (0..lanes).map(|_| lane()).collect();
        let mut skips = Skips::new(self.options.skip_max);
        let mut examples = 0;
        loop {
            if stop.is_made() {
                return Err(DataError::Stopped.into());
            }
            let (filled, end) = fill(&mut source, &mut lanes);
            let read = &mut lanes[..filled];
            let parse = |(block, chunk): &mut (Block, Chunk)| decoder.decode(block, chunk).err();
            let damage: Vec<Option<DataError>> = match &pool {
                Some(pool) => pool.install(|| read.par_iter_mut().map(parse).collect()),
                None => read.iter_mut().map(parse).collect(),
            };
            for ((_, chunk), damage) in read.iter().zip(damage) {
                damage.map_or(Ok(()), Err)?;
                skips.add(pass.input.files(), chunk)?;
                accept(chunk, pass.input.files())?;
                examples += chunk.len() as u64;
            }
            if let Some(outcome) = end {
                outcome?;
                return Ok(pass.share.as_ref().map_or(examples, Share::examples));
            }
        }
    }
}

/// Threads that parse. If they can't be created, the calling thread parses alone; the plan reports
/// what is missing.
fn pool(threads: usize) -> Option<ThreadPool> {
    let named = |number| format!("check-{number}");
    rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build().ok()
}

/// Reads a block into each lane. Returns how many were read, and the result of reading if it ended.
fn fill(
    source: &mut Lanes,
    lanes: &mut [(Block, Chunk)],
) -> (usize, Option<Result<(), DataError>>) {
    for (filled, (block, _)) in lanes.iter_mut().enumerate() {
        match source.next_block() {
            Ok(Some(next)) => *block = next,
            Ok(None) => return (filled, Some(Ok(()))),
            // Earlier blocks are processed first.
            Err(error) => return (filled, Some(Err(error))),
        }
    }
    (lanes.len(), None)
}
