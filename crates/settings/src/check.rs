//! Checks of settings: each alone, by the check of its entry, and several together.
//!
//! A check of one setting returns the part of the message that follows the key: the value and the
//! fix.

use std::fmt::{Arguments, Debug, Display};
use std::ops::RangeInclusive;

use crate::config::{Config, ExchangeKind, RowsConfig};
use crate::setting::Setting;
use crate::table::SETTINGS;

mod named;
mod sync;

pub(crate) use named::IDS_MAX;

/// Most ranks: the number of key shards.
pub(crate) const RANKS_MAX: usize = 256;
/// Fewest seconds of silence after which a rank is given up: a busy machine may delay one by some
/// tenths of a second.
pub(crate) const TIMEOUT_MIN: f64 = 1.0;
/// Most seconds of silence after which a rank is given up: a day.
pub(crate) const TIMEOUT_MAX: f64 = 24.0 * 60.0 * 60.0;
/// Most compute threads, and most parsing threads.
pub(crate) const THREADS_MAX: usize = 1024;
/// Most malformed lines of a pass whose data is cached: half of what a cache remembers, as training
/// and evaluation may be two parts.
const CACHED_SKIP_MAX: u64 = stepwell_data::CACHE_MALFORMED_MAX / 2;
/// Most examples of a shuffled window: they are numbered in u32.
pub(crate) const SHUFFLE_MAX: usize = 1 << 30;
/// Most examples of a mini-batch: occurrences are counted in u32.
pub(crate) const MINI_BATCH_MAX: usize = 1 << 22;
/// Most mini-batches whose keys are known at once. A row has at most this many pins, and a pin
/// count has 16 bits.
pub(crate) const MINI_BATCHES_KNOWN_MAX: usize = 16_384;
/// Largest learning rate; nothing was ever learned with a larger one.
const LR_MAX: f64 = 1e6;
/// Largest range of initial embeddings.
const INIT_RANGE_MAX: f64 = 1e3;
/// Largest vocabulary of the built-in stream, as a multiple of a real sample's.
pub(crate) const VOCAB_SCALE_MAX: f64 = 1e5;
/// Most steps of staleness; each costs a mini-batch of rows.
pub(crate) const STALENESS_MAX: usize = 1024;
/// Most blocks of a mini-batch; each has a gradient of every dense parameter.
pub(crate) const BLOCKS_MAX: usize = 1024;
/// Most cross layers; each has as many parameters as the square of the input's columns.
pub(crate) const CROSS_LAYERS_MAX: usize = 64;
/// Greatest embedding dimension.
pub(crate) const DIM_MAX: usize = 4096;
/// Widest hidden layer.
const WIDTH_MAX: usize = 65_536;
/// Most hidden layers; each has its own activations in every thread.
const LAYERS_MAX: usize = 256;
/// Most minutes between checkpoints: a year.
pub(crate) const MINUTES_MAX: f64 = 366.0 * 24.0 * 60.0;
/// Fewest bytes of a sketch.
const SKETCH_MIN: u64 = 64;

pub(crate) type Outcome = Result<(), String>;

/// Refuses `value` unless it is right; the message says what to give.
pub(crate) fn right(is_right: bool, value: impl Display, give: Arguments<'_>) -> Outcome {
    if is_right { Ok(()) } else { Err(format!("is {value}: give {give}")) }
}

pub(crate) fn positive<T: Default + PartialEq + Display>(value: T) -> Outcome {
    right(value != T::default(), value, format_args!("at least 1"))
}

pub(crate) fn at_most(value: usize, most: usize) -> Outcome {
    right(value <= most, value, format_args!("at most {most}"))
}

/// Refuses a value outside 1 to `most`.
pub(crate) fn count(value: usize, most: usize) -> Outcome {
    positive(value)?;
    at_most(value, most)
}

pub(crate) fn within<T: PartialOrd + Display>(value: T, range: RangeInclusive<T>) -> Outcome {
    let (least, most) = (range.start(), range.end());
    right(range.contains(&value), &value, format_args!("{least} to {most}"))
}

