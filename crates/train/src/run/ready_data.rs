//! Prepares the data of several runs before the first of them.

use std::cell::RefCell;

use stepwell_base::stop::StopRequest;
use stepwell_data::{Chunk, DataError, Sources};
use stepwell_settings::Config;

use super::reading::sources;
use crate::capacity::BLOCK_BYTES;
use crate::features::Features;
use crate::run_plan::RunPlan;
use crate::{Error, Result};

/// The data of runs that read the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyData {
    /// Lines that an epoch trains on, malformed ones included.
    pub lines: u64,
    /// Examples of the cache, if it was made now.
    pub cached: Option<u64>,
}

/// Counts the lines of the data, and makes `data.cache` if it is missing, so that runs that don't
/// read a whole epoch share it as well. If the data has more malformed lines than an epoch may
/// skip, no cache is made: a run reports them.
///
/// # Errors
/// Data that cannot be read, a cache that cannot be written, and a request to stop.
pub fn ready_data(config: &Config, stop: &StopRequest) -> Result<ReadyData> {
    let plan = &RunPlan::of(config)?;
    let sources = sources(plan, stop)?;
    let whole: u64 = sources.input.lines_of_each_until(stop)?.iter().sum();
    let evaluated = match (&sources.eval_input, plan.data.eval_fraction) {
        (None, part) => (whole as f64 * part).round() as u64,
        (Some(_), part) if plan.data.eval_column.is_some() => (whole as f64 * part).round() as u64,
        (Some(_), _) => 0,
    };
    Ok(ReadyData { lines: whole - evaluated, cached: make_cache(plan, &sources, stop)? })
}

/// Makes the cache of `sources`; returns its examples, or `None` if there is nothing to make.
fn make_cache(plan: &RunPlan<'_>, sources: &Sources, stop: &StopRequest) -> Result<Option<u64>> {
    let Some(writer) = sources.begin_cache()? else { return Ok(None) };
    let features = Features::of(plan.config, sources.schema())?;
    let writer = RefCell::new(writer);
    let add = |chunk: &Chunk, _: &_| Ok::<(), Error>(writer.borrow_mut().add(chunk, chunk.len())?);
    let options = features.read_options(BLOCK_BYTES);
    match sources.check(&sources.whole(()), options, stop, add) {
        Err(Error::Data(DataError::Malformed { .. } | DataError::CacheTooLarge { .. })) => Ok(None),
        read => {
            read?;
            Ok(Some(writer.into_inner().finish()?.examples()))
        }
    }
}
