//! Styles of choosing the next stage to poll.
//!
//! - **Why.** With a uniform choice, a stage rarely runs far ahead of another, and that is when
//!   hazards occur. Each style makes a different kind of distance likely.
//!
//! - **Source.** Changing priorities follow Burckhardt and others, "A randomized scheduler with
//!   probabilistic guarantees of finding bugs" (2010): a few priority changes at random turns find
//!   every bug of small depth with a known probability.

use crate::dice::Dice;

/// A style of choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Any runnable stage.
    Uniform,
    /// One stage as often as possible, for at most this many turns.
    Bursts(u64),
    /// The first runnable stage in a random order, in which one moves to the end now and then.
    Priorities,
    /// One stage only if no other can run, for at most this many turns.
    Starve(u64),
    /// Some stages far more often than others.
    Weights,
    /// A different style every few hundred turns.
    Mixed,
}

impl Style {
    /// Draws a style for a whole run.
    pub fn draw(dice: &mut Dice) -> Self {
        match dice.below(8) {
            0 => Self::Uniform,
            1 => Self::Bursts(dice.pick(&[4, 30, 300])),
            2 | 3 => Self::Priorities,
            4 | 5 => Self::Starve(dice.pick(&[50, 500, 5000])),
            6 => Self::Weights,
            _ => Self::Mixed,
        }
    }
}

/// Turns between changes of a mixed style.
const MIXED_TURNS: u64 = 300;

/// Chooses the stage of each turn.
#[derive(Debug)]
pub(crate) struct Chooser {
    asked: Style,
    style: Style,
    dice: Dice,
    /// Stages by number, highest priority first.
    order: Vec<usize>,
    weights: Vec<u64>,
    /// Stage that runs in a burst, or is starved.
    subject: usize,
    /// Turns until the subject or the weights change.
    left: u64,
    /// Turns until the style changes.
    style_left: u64,
}

impl Chooser {
    /// A chooser among `stages` stages.
    pub(crate) fn new(style: Style, dice: Dice, stages: usize) -> Self {
        let mut chooser = Self {
            asked: style,
            style,
            dice,
            order: (0..stages).collect(),
            weights: vec![1; stages],
            subject: 0,
            left: 0,
            style_left: 0,
        };
        for place in 1..stages {
            let other = chooser.dice.below(place as u64 + 1) as usize;
            chooser.order.swap(place, other);
        }
        chooser
    }

    /// Chooses one of `runnable`, which isn't empty.
    pub(crate) fn choose(&mut self, runnable: &[usize]) -> usize {
        if self.asked == Style::Mixed {
            self.mix();
        }
        match self.style {
            Style::Uniform | Style::Mixed => self.dice.pick(runnable),
            Style::Bursts(turns) => self.burst(runnable, turns),
            Style::Priorities => self.first(runnable),
            Style::Starve(turns) => self.starve(runnable, turns),
            Style::Weights => self.weighted(runnable),
        }
    }

    fn mix(&mut self) {
        while self.style_left == 0 || self.style == Style::Mixed {
            self.style = Style::draw(&mut self.dice);
            self.style_left = self.dice.within(1, MIXED_TURNS);
            self.left = 0;
        }
        self.style_left -= 1;
    }

    fn burst(&mut self, runnable: &[usize], turns: u64) -> usize {
        if self.left == 0 || !runnable.contains(&self.subject) {
            self.subject = self.dice.pick(runnable);
            self.left = self.dice.within(1, turns);
        }
        self.left -= 1;
        self.subject
    }

    fn first(&mut self, runnable: &[usize]) -> usize {
        if self.dice.once_in(64) {
            let place = self.dice.below(self.order.len() as u64) as usize;
            let demoted = self.order.remove(place);
            self.order.push(demoted);
        }
        let first = self.order.iter().find(|stage| runnable.contains(stage));
        first.copied().unwrap_or(runnable[0])
    }

    fn starve(&mut self, runnable: &[usize], turns: u64) -> usize {
        if self.left == 0 {
            self.subject = self.dice.below(self.order.len() as u64) as usize;
            self.left = self.dice.within(1, turns);
        }
        self.left -= 1;
        let others = runnable.iter().copied().filter(|stage| *stage != self.subject);
        let others: Vec<usize> = others.collect();
        if others.is_empty() { self.subject } else { self.dice.pick(&others) }
    }

    fn weighted(&mut self, runnable: &[usize]) -> usize {
        if self.left == 0 {
            let dice = &mut self.dice;
            self.weights.iter_mut().for_each(|weight| *weight = 1 << dice.below(9));
            self.left = self.dice.within(1, MIXED_TURNS);
        }
        self.left -= 1;
        let total: u64 = runnable.iter().map(|stage| self.weights[*stage]).sum();
        let mut place = self.dice.below(total);
        for stage in runnable {
            match place.checked_sub(self.weights[*stage]) {
                Some(rest) => place = rest,
                None => return *stage,
            }
        }
        runnable[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLES: [Style; 6] = [
        Style::Uniform,
        Style::Bursts(30),
        Style::Priorities,
        Style::Starve(50),
        Style::Weights,
        Style::Mixed,
    ];

    #[test]
    fn every_style_chooses_a_runnable_stage_and_forgets_none() {
        for style in STYLES {
            let mut chooser = Chooser::new(style, Dice::new(3, "test"), 7);
            let mut dice = Dice::new(4, "runnable");
            let mut chosen = [0; 7];
            for _ in 0..20_000 {
                let mut runnable: Vec<usize> = (0..7).filter(|_| dice.once_in(2)).collect();
                if runnable.is_empty() {
                    runnable.push(dice.below(7) as usize);
                }
                let stage = chooser.choose(&runnable);
                assert!(runnable.contains(&stage), "{style:?}");
                chosen[stage] += 1;
            }
            assert!(chosen.iter().all(|count| *count > 50), "{style:?}: {chosen:?}");
        }
    }

    #[test]
    fn the_same_dice_choose_the_same() {
        for style in STYLES {
            let choose = || {
                let mut chooser = Chooser::new(style, Dice::new(5, "test"), 4);
                (0..500).map(|_| chooser.choose(&[0, 1, 2, 3])).collect::<Vec<_>>()
            };
            assert_eq!(choose(), choose());
        }
    }
}
