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

use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
use stepwell_base::stop::StopRequest;
use stepwell_data::{Block, Chunk, DataError, Decoder, Input, ReadOptions, Skips, Source};
use stepwell_settings::Config;

use super::sources::{Sources, evaluation_pass};
use crate::capacity::BLOCK_BYTES;
use crate::features::Features;
use crate::step::compute_pool;
use crate::{Error, Result};

/// Blocks that are parsed at once at most; more are not read in the time that parsing one takes.
const LANES_MAX: usize = 8;

/// Reads all that an evaluation of this run will read, and counts its examples; the built-in stream
/// has nothing to find.
///
/// # Errors
/// Those of the evaluation, were it now, and [`Error::Interrupted`].
pub(super) fn check_evaluation(
    config: &Config,
    sources: &Sources,
    stop: &StopRequest,
) -> Result<Option<u64>> {
    let Some(pass) = evaluation_pass(sources, 0) else { return Ok(None) };
    if matches!(*pass.input, Input::Stream(_)) {
        return Ok(None);
    }
    let features = Features::of(config, sources.schema)?;
    let options = ReadOptions {
        start: pass.start,
        block_bytes: BLOCK_BYTES,
        example_keys_max: features.example_keys_max().unwrap_or(usize::MAX),
        ..ReadOptions::new(sources.schema)
    };
    let mut source = Source::open(&pass.input, &options)?;
    let decoder = Decoder::new(&pass.input, sources.schema);
    let lane = || (Block::default(), decoder.chunk());
    let threads = config.threads.min(LANES_MAX);
    // Where there is no room for them this thread reads alone; the plan says what is lacking.
    let pool = compute_pool(threads).ok();
    let lanes = if pool.is_some() { threads } else { 1 };
    let mut lanes: Vec<_> = (0..lanes).map(|_| lane()).collect();
    let mut skips = Skips::new(config.data.skip_max);
    let mut examples = 0;
    loop {
        if stop.is_made() {
            return Err(Error::Interrupted);
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
            features.refuse_too_many(chunk, pass.input.files())?;
            examples += chunk.len() as u64;
        }
        if let Some(outcome) = end {
            return Ok(outcome.map(|()| Some(examples))?);
        }
    }
}

/// Reads a block into each lane: how many were, and the outcome where there is no further one.
fn fill(
    source: &mut Source,
    lanes: &mut [(Block, Chunk)],
) -> (usize, Option<std::result::Result<(), DataError>>) {
    for (filled, (block, _)) in lanes.iter_mut().enumerate() {
        match source.next_block(block) {
            Ok(true) => {}
            Ok(false) => return (filled, Some(Ok(()))),
            // What lies before it comes first.
            Err(error) => return (filled, Some(Err(error))),
        }
    }
    (lanes.len(), None)
}