/// Refuses a value that is not above 0 and at most `most`.
pub(crate) fn part(value: f64, most: f64) -> Outcome {
    right(value > 0.0 && value <= most, value, format_args!("more than 0 and at most {most}"))
}

pub(crate) fn learning_rate(lr: f64) -> Outcome {
    let give = format_args!("a number above 0 (in f32, at least 1e-45) and at most {LR_MAX}");
    // Optimizers compute in f32.
    right(lr as f32 > 0.0 && lr <= LR_MAX, Plain(lr), give)
}

/// Displays a number in its shortest form, such as 1e-50.
pub(crate) struct Plain(pub(crate) f64);

impl Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

pub(crate) fn admit_after(times: u8) -> Outcome {
    within(times, 1..=u8::MAX)
}

pub(crate) fn admit_probability(chance: f64) -> Outcome {
    part(chance, 1.0)
}

pub(crate) fn init_range(range: f64) -> Outcome {
    let is_right = (0.0..=INIT_RANGE_MAX).contains(&range);
    right(is_right, range, format_args!("a number from 0 to {INIT_RANGE_MAX}"))
}

fn fit(widths: &[usize]) -> bool {
    widths.iter().all(|width| (1..=WIDTH_MAX).contains(width))
}

fn not_too_many(widths: &[usize]) -> Outcome {
    let count = widths.len();
    match count <= LAYERS_MAX {
        true => Ok(()),
        false => Err(format!("has {count} layers: give at most {LAYERS_MAX}")),
    }
}

pub(crate) fn hidden(widths: &[usize]) -> Outcome {
    not_too_many(widths)?;
    right(fit(widths), format_args!("{widths:?}"), format_args!("each layer 1 to {WIDTH_MAX}"))
}

pub(crate) fn bottom(widths: &[usize]) -> Outcome {
    not_too_many(widths)?;
    let is_right = !widths.is_empty() && fit(widths);
    let give = format_args!("one width or more, each 1 to {WIDTH_MAX}");
    right(is_right, format_args!("{widths:?}"), give)
}

impl Config {
    /// Refuses settings that are wrong, alone or together.
    ///
    /// # Errors
    /// One line that names the key and the fix.
    pub fn check(&self) -> Outcome {
        SETTINGS.iter().try_for_each(|setting: &Setting| setting.check_alone(self))?;
        self.check_split()?;
        self.check_cache()?;
        self.check_batch()?;
        self.check_streams()?;
        self.check_known()?;
        check_admission(&self.rows, &|key| format!("rows.{key}"), "give one of them")?;
        self.check_named()
    }

    /// Refuses more ranks than there are blocks, and wrong combinations of settings of ranks. `key`
    /// is the name by which their number was given.
    ///
    /// # Errors
    /// One line with the keys and the fix.
    pub fn check_ranks(&self, key: &str) -> Outcome {
        let (ranks, blocks) = (self.ranks.count, self.train.blocks);
        if ranks > 1 && ranks - self.servers() > blocks {
            let most = match blocks + self.servers() {
                1 => "1 rank".to_owned(),
                most => format!("at most {most} ranks"),
            };
            return Err(format!(
                "{key} = {ranks} and train.blocks = {blocks}: each rank needs at least one block; \
                 give {most}"
            ));
        }
        self.check_sync()?;
        // The owner of a lent row does not have its values after previous steps.
        if ranks > 1
            && self.ranks.exchange == ExchangeKind::WorkingSet
            && self.pipeline.staleness > 0
        {
            return Err(format!(
                "ranks.exchange = working_set and pipeline.staleness = {}: lent rows are read as \
                 they are; give pipeline.staleness = 0, or ranks.exchange = owner",
                self.pipeline.staleness
            ));
        }
        Ok(())
    }

    fn check_split(&self) -> Outcome {
        let data = &self.data;
        match &data.eval_from {
            Some(from) if !data.eval_values.is_empty() => Err(format!(
                "data.eval_from = {from} and data.eval_values = {}: both select the evaluation \
                 part; give one of them",
                data.eval_values.join(", ")
            )),
            _ => Ok(()),
        }
    }

