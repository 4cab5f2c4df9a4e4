//! What a rank sends in a step, by the formula of `docs/ranks.md`, without the headers of messages.

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
}

/// Bytes that a rank sends to all others in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Keys, to their owners.
    pub ask: f64,
    /// Weights, from owners.
    pub answer: f64,
    /// Sums of gradients of rows and of the dense part.
    pub said: f64,
    /// Dense gradients, summed.
    pub summed: f64,
}

impl Sent {
    /// All of it.
    pub fn sum(&self) -> f64 {
        self.ask + self.answer + self.said + self.summed
    }
}

/// Bytes of a lane.
const LANE: f64 = 4.0;

impl Step {
    /// What each rank sends. Keys are spread evenly over their owners, so that of R ranks R - 1 of
    /// R keys are another's.
    pub fn sent(&self) -> Sent {
        let others = (self.ranks - 1) as f64;
        let elsewhere = others / self.ranks as f64;
        let of_rows = |bytes: &dyn Fn(&Touched) -> f64| -> f64 {
            let of_table = |table: &Touched| table.keys * bytes(table);
            self.tables.iter().map(of_table).sum::<f64>() * elsewhere
        };
        let (subtrees, dense) = (self.subtrees as f64, self.dense as f64 * LANE);
        let weights = |table: &Touched| table.weights as f64 * LANE;
        Sent {
            ask: of_rows(&|table| if table.counts { 12.0 } else { 8.0 }),
            answer: of_rows(&weights),
            said: of_rows(&|table| weights(table) * subtrees + 12.0) + dense * subtrees * elsewhere,
            summed: dense * elsewhere,
        }
    }

    /// Bytes that a link carries each way for an example of the mini-batch.
    pub fn bytes_per_example(&self) -> f64 {
        self.sent().sum() / self.examples.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(ranks: usize, counts: bool) -> Step {
        let tables = vec![Touched { keys: 100.0, weights: 3, counts }];
        Step { ranks, examples: 50, tables, subtrees: 2, dense: 60 }
    }

    #[test]
    fn bytes_are_those_of_the_formula() {
        // Half of the keys are the other rank's: 8, 4 * 3, and 4 * 3 * 2 + 12 bytes each. Of the
        // dense part half goes: 4 * 60 * 2, and 4 * 60 summed.
        let sent = step(2, false).sent();
        assert_eq!(sent, Sent { ask: 400.0, answer: 600.0, said: 2040.0, summed: 120.0 });
        assert_eq!(step(2, false).bytes_per_example(), 3160.0 / 50.0);
        assert_eq!(step(2, true).sent().ask, 600.0);
        // Of four ranks three parts of four go elsewhere.
        assert_eq!(step(4, false).sent().ask, 600.0);
    }

    #[test]
    fn one_rank_sends_nothing() {
        assert_eq!(step(1, true).sent().sum(), 0.0);
    }
}
