//! Mini-batches over several tables, drawn at random.

#![expect(clippy::unwrap_used, reason = "settings of the rules are in their ranges")]

use stepwell_base::random::Stream;
use stepwell_kernels::{NONE, PoolTable};
use stepwell_optim::{
    Adagrad, Adam, Ftrl, Lanes, Momentum, Regularization, RowOptimizer, RowRule, Rule, Storage,
};

use super::{Dice, Lists};

/// Shape of a table of a mini-batch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub dim: usize,
    pub wide: usize,
    pub fields: usize,
    pub storage: Storage,
    pub optimizer: RowOptimizer,
    pub is_weighed: bool,
    /// Number of distinct keys that ids are drawn from.
    pub keys: usize,
    /// Lanes behind the model: a history, or padding to four lanes.
    pub more_lanes: usize,
}

impl Shape {
    pub fn width(&self) -> usize {
        self.dim + self.wide
    }

    pub fn model_lanes(&self) -> usize {
        let lanes = Lanes { dim: self.dim, wide: self.wide };
        self.storage.lanes(self.width()) + self.optimizer.state_lanes(lanes)
    }

    pub fn row_lanes(&self) -> usize {
        self.model_lanes() + self.more_lanes
    }
}

/// Rules of rows and of dense parameters, with settings that affect results.
pub fn rules() -> [Rule; 4] {
    [
        Rule::sgd(0.1),
        Rule::Adagrad(Adagrad { eps: 1e-3, initial: 0.1, ..Adagrad::new(0.07) }),
        Rule::Adam(Adam { beta1: 0.8, beta2: 0.99, eps: 1e-4, ..Adam::new(0.03) }),
        Rule::Momentum(Momentum { lr: 0.05, momentum: 0.8 }),
    ]
}

/// Penalties that kernels have.
pub fn regularization() -> Regularization {
    Regularization { l2: 0.3, weight_decay: 0.2, ..Regularization::default() }
}

/// Row optimizers: gradient descent, Adagrad and Adam.
pub fn optimizers() -> [RowOptimizer; 3] {
    let [sgd, adagrad, adam, _] = rules();
    [sgd, adagrad, adam].map(|rule| RowOptimizer::new(rule).unwrap())
}

/// All row optimizers that kernels have, without and with penalties.
pub fn all_optimizers() -> Vec<RowOptimizer> {
    let rules = rules().map(|rule| RowOptimizer::new(rule).unwrap());
    let [ftrl, sparse] = [0.0, 0.4].map(|l1| {
        let ftrl = Ftrl { lr: 0.3, beta: 0.5, l1, initial: 0.1 };
        RowOptimizer::new(RowRule::Ftrl(ftrl)).unwrap()
    });
    let penalized = rules.map(|rule| rule.regularized(regularization()).unwrap());
    let ridge = sparse.regularized(regularization()).unwrap();
    rules.into_iter().chain(penalized).chain([ftrl, sparse, ridge]).collect()
}

/// A table of a mini-batch.
#[derive(Debug)]
pub struct Table {
    pub shape: Shape,
    /// First lane of its rows.
    pub slab: usize,
    pub slots: Vec<u32>,           // (rows)
    pub occurrence_rows: Vec<u32>, // (occurrences)
    pub ends: Vec<u32>,            // (examples, fields)
    pub factors: Vec<f32>,         // (occurrences) or none
    /// First column of each field.
    pub columns: Vec<usize>,
}

impl Table {
    /// Range of the lanes of row number `row`.
    pub fn place(&self, row: usize) -> std::ops::Range<usize> {
        let lanes = self.shape.row_lanes();
        let at = self.slab + self.slots[row] as usize * lanes;
        at..at + lanes
    }

    pub fn bag(&self, number: usize) -> std::ops::Range<usize> {
        let begin = if number == 0 { 0 } else { self.ends[number - 1] as usize };
        begin..self.ends[number] as usize
    }

    /// The bags of each row, in example order, with the factor of the row in each.
    pub fn bags_by_row(&self) -> Vec<Vec<(u32, f32)>> {
        let mut bags = vec![Vec::new(); self.slots.len()];
        for number in 0..self.ends.len() {
            for occurrence in self.bag(number) {
                let factor = self.factors.get(occurrence).copied().unwrap_or(1.0);
                bags[self.occurrence_rows[occurrence] as usize].push((number as u32, factor));
            }
        }
        bags
    }
}

