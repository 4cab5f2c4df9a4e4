//! What is evaluated on, read once before anything is trained.
//!
//! Why: training reads the data for evaluation when an epoch is over. What stops a run there, a
//! malformed line or a damaged block, is better known before the first step.
//!
//! How: blocks are read in order, parsed by some threads, and their malformed lines counted in
//! order, as an evaluation does it, with a count of its own: nothing of it is left in the report.
//!
//! Cost: reading and parsing the evaluation part once more, 2 million lines a second and thread
//! where they need not be decompressed. Bounds: a block and a chunk for each thread, at most
//! [`LANES_MAX`] and `threads`, which the plan has for reading.

use std::path::PathBuf;

use rayon::ThreadPool;
use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
use stepwell_base::stop::StopRequest;

use super::Sources;
use crate::stages::Lanes;
use crate::{Block, Chunk, DataError, Decoder, Input, Pass, ReadOptions, Share, Skips};

/// Blocks that are parsed at once at most; more are not read in the time that parsing one takes.
const LANES_MAX: usize = 8;

impl Sources {
    /// What an evaluation reads that may be malformed or damaged: in the built-in stream there is
    /// nothing to find.
    pub fn to_check(&self) -> Option<Pass<()>> {
        self.evaluation((), 0).filter(|pass| !matches!(*pass.input, Input::Stream(_)))
    }

    /// Reads what is wanted of `pass`, each of whose chunks somebody has to `accept`, and counts
    /// the examples of all of it.
    ///
    /// # Errors
    /// Those of the evaluation, were it now, and [`DataError::Stopped`].
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

/// Threads that parse. Where there is no room for them the caller's reads alone; the plan says what
/// is lacking.
fn pool(threads: usize) -> Option<ThreadPool> {
    let named = |number| format!("check-{number}");
    rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build().ok()
}

/// Reads a block into each lane: how many were, and the outcome where there is no further one.
fn fill(
    source: &mut Lanes,
    lanes: &mut [(Block, Chunk)],
) -> (usize, Option<Result<(), DataError>>) {
    for (filled, (block, _)) in lanes.iter_mut().enumerate() {
        match source.next_block() {
            Ok(Some(next)) => *block = next,
            Ok(None) => return (filled, Some(Ok(()))),
            // What lies before it comes first.
            Err(error) => return (filled, Some(Err(error))),
        }
    }
    (lanes.len(), None)
}