    fn check_cache(&self) -> Outcome {
        let data = &self.data;
        let Some(cache) = data.cache.as_ref().map(|path| path.display()) else { return Ok(()) };
        if data.eval_column.is_some() && data.eval_paths.is_empty() {
            return Err(format!(
                "data.cache = {cache} keeps no column to split by: leave out data.cache or \
                 data.eval_column"
            ));
        }
        if data.paths.is_empty() {
            return Err(format!(
                "data.cache = {cache} is for text, which the built-in stream is not: name data, or \
                 leave out data.cache"
            ));
        }
        if data.skip_max > CACHED_SKIP_MAX {
            return Err(format!(
                "data.skip_max is {}, and a data.cache remembers {CACHED_SKIP_MAX} malformed \
                 lines: give at most that, or leave out data.cache",
                data.skip_max
            ));
        }
        Ok(())
    }

    fn check_batch(&self) -> Outcome {
        let (batch, mini_batch) = (self.batch(), self.data.mini_batch);
        if batch.is_multiple_of(mini_batch) {
            return Ok(());
        }
        let example = batch.checked_next_multiple_of(mini_batch).unwrap_or(mini_batch);
        Err(format!(
            "data.batch is {batch}, which is not a multiple of data.mini_batch = {mini_batch}; \
             give, for example, {example}"
        ))
    }

    fn check_streams(&self) -> Outcome {
        let streams = self.data.streams;
        if streams > 1 && self.data.shuffle > 0 {
            return Err(format!(
                "data.streams is {streams}, and data.shuffle cuts the data into windows: give one \
                 of them"
            ));
        }
        for (key, value) in
            [("train.blocks", self.train.blocks), ("data.mini_batch", self.data.mini_batch)]
        {
            if !value.is_multiple_of(streams) {
                return Err(format!(
                    "data.streams is {streams}, which does not divide {key} = {value}: each stream \
                     has whole blocks of every mini-batch; give a divisor of both"
                ));
            }
        }
        Ok(())
    }

    fn check_known(&self) -> Outcome {
        let (horizon, lookahead) = (self.pipeline.horizon, self.pipeline.lookahead);
        if horizon < lookahead {
            return Err(format!(
                "pipeline.horizon is {horizon}, less than pipeline.lookahead = {lookahead}; give \
                 at least {lookahead}"
            ));
        }
        let mini_batches = self.mini_batches_per_batch();
        let known = horizon.saturating_add(1).saturating_mul(mini_batches);
        if known > MINI_BATCHES_KNOWN_MAX {
            return Err(format!(
                "pipeline.horizon = {horizon} batches of {mini_batches} mini-batches make {known} \
                 known ahead; lower pipeline.horizon, pipeline.lookahead or data.batch to \
                 {MINI_BATCHES_KNOWN_MAX} in all"
            ));
        }
        Ok(())
    }
}

/// Refuses rules of admission that exclude each other. `key_of` returns the key of a rule, and
/// `mend` is the fix if there are two.
fn check_admission(life: &RowsConfig, key_of: &dyn Fn(&str) -> String, mend: &str) -> Outcome {
    let RowsConfig { admit_after, admit_probability, sketch, .. } = life;
    if *admit_after > 1 && *admit_probability < 1.0 {
        return Err(format!(
            "{} = {admit_after} and {} = {admit_probability} are two rules of admission: {mend}",
            key_of("admit_after"),
            key_of("admit_probability")
        ));
    }
    if *admit_after > 1 && sketch.0 < SKETCH_MIN {
        let key = key_of("sketch");
        return Err(format!("{key} is {sketch}: give at least {SKETCH_MIN} bytes"));
    }
    Ok(())
}

/// Number of this machine's processors, at most [`THREADS_MAX`].
pub(crate) fn cores() -> usize {
    stepwell_base::cores().min(THREADS_MAX)
}
