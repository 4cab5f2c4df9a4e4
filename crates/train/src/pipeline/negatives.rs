//! Leaves out a part of the negative examples that are trained on.
//!
//! - **Why.** Clicks are rare, and most negatives teach little. With a part of them, an epoch has
//!   fewer steps (He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD
//!   2014).
//! - **How.** A negative is kept if a number from 0 to 1, drawn by seed, epoch and place in the
//!   data, is below the rate. So the same examples are left out whatever the tiers, threads, ranks
//!   and interruptions; mini-batches are cut from the others. Evaluations have all examples.
//! - **Scores.** Among the others, the odds of a click are higher by 1 / rate.
//!   [`TrainedModel`](crate::step) takes that back when it evaluates.

use stepwell_base::random::Stream;
use stepwell_data::Chunk;
use stepwell_settings::Config;

use super::counters::Pass;
use super::fill::lines_within;
use crate::{Error, Result};

/// Which negatives are trained on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Negatives {
    rate: f64,
    seed: u64,
}

impl Negatives {
    /// `None` if all are.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let rate = config.negatives_kept();
        (rate < 1.0).then_some(Self { rate, seed: config.seed })
    }

    /// Removes the other examples from a chunk of `pass`, and returns their number.
    ///
    /// # Errors
    /// A label that is neither 0 nor 1.
    pub(super) fn leave_out(self, chunk: &mut Chunk, pass: &Pass) -> Result<usize> {
        let examples = lines_within(chunk, &chunk.lines, pass.end);
        let mut kept = Vec::with_capacity(examples);
        for example in 0..examples {
            let line = chunk.lines[example];
            let [label] = chunk.labels_of(example) else { continue };
            let is_kept = match *label {
                0.0 => {
                    let line = chunk.first_line + u64::from(line);
                    let mut draw = Stream::of_negative(self.seed, pass.epoch, chunk.file, line);
                    draw.next_f64() < self.rate
                }
                1.0 => true,
                share => return Err(self.refused(chunk, pass, line, share)),
            };
            if is_kept {
                kept.push(example);
            }
        }
        chunk.keep(&kept);
        Ok(examples - kept.len())
    }

    fn refused(self, chunk: &Chunk, pass: &Pass, line: u32, share: f32) -> Error {
        let file = pass.input.files().get(chunk.file as usize);
        let file = file.map_or("data".into(), |file| file.to_string_lossy());
        let line = chunk.line_number(line);
        Error::Config(match self.rate {
            0.0 => format!(
                "{file}: line {line}: the model trains on positives alone, and the label {share} \
                 is neither 0 nor 1: give labels of 0 and 1, or of 1 alone"
            ),
            rate => format!(
                "{file}: line {line}: data.negative_rate = {rate} leaves out whole examples, and \
                 the label {share} is neither 0 nor 1: give data.negative_rate = 1"
            ),
        })
    }
}
