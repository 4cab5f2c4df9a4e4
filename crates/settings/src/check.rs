//! Checks of one setting each, and the limits that they check.
//!
//! A check returns the part of the message that follows the key: the value and the fix.

use std::fmt::{Arguments, Debug, Display};
use std::ops::RangeInclusive;

/// Most ranks: the number of key shards.
pub(crate) const RANKS_MAX: usize = 256;
/// Fewest seconds of silence after which a rank is given up: a busy machine may delay one by some
/// tenths of a second.
pub(crate) const TIMEOUT_MIN: f64 = 1.0;
/// Most seconds of silence after which a rank is given up: a day.
pub(crate) const TIMEOUT_MAX: f64 = 24.0 * 60.0 * 60.0;
/// Most compute threads, and most parsing threads.
pub(crate) const THREADS_MAX: usize = 1024;
/// Most examples of a shuffled window: they are numbered in u32.
pub(crate) const SHUFFLE_MAX: usize = 1 << 30;
/// Most examples of a mini-batch: occurrences are counted in u32.
pub(crate) const MINI_BATCH_MAX: usize = 1 << 22;
/// Most mini-batches whose keys are known at once. A row has at most this many pins, and a pin
/// count has 16 bits.
pub(crate) const MINI_BATCHES_KNOWN_MAX: usize = 16_384;
/// Largest learning rate; nothing was ever learned with a larger one.
const LR_MAX: f64 = 1e6;
/// Largest weight of positives, and its inverse the smallest.
const CLASS_WEIGHT_MAX: f64 = 1e6;
/// Largest exponent of the focal loss.
pub(crate) const FOCAL_GAMMA_MAX: f64 = 100.0;
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
/// Most ids in all bags of an example, and so most features.
pub(crate) const IDS_MAX: usize = 65_536;
/// Greatest embedding dimension.
pub(crate) const DIM_MAX: usize = 4096;
/// Widest hidden layer.
pub(crate) const WIDTH_MAX: usize = 65_536;
/// Most blocks or experts.
pub(crate) const PARTS_MAX: usize = 64;
/// Most levels of experts.
pub(crate) const LEVELS_MAX: usize = 8;
/// Greatest ratio of widths around a mask.
pub(crate) const MASK_RATIO_MAX: f64 = 16.0;
/// Most hidden layers; each has its own activations in every thread.
const LAYERS_MAX: usize = 256;
/// Most layers of a graph.
pub(crate) const GRAPH_LAYERS_MAX: usize = 4096;
/// Most minutes between checkpoints: a year.
pub(crate) const MINUTES_MAX: f64 = 366.0 * 24.0 * 60.0;

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

pub(crate) fn temperature(value: f64) -> Outcome {
    within(value, 0.001..=1000.0)
}

pub(crate) fn dropout(rate: f64) -> Outcome {
    right((0.0..1.0).contains(&rate), rate, format_args!("a share from 0 to below 1"))
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

pub(crate) fn class_weight(weight: f64) -> Outcome {
    within(weight, 1.0 / CLASS_WEIGHT_MAX..=CLASS_WEIGHT_MAX)
}

pub(crate) fn admit_after(times: u8) -> Outcome {
    within(times, 1..=u8::MAX)
}

pub(crate) fn admit_probability(chance: f64) -> Outcome {
    part(chance, 1.0)
}

/// Help of the settings `init_std`.
pub(crate) const INIT_STD: &str =
    "initial embedding weights are normal with this standard deviation, instead of uniform";
/// Help of the settings `init_value`.
pub(crate) const INIT_VALUE: &str = "all initial embedding weights are this, instead of random";

pub(crate) fn init_range(range: f64) -> Outcome {
    let is_right = (0.0..=INIT_RANGE_MAX).contains(&range);
    right(is_right, range, format_args!("a number from 0 to {INIT_RANGE_MAX}"))
}

pub(crate) fn init_value(value: f64) -> Outcome {
    let give = format_args!("a number from -{INIT_RANGE_MAX} to {INIT_RANGE_MAX}");
    right(value.abs() <= INIT_RANGE_MAX, value, give)
}

/// Checks a value if it is given; an inherited one is checked by its own setting.
pub(crate) fn given<T>(value: Option<T>, check: impl Fn(T) -> Outcome) -> Outcome {
    value.map_or(Ok(()), check)
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

/// Number of this machine's processors, at most [`THREADS_MAX`].
pub(crate) fn cores() -> usize {
    stepwell_base::cores().min(THREADS_MAX)
}
