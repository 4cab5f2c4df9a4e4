//! A case: everything that a seed determines before anything runs.
//!
//! - **Why.** A seed gives the same case on every machine, so that a finding can be reproduced.
//! - **How.** Draws are made in a fixed order from dice named by the seed, and nothing else has an
//!   influence. What only the program knows, such as how much memory suffices, is determined while
//!   the case runs.

mod days;
mod machine;
mod model;
mod ranks;
mod text;

pub(crate) use self::days::Day;
pub(crate) use self::machine::{Index, Machine, Memory, POLICIES};
pub(crate) use self::model::{KINDS, Model, STORAGES};
pub(crate) use self::text::{Part, Text};

use crate::dice::Dice;

/// Most lines of a case: many short runs are better than a few long ones.
const LINES_MAX: u64 = 4000;

/// Training data of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Text(Text),
    /// The built-in stream.
    Stream {
        examples: u64,
        vocab_scale: &'static str,
    },
}

/// Form of a text file. For the built-in stream, `Plain` means generated on the fly, and the others
/// are files that `stepwell synth` and `stepwell convert` write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Plain,
    Gzip,
    Zstd,
    /// As packed by `stepwell convert`.
    Packed,
}

/// A variant's use of `data.cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    Unused,
    /// A cache of its own.
    Own,
    /// A cache that variants share, which may have been made from other forms of the data.
    Shared,
}

/// A way to end a process early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stop {
    pub(crate) signal: Signal,
    pub(crate) when: When,
    /// Whether to send the signal twice.
    pub(crate) twice: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    Kill,
    Interrupt,
    Terminate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// After this share of a whole run's duration.
    Part(f64),
    /// After this many checkpoints, plus this share of that duration.
    Saved(u64, f64),
}

/// Reader of a process's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listener {
    #[default]
    Attentive,
    /// The pipe has no reader.
    Gone,
    /// A full disk.
    Full,
}

/// One process of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Launch {
    pub(crate) machine: Machine,
    /// Whether it is started with `--force`, which sets aside what earlier processes left.
    pub(crate) anew: bool,
    /// Whether it is started with `--resume=auto` even if it could use `--resume`.
    pub(crate) auto: bool,
    /// Steps between checkpoints.
    pub(crate) every: u64,
    /// Minutes between checkpoints, as a setting.
    pub(crate) minutes: &'static str,
    /// Checkpoints to keep.
    pub(crate) keep: u64,
    pub(crate) listener: Listener,
    /// `None` to run until the end.
    pub(crate) stop: Option<Stop>,
    /// Whether to check the newest checkpoint after the process was stopped.
    pub(crate) look: bool,
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
        let model = Model::draw(dice, mini_batch);
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
        if skips == Skips::TooFew {
            variants.iter_mut().for_each(Variant::keep_nothing);
        }
        let mut several = Dice::new(seed, &format!("ranks {attempt}"));
        let mut tables = Dice::new(seed, &format!("tables {attempt}"));
        let together = ranks::in_tables(&mut tables, &model, &variants);
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

impl Variant {
    /// Draws a variant of a run of about `steps` steps. The `first` variant of a case isn't
    /// stopped, and shows how long a run takes.
    fn draw(dice: &mut Dice, data: &Data, mini_batch: u64, steps: u64, first: bool) -> Self {
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
}

impl Variant {
    /// Reduces it to one process on plain text.
    fn keep_nothing(&mut self) {
        self.forms.fill(Form::Plain);
        self.launches.truncate(1);
        self.launches[0].stop = None;
        (self.saved, self.again) = (false, false);
    }
}

/// Draws a form for each file, and whether training files are joined.
fn forms(dice: &mut Dice, data: &Data) -> (Vec<Form>, bool) {
    let Data::Text(text) = data else {
        return (vec![dice.pick(&[Form::Plain, Form::Plain, Form::Zstd, Form::Packed])], false);
    };
    let (parts, may_be_packed) = (text.parts.len(), text.malformed == 0);
    let count = parts + usize::from(text.evaluation.is_some());
    let one = dice.chance(50);
    let mut forms: Vec<Form> = (0..count).map(|_| form(dice, may_be_packed)).collect();
    if one {
        forms = vec![forms[0]; count];
    }
    let joined = may_be_packed && parts > 1 && dice.chance(40);
    if joined {
        forms[..parts].fill(Form::Packed);
    }
    (forms, joined)
}

fn form(dice: &mut Dice, may_be_packed: bool) -> Form {
    let packed = if may_be_packed { Form::Packed } else { Form::Zstd };
    dice.pick(&[Form::Plain, Form::Plain, Form::Gzip, Form::Zstd, packed])
}

impl Launch {
    fn draw(dice: &mut Dice, mini_batch: u64, steps: u64, stopped: bool) -> Self {
        let machine = Machine::draw(dice, mini_batch);
        let every = if dice.chance(10) { 0 } else { dice.magnitude(1, (steps / 4).max(1)) };
        let signal = dice.pick(&[Signal::Kill, Signal::Kill, Signal::Interrupt, Signal::Terminate]);
        let when = match dice.below(2) {
            0 => When::Part(dice.part() * 0.9),
            _ => When::Saved(dice.magnitude(1, 3), dice.part() * dice.part() * 0.2),
        };
        let twice = dice.chance(20);
        let stop = stopped.then_some(Stop { signal, when, twice });
        let (anew, auto, look) = (dice.chance(8), dice.chance(30), dice.chance(30));
        let keep = dice.within(1, 3);
        let minutes = dice.pick(&["10", "10", "0", "0.001", "0.0001"]);
        let listener = match dice.below(10) {
            0 => Listener::Gone,
            1 => Listener::Full,
            _ => Listener::Attentive,
        };
        Self { machine, anew, auto, every, minutes, keep, listener, stop, look }
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
