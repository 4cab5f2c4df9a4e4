//! Bytes that a rank sends in a step, by the formula of `docs/ranks.md`, without message headers.

use serde::Serialize;

/// Bytes of a key.
const KEY: f64 = 8.0;
/// Bytes of a key's number of occurrences, if counted.
const COUNT: f64 = 4.0;
/// Bytes of a weight, of a lane of a gradient, of a dense parameter.
const LANE: f64 = 4.0;
/// Bytes of a row's bit mask of subtrees, sent with its sums if there are several.
const MASK: f64 = 4.0;
/// Bytes of a row's occurrences, if its owner needs them.
const SEEN: f64 = 8.0;
/// Bytes of a logit and a label, sent to rank 0.
const SCORED: f64 = 4.125;

/// Quantities that determine a step's bytes, for ranks with equal parts of a mini-batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Number of ranks.
    pub ranks: usize,
    /// Examples of all ranks.
    pub examples: usize,
    /// Rows that one rank's part uses, by table.
    pub tables: Vec<Touched>,
    /// Subtrees of the blocks of a rank.
    pub subtrees: usize,
    /// Number of dense parameters.
    pub dense: usize,
}

/// Rows of a table that a rank's part of a mini-batch uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touched {
    /// Mean number of distinct keys.
    pub keys: f64,
    /// Number of weights of a row.
    pub weights: usize,
    /// Whether rows have a life, so that each key's number of occurrences is sent.
    pub counts: bool,
    /// Whether owners need to know how rows occur in the examples.
    pub seen: bool,
}

/// Bytes that a rank sends to all others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sent {
    /// Keys, to their owners.
    pub ask: f64,
    /// Weights, from owners.
    pub answer: f64,
    /// Scores, and sums of gradients of rows and of the dense part.
    pub said: f64,
    /// Dense gradients, summed.
    pub summed: f64,
}

impl Sent {
    /// Exchanges of a step that wait for one another: all but requests, which are sent ahead.
    pub const IN_STEP: usize = 3;
    /// Messages from a rank to another in a step.
    const MESSAGES: usize = Self::IN_STEP + 1;

    /// All bytes.
    pub fn sum(&self) -> f64 {
        self.ask + self.in_step()
    }

    /// Bytes sent during a step.
    pub fn in_step(&self) -> f64 {
        self.answer + self.said + self.summed
    }

    /// Each number divided by `parts`.
    pub(super) fn over(self, parts: f64) -> Self {
        let Self { ask, answer, said, summed } = self;
        let over = |bytes: f64| bytes / parts;
        Self { ask: over(ask), answer: over(answer), said: over(said), summed: over(summed) }
    }
}

/// Contents of all ranks' messages for an example, including messages of ranks to themselves. They
/// determine the processor cost of exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Exchanged {
    /// Keys in requests.
    pub keys: f64,
    /// Weights, gradients and dense parameters.
    pub lanes: f64,
    /// Messages to other ranks.
    pub messages: f64,
}

impl Step {
    /// Bytes on the link of rank 0 in a step. It is the busiest: each rank sends as much, except
    /// scores, which all others send to rank 0. Keys are spread evenly over their owners, so that
    /// of R ranks, (R - 1) / R of the keys belong to others.
    pub fn sent(&self) -> Sent {
        let others = (self.ranks - 1) as f64;
        let elsewhere = others / self.ranks as f64;
        let of_rows = |bytes: &dyn Fn(&Touched) -> f64| -> f64 {
            let of_table = |table: &Touched| table.keys * bytes(table);
            self.tables.iter().map(of_table).sum::<f64>() * elsewhere
        };
        let (subtrees, dense) = (self.subtrees as f64, self.dense as f64 * LANE);
        let weights = |table: &Touched| table.weights as f64 * LANE;
        // Scores of all parts but its own.
        let scores = self.examples as f64 * elsewhere * SCORED;
        let mask = if self.subtrees > 1 { MASK } else { 0.0 };
        let seen = |table: &Touched| if table.seen { SEEN } else { 0.0 };
        let sums = of_rows(&|table| weights(table) * subtrees + mask + seen(table));
        Sent {
            ask: of_rows(&|table| KEY + if table.counts { COUNT } else { 0.0 }),
            answer: of_rows(&weights),
            said: sums + dense * subtrees * elsewhere + scores,
            summed: dense * elsewhere,
        }
    }

    /// Bytes that a link carries each way for an example of the mini-batch.
    pub fn sent_per_example(&self) -> Sent {
        self.sent().over(self.examples.max(1) as f64)
    }

    /// Number of distinct keys of one rank's part, in all tables.
    pub fn keys(&self) -> f64 {
        self.tables.iter().map(|table| table.keys).sum()
    }

    /// Contents of all ranks' messages for an example; zero with a single rank.
    pub fn exchanged(&self) -> Exchanged {
        if self.ranks < 2 {
            return Exchanged::default();
        }
        // Answered once, and summed once per subtree; the dense part is summed once.
        let times = 1.0 + self.subtrees as f64;
        let of_rows: f64 = self.tables.iter().map(|of| of.keys * of.weights as f64).sum();
        let lanes = (of_rows + self.dense as f64) * times;
        let messages = ((self.ranks - 1) * Sent::MESSAGES) as f64;
        // For all ranks, per example.
        let over = self.ranks as f64 / self.examples.max(1) as f64;
        Exchanged { keys: self.keys() * over, lanes: lanes * over, messages: messages * over }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(ranks: usize, counts: bool) -> Step {
        let tables = vec![Touched { keys: 100.0, weights: 3, counts, seen: counts }];
        Step { ranks, examples: 50, tables, subtrees: 2, dense: 60 }
    }

    #[test]
    fn bytes_are_those_of_the_formula() {
        // Half of the keys are the other rank's: 8, 4 * 3, and 4 * 3 * 2 + 4 bytes each. Half of
        // the dense part is sent: 4 * 60 * 2, and 4 * 60 summed; and the scores of 25 examples.
        let sent = step(2, false).sent();
        let said = 1400.0 + 240.0 + 103.125;
        assert_eq!(sent, Sent { ask: 400.0, answer: 600.0, said, summed: 120.0 });
        assert!((step(2, false).sent_per_example().sum() - 57.2625).abs() < 1e-9);
        assert_eq!(sent.in_step(), 720.0 + said);
        assert_eq!(step(2, true).sent().ask, 600.0);
        assert_eq!(step(2, true).sent().said, said + 400.0);
        // One subtree has all requested rows, once.
        let alone = Step { subtrees: 1, ..step(2, false) };
        assert_eq!(alone.sent().said, 600.0 + 120.0 + 103.125);
        // With four ranks, three quarters go to others.
        assert_eq!(step(4, false).sent().ask, 600.0);
    }

    #[test]
    fn one_rank_sends_nothing() {
        assert_eq!(step(1, true).sent().sum(), 0.0);
        assert_eq!(step(1, true).exchanged(), Exchanged::default());
    }

    #[test]
    fn what_is_put_into_messages_counts_those_to_oneself() {
        let Exchanged { keys, lanes, messages } = step(2, false).exchanged();
        assert_eq!((keys, messages), (200.0 / 50.0, 8.0 / 50.0));
        assert!((step(4, false).exchanged().messages * 50.0 - 48.0).abs() < 1e-9);
        // Three weights answered, and two subtrees' gradients of them; likewise 60 dense ones.
        assert_eq!(lanes, 2.0 * (100.0 * 3.0 * 3.0 + 60.0 * 3.0) / 50.0);
    }
}
