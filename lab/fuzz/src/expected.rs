//! Expectations that follow from the data of a case alone.

use crate::draw::{Case, Data, Skips};

/// Counts that a run must report, and the number of malformed lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Training examples in all epochs.
    pub(crate) examples: u64,
    /// Malformed lines in all epochs and their evaluations.
    pub(crate) skipped: u64,
    pub(crate) steps: u64,
    /// Examples per evaluation.
    pub(crate) evaluated: u64,
    /// Most malformed lines in one pass over the data.
    pub(crate) malformed_most: u64,
    /// Whether training leaves out examples, so that `examples` and `steps` are only upper bounds.
    pub(crate) leaves_out: bool,
    /// Whether runs may skip fewer lines than they need to.
    pub(crate) too_few_skips: bool,
}

impl Said {
    /// Counts lines; `lines` marks the examples of each file.
    pub(crate) fn of(case: &Case, lines: &[Vec<bool>]) -> Self {
        let tail = |total: usize| (total as f64 * case.eval_fraction).round() as usize;
        let (train, evaluate) = match &case.data {
            Data::Stream { examples, .. } => {
                let evaluated = tail(*examples as usize);
                (vec![true; *examples as usize - evaluated], vec![true; evaluated])
            }
            Data::Text(text) => {
                let (parts, more) = lines.split_at(text.parts.len().min(lines.len()));
                let (mut train, mut evaluate) = (parts.concat(), more.concat());
                if text.evaluation.is_none() {
                    evaluate = train.split_off(train.len() - tail(train.len()));
                }
                (train, evaluate)
            }
        };
        let good = |lines: &[bool]| lines.iter().filter(|good| **good).count() as u64;
        let malformed = [&train, &evaluate].map(|lines| lines.len() as u64 - good(lines));
        let malformed_most = malformed[0].max(malformed[1]);
        let mini_batch: u64 = case.model.get("data.mini_batch").parse().unwrap_or(1);
        Self {
            examples: good(&train) * case.epochs,
            skipped: (malformed[0] + malformed[1]) * case.epochs,
            steps: good(&train).div_ceil(mini_batch) * case.epochs,
            evaluated: good(&evaluate),
            malformed_most,
            leaves_out: case.model.leaves_out(),
            too_few_skips: case.skips == Skips::TooFew && malformed_most > 0,
        }
    }

    /// Settings of model and data as TOML.
    pub(crate) fn settings(&self, case: &Case) -> String {
        let line = |(key, value): &(&str, String)| format!("{key} = {value}\n");
        let mut lines: Vec<String> = case.model.0.iter().map(line).collect();
        lines.push(format!("data.epochs = {}\n", case.epochs));
        lines.push(format!("data.eval_fraction = {:?}\n", case.eval_fraction));
        match &case.data {
            Data::Stream { examples, vocab_scale } => {
                lines.push(format!("synth.examples = {examples}\n"));
                lines.push(format!("synth.vocab_scale = {vocab_scale}\n"));
            }
            Data::Text(_) => {
                let skips = match case.skips {
                    Skips::Enough(more) => self.malformed_most + more,
                    Skips::TooFew => self.malformed_most.saturating_sub(1),
                };
                lines.push(format!("data.skip_max = {skips}\n"));
            }
        }
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_the_part_that_they_stand_in() {
        let text = |seed: &u64| {
            let case = Case::draw(*seed, 0);
            matches!(&case.data, Data::Text(text) if text.evaluation.is_none())
        };
        let seed = (0..100).find(text).unwrap();
        let mut case = Case::draw(seed, 0);
        let Data::Text(text) = &mut case.data else { unreachable!() };
        text.parts.truncate(1);
        let setting = case.model.0.iter_mut().find(|(key, _)| *key == "data.mini_batch").unwrap();
        setting.1 = "3".to_owned();
        (case.epochs, case.eval_fraction, case.skips) = (2, 0.25, Skips::TooFew);
        let mut lines = vec![true; 12];
        (lines[0], lines[4], lines[11]) = (false, false, false);
        let said = Said::of(&case, &[lines]);
        assert_eq!((said.examples, said.evaluated), (14, 2));
        assert_eq!((said.skipped, said.steps), (6, 6));
        assert!(said.too_few_skips && said.settings(&case).contains("data.skip_max = 1\n"));
        let whole = Said::of(&case, &[vec![true; 12]]);
        assert!(!whole.too_few_skips && whole.settings(&case).contains("data.skip_max = 0\n"));
    }
}