/// A mini-batch, and the rows that it needs.
#[derive(Default)]
pub struct Batch {
    pub examples: usize,
    pub tables: Vec<Table>,
    /// Number of columns of the pooled embeddings.
    pub columns: usize,
    pub columns_of: Vec<u32>,
    pub rows: Vec<f32>,
    pub lists: Lists,
    pub pool: Vec<PoolTable>,
}

impl Batch {
    pub fn drawn(examples: usize, shapes: &[Shape], dice: &mut Dice) -> Self {
        let mut batch = Self { examples, ..Self::default() };
        for shape in shapes {
            batch.add(shape, dice);
        }
        batch
    }

    fn add(&mut self, shape: &Shape, dice: &mut Dice) {
        let (occurrence_rows, ends, distinct) = bags(self.examples, shape, dice);
        let occurrences = occurrence_rows.len();
        let slots: Vec<u32> = dice.order(distinct + 3).into_iter().take(distinct).collect();
        let factors = if shape.is_weighed { dice.numbers(occurrences) } else { Vec::new() };
        let mut columns = Vec::new();
        for field in 0..shape.fields {
            columns.push(self.columns);
            let of = |lane: usize| [self.tables.len() as u32, field as u32, lane as u32];
            self.columns_of.extend((0..shape.dim).flat_map(of));
            self.columns += shape.dim;
        }
        // Every other slab is not aligned to four lanes.
        let slab = self.rows.len().next_multiple_of(4) + self.tables.len() % 2 * 3;
        self.rows.resize(slab + (distinct + 3) * shape.row_lanes(), f32::NAN);
        let table = Table { shape: *shape, slab, slots, occurrence_rows, ends, factors, columns };
        for row in 0..distinct {
            fill(&mut self.rows[table.place(row)], shape, dice);
        }
        let factors = match shape.is_weighed {
            true => self.lists.put_numbers(&table.factors),
            false => NONE,
        };
        self.pool.push(PoolTable {
            slab: slab as u64,
            row_lanes: shape.row_lanes() as u32,
            slots: self.lists.put(&table.slots),
            occurrence_rows: self.lists.put(&table.occurrence_rows),
            ends: self.lists.put(&table.ends),
            factors,
            fields: shape.fields as u32,
            dim: shape.dim as u32,
            wide: shape.wide as u32,
            storage: shape.storage as u32,
            padding: 0,
        });
        self.tables.push(table);
    }
}

/// Rows of occurrences, numbered in order; ends of bags; number of distinct rows.
fn bags(examples: usize, shape: &Shape, dice: &mut Dice) -> (Vec<u32>, Vec<u32>, usize) {
    let (mut occurrence_rows, mut ends) = (Vec::new(), Vec::new());
    let mut row_of_key = std::collections::HashMap::new();
    for _ in 0..examples * shape.fields {
        for _ in 0..dice.below(5) {
            // Some keys are very frequent.
            let of = if dice.below(2) == 0 { shape.keys.div_ceil(20) } else { shape.keys };
            let next = row_of_key.len() as u32;
            occurrence_rows.push(*row_of_key.entry(dice.below(of)).or_insert(next));
        }
        ends.push(occurrence_rows.len() as u32);
    }
    (occurrence_rows, ends, row_of_key.len())
}

/// Fills a row as in the middle of training.
fn fill(row: &mut [f32], shape: &Shape, dice: &mut Dice) {
    let (model, rest) = row.split_at_mut(shape.model_lanes());
    let (lanes, state) = model.split_at_mut(shape.storage.lanes(shape.width()));
    shape.storage.encode(&dice.numbers(shape.width()), lanes, Stream::from_state(dice.next()));
    for lane in state.iter_mut() {
        *lane = dice.number().abs();
    }
    if let (true, [.., counter]) = (shape.optimizer.rule().counts_steps(), state) {
        let steps = [0, 1, dice.below(100), dice.below(1 << 20), u32::MAX as usize];
        *counter = f32::from_bits(steps[dice.below(steps.len())] as u32);
    }
    rest.fill(7.0);
}
