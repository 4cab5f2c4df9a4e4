//! What a rank sends in a step, by the formula of `docs/ranks.md`, without the headers of messages.

use serde::Serialize;

/// Bytes of a key.
const KEY: f64 = 8.0;
/// Bytes of how often a key occurs, where somebody counts that.
const COUNT: f64 = 4.0;
/// Bytes of a weight, of a lane of a gradient, of a dense parameter.
const LANE: f64 = 4.0;
/// Bytes said of a row beside its sums: which subtrees have it, where there are several.
const MASK: f64 = 4.0;
/// Bytes of how a row occurs, where its owner asks.
const SEEN: f64 = 8.0;
/// Bytes of a logit and a label, which rank 0 is told.
const SCORED: f64 = 4.125;

/// What the bytes of a step follow from, for ranks with equal parts of a mini-batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Ranks that share it.
    pub ranks: usize,
    /// Examples of all ranks.
    pub examples: usize,
    /// By table, what the part of one rank touches.
    pub tables: Vec<Touched>,
    /// Subtrees of the blocks of a rank.
    pub subtrees: usize,
    /// Dense parameters.
    pub dense: usize,
}

/// What a rank's part of a mini-batch touches of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touched {
    /// Distinct keys, in the mean.
    pub keys: f64,
    /// Weights of a row.
    pub weights: usize,
    /// Whether rows have a life, so that it is said how often each key occurs.
    pub counts: bool,
    /// Whether owners ask how rows occur in the examples.
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
    /// Exchanges that wait for one another within a step: all of them but what is asked ahead.
    pub const IN_STEP: usize = 3;
    /// Messages from a rank to another one in a step.
    const MESSAGES: usize = Self::IN_STEP + 1;

    /// All of it.
    pub fn sum(&self) -> f64 {
        self.ask + self.in_step()
    }

    /// What is sent while a step is under way.
    pub fn in_step(&self) -> f64 {
        self.answer + self.said + self.summed
    }

    /// A part of it.
    pub(super) fn over(self, parts: f64) -> Self {
        let Self { ask, answer, said, summed } = self;
        let over = |bytes: f64| bytes / parts;
        Self { ask: over(ask), answer: over(answer), said: over(said), summed: over(summed) }
    }
}

/// What all ranks together put into messages for an example, those to themselves included: what
/// exchanging costs their processors follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Exchanged {
    /// Keys that are asked for.
    pub keys: f64,
    /// Weights, gradients and dense parameters.
    pub lanes: f64,
    /// Messages to others.
    pub messages: f64,
}

impl Step {
    /// What the link of rank 0 carries in a step, the busiest one: each rank sends as much, but the
    /// scores, which all others send to rank 0. Keys are spread evenly over their owners, so that
    /// of R ranks R - 1 of R keys are another's.
    pub fn sent(&self) -> Sent {
        let others = (self.ranks - 1) as f64;
        let elsewhere = others / self.ranks as f64;
        let of_rows = |bytes: &dyn Fn(&Touched) -> f64| -> f64 {
            let of_table = |table: &Touched| table.keys * bytes(table);
            self.tables.iter().map(of_table).sum::<f64>() * elsewhere
        };
        let (subtrees, dense) = (self.subtrees as f64, self.dense as f64 * LANE);
        let weights = |table: &Touched| table.weights as f64 * LANE;
        // Those of all parts but the own one.
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

    /// Distinct keys of one rank's part, of all tables.
    pub fn keys(&self) -> f64 {
        self.tables.iter().map(|table| table.keys).sum()
    }

    /// What is put into messages for an example; nothing where there is nobody to talk to.
    pub fn exchanged(&self) -> Exchanged {
        if self.ranks < 2 {
            return Exchanged::default();
        }
        // Answered once, and said once for each subtree; of the dense part, summed once.
        let times = 1.0 + self.subtrees as f64;
        let of_rows: f64 = self.tables.iter().map(|of| of.keys * of.weights as f64).sum();
        let lanes = (of_rows + self.dense as f64) * times;
        let messages = ((self.ranks - 1) * Sent::MESSAGES) as f64;
        // Of all ranks, for an example.
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
        // Half of the keys are the other rank's: 8, 4 * 3, and 4 * 3 * 2 + 4 bytes each. Of the
        // dense part half goes: 4 * 60 * 2, and 4 * 60 summed. So do scores of 25 examples.
        let sent = step(2, false).sent();
        let said = 1400.0 + 240.0 + 103.125;
        assert_eq!(sent, Sent { ask: 400.0, answer: 600.0, said, summed: 120.0 });
        assert!((step(2, false).sent_per_example().sum() - 57.2625).abs() < 1e-9);
        assert_eq!(sent.in_step(), 720.0 + said);
        assert_eq!(step(2, true).sent().ask, 600.0);
        assert_eq!(step(2, true).sent().said, said + 400.0);
        // One subtree has all rows that are asked for, once.
        let alone = Step { subtrees: 1, ..step(2, false) };
        assert_eq!(alone.sent().said, 600.0 + 120.0 + 103.125);
        // Of four ranks three parts of four go elsewhere.
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
        // Three weights answered, and said for each of two subtrees; 60 dense ones alike.
        assert_eq!(lanes, 2.0 * (100.0 * 3.0 * 3.0 + 60.0 * 3.0) / 50.0);
    }
}
