//! Random processes of a run: their machine, their checkpoints, and how each ends.

use super::machine::Machine;
use crate::dice::Dice;

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

impl Launch {
    pub(super) fn draw(dice: &mut Dice, mini_batch: u64, steps: u64, stopped: bool) -> Self {
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
