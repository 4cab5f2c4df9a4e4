//! Random variants of a case: forms of its files, and the processes that train its model.

use super::data::{Data, Form, forms};
use super::launch::Launch;
use crate::dice::Dice;

/// A variant's use of `data.cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    Unused,
    /// A cache of its own.
    Own,
    /// A cache that variants share, which may have been made from other forms of the data.
    Shared,
}

/// A run of the case's model on one machine, or on several in sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variant {
    /// Form of each file, training files first.
    pub(crate) forms: Vec<Form>,
    /// Whether all training files are packed into one.
    pub(crate) joined: bool,
    /// Whether a pattern names the training files, if they have the same form.
    pub(crate) pattern: bool,
    pub(crate) cache: Cache,
    /// Whether checkpoints are written.
    pub(crate) saved: bool,
    pub(crate) launches: Vec<Launch>,
    /// Whether the run is resumed once more after its end.
    pub(crate) again: bool,
}

impl Variant {
    /// Draws a variant of a run of about `steps` steps. The `first` variant of a case isn't
    /// stopped, and shows how long a run takes.
    pub(super) fn draw(
        dice: &mut Dice,
        data: &Data,
        mini_batch: u64,
        steps: u64,
        first: bool,
    ) -> Self {
        let (forms, joined) = forms(dice, data);
        let text = matches!(data, Data::Text(_)) && !forms.contains(&Form::Packed);
        let cache = match dice.below(5) {
            _ if !text => Cache::Unused,
            0 => Cache::Own,
            1 | 2 => Cache::Shared,
            _ => Cache::Unused,
        };
        let deaths = if first { 0 } else { dice.pick(&[0, 1, 2, 2, 3, 3, 5]) };
        let launches: Vec<Launch> = (0..=deaths)
            .map(|launch| Launch::draw(dice, mini_batch, steps, launch < deaths))
            .collect();
        Self {
            forms,
            joined,
            pattern: dice.chance(30),
            cache,
            saved: launches.len() > 1 || dice.chance(70),
            launches,
            again: dice.chance(15),
        }
    }

    /// Replaces packed files by text.
    pub(super) fn keep_text(&mut self) {
        let packed = self.forms.iter_mut().filter(|form| **form == Form::Packed);
        packed.for_each(|form| *form = Form::Zstd);
        self.joined = false;
    }

    /// Reduces it to one process on plain text.
    pub(super) fn keep_nothing(&mut self) {
        self.forms.fill(Form::Plain);
        self.launches.truncate(1);
        self.launches[0].stop = None;
        (self.saved, self.again) = (false, false);
    }
}
