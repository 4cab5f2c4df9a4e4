//! Random days: the text of a case, cut into parts that are trained one after another. Each day has
//! a separate process, which starts with the model of the previous day.

use super::data::Data;
use super::launch::Launch;
use super::model::Model;
use super::ranks;
use super::text::Text;
use super::variant::Variant;
use crate::dice::Dice;

/// Most days of a case.
const DAYS_MAX: u64 = 3;

/// A day.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Day {
    /// Lines of its file: whole mini-batches, except on the last day.
    pub(crate) lines: u64,
    pub(crate) launches: Vec<Launch>,
}

/// Draws days, which aren't evaluated; none if the text has malformed lines or one mini-batch, if a
/// rate depends on evaluations, or if training leaves out examples, so that days end elsewhere.
pub(super) fn draw(dice: &mut Dice, text: &Text, model: &Model, mini_batch: u64) -> Vec<Day> {
    let mini_batches = text.lines().div_ceil(mini_batch);
    let must_be_whole = model.falls_at_plateaus() || model.leaves_out();
    if text.malformed > 0 || mini_batches < 2 || must_be_whole {
        return Vec::new();
    }
    let count = dice.within(2, DAYS_MAX.min(mini_batches));
    let (mut left, mut days) = (text.lines(), Vec::new());
    for number in 1..=count {
        let later = count - number;
        let whole = dice.within(1, left.div_ceil(mini_batch) - later) * mini_batch;
        let lines = if later == 0 { left } else { whole };
        left -= lines;
        let data = Data::Text(text.clone());
        let mut of = Variant::draw(dice, &data, mini_batch, lines.div_ceil(mini_batch), false);
        of.launches.iter_mut().for_each(|launch| launch.anew = false);
        ranks::add(dice, model, &mut of);
        days.push(Day { lines, launches: of.launches });
    }
    days
}
