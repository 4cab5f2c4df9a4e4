//! A case: everything that a seed determines before anything runs.
//!
//! - **Why.** A seed gives the same case on every machine, so that a finding can be reproduced.
//! - **How.** Draws are made in a fixed order from dice named by the seed, and nothing else has an
//!   influence. What only the program knows, such as how much memory suffices, is determined while
//!   the case runs.

mod data;
mod days;
mod graph;
mod launch;
mod machine;
mod model;
mod ranks;
mod text;
mod variant;

pub(crate) use self::data::{Data, Form};
pub(crate) use self::days::Day;
pub(crate) use self::launch::{Launch, Listener, Signal, Stop, When};
pub(crate) use self::machine::{Index, Machine, Memory, POLICIES};
pub(crate) use self::model::{KINDS, Model, STORAGES};
pub(crate) use self::text::{Part, Text};
pub(crate) use self::variant::{Cache, Variant};

use crate::dice::Dice;

/// Most lines of a case: many short runs are better than a few long ones.
const LINES_MAX: u64 = 4000;

/// Malformed lines that may be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skips {
    /// This many more than there are.
    Enough(u64),
    /// One less than there are, if any: every run ends with the same error.
    TooFew,
}

/// A case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) data: Data,
    pub(crate) model: Model,
    /// Settings of ranks for all processes, including the reference, if the model differs from that
    /// of a single rank.
    pub(crate) together: Vec<(&'static str, String)>,
    pub(crate) epochs: u64,
    /// Share of the data for evaluation, unless a file is for evaluation.
    pub(crate) eval_fraction: f64,
    pub(crate) skips: Skips,
    pub(crate) variants: Vec<Variant>,
    /// Days to train after the variants; usually none.
    pub(crate) days: Vec<Day>,
}

impl Case {
    /// Draws the case of a seed; later attempts are for seeds whose case the program refused.
    pub(crate) fn draw(seed: u64, attempt: u64) -> Self {
        let mut dice = Dice::new(seed, &format!("case {attempt}"));
        let dice = &mut dice;
        let steps = dice.magnitude(6, 80);
        let mini_batch =
            if dice.chance(15) { dice.magnitude(1, 8) } else { dice.magnitude(8, 200) };
        let lines = (steps * mini_batch + dice.below(mini_batch)).clamp(2, LINES_MAX);
        let data = match dice.below(6) {
            0 => Data::Stream { examples: lines, vocab_scale: dice.pick(&["0.01", "0.2", "1"]) },
            _ => Data::Text(Text::draw(dice, lines)),
        };
        // Packed files of other columns would need these columns.
        let with_lists =
            matches!(&data, Data::Text(text) if text.malformed == 0) && dice.chance(15);
        let model = Model::draw(dice, mini_batch, with_lists);
        let epochs = dice.pick(&[1, 1, 2, 3]);
        let eval_fraction = if dice.chance(25) { 0.0 } else { dice.within(1, 60) as f64 / 100.0 };
        let malformed = matches!(&data, Data::Text(text) if text.malformed > 0);
        let skips = if malformed && dice.chance(12) {
            Skips::TooFew
        } else {
            Skips::Enough(if malformed { dice.pick(&[0, 0, 7]) } else { 0 })
        };
        let steps = (lines / mini_batch + 1) * epochs;
        let mut variants: Vec<Variant> = (0..dice.within(2, 4))
            .map(|number| Variant::draw(dice, &data, mini_batch, steps, number == 0))
            .collect();
        if with_lists {
            variants.iter_mut().for_each(Variant::keep_text);
        }
        if model.draws_by_file() {
            variants.iter_mut().for_each(|variant| variant.joined = false);
        }
        if skips == Skips::TooFew {
            variants.iter_mut().for_each(Variant::keep_nothing);
        }
        let mut several = Dice::new(seed, &format!("ranks {attempt}"));
        let mut tables = Dice::new(seed, &format!("tables {attempt}"));
        let together = ranks::in_tables(&mut tables, &model, &mut variants);
        for variant in &mut variants {
            if together.is_empty() {
                ranks::add(&mut several, &model, variant);
            }
            for launch in &mut variant.launches {
                launch.machine.settings.extend(together.clone());
            }
        }
        let mut dice = Dice::new(seed, &format!("days {attempt}"));
        let days = match &data {
            Data::Text(text) if together.is_empty() && dice.chance(40) => {
                days::draw(&mut dice, text, &model, mini_batch)
            }
            _ => Vec::new(),
        };
        Self { seed, data, model, together, epochs, eval_fraction, skips, variants, days }
    }

    /// The files of the case, training files first; empty for the built-in stream.
    pub(crate) fn parts(&self) -> Vec<&Part> {
        match &self.data {
            Data::Stream { .. } => Vec::new(),
            Data::Text(text) => text.parts.iter().chain(&text.evaluation).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_case() {
        for seed in 0..200 {
            assert_eq!(Case::draw(seed, 0), Case::draw(seed, 0));
            assert_ne!(Case::draw(seed, 0), Case::draw(seed, 1));
            assert_ne!(Case::draw(seed, 0), Case::draw(seed + 1, 0));
        }
    }

    #[test]
    fn cases_hold_all_that_is_to_be_tried() {
        let cases: Vec<Case> = (0..400).map(|seed| Case::draw(seed, 0)).collect();
        for kind in KINDS {
            assert!(cases.iter().any(|case| case.model.get("model.kind") == kind), "{kind}");
        }
        for storage in STORAGES {
            assert!(cases.iter().any(|case| case.model.get("rows.storage") == storage));
        }
        let variants: Vec<&Variant> = cases.iter().flat_map(|case| &case.variants).collect();
        for form in [Form::Plain, Form::Gzip, Form::Zstd, Form::Packed] {
            assert!(variants.iter().any(|variant| variant.forms.contains(&form)), "{form:?}");
        }
        for cache in [Cache::Unused, Cache::Own, Cache::Shared] {
            assert!(variants.iter().any(|variant| variant.cache == cache), "{cache:?}");
        }
        let launches: Vec<&Launch> =
            variants.iter().flat_map(|variant| &variant.launches).collect();
        for signal in [Signal::Kill, Signal::Interrupt, Signal::Terminate] {
            let stops = |launch: &&Launch| launch.stop.is_some_and(|stop| stop.signal == signal);
            assert!(launches.iter().any(stops), "{signal:?}");
        }
        for policy in POLICIES {
            let has =
                |launch: &&Launch| launch.machine.settings.iter().any(|(_, value)| value == policy);
            assert!(launches.iter().any(has), "{policy}");
        }
        let in_tables =
            |launch: &&Launch| launch.machine.settings.iter().any(|(_, value)| value == "geeps");
        assert!(launches.iter().filter(|launch| in_tables(launch)).count() > 10);
        let days: Vec<&Case> = cases.iter().filter(|case| !case.days.is_empty()).collect();
        assert!(days.len() > 40);
        for Case { data, days, .. } in days {
            let Data::Text(text) = data else { unreachable!() };
            assert_eq!(days.iter().map(|day| day.lines).sum::<u64>(), text.lines());
            assert!(days.iter().all(|day| day.lines > 0));
        }
        assert!(variants.iter().all(|variant| variant.launches.last().unwrap().stop.is_none()));
        assert!(cases.iter().all(|case| case.variants[0].launches.len() == 1));
    }
}
