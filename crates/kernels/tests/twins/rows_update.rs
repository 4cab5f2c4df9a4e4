//! Sums by the fixed tree, and the optimizer, with the bits of `stepwell-optim` on plain sums.

#![expect(clippy::unwrap_used, reason = "every row occurs, and settings are in their ranges")]

use super::support::batch::{Batch, Shape, Table, all_optimizers, optimizers};
use super::support::{Arg, Dice, Lists, SCHEDULES, bits, run, sizes};
use stepwell_base::random::Stream;
use stepwell_kernels::host::Schedule;
use stepwell_kernels::{FREQUENT_BAGS, NONE, UpdateTable};
use stepwell_kernels::{RULE_ADAGRAD, RULE_ADAM, RULE_FTRL, RULE_MOMENTUM, RULE_SGD};
use stepwell_optim::{
    Ftrl, Momentum, Regularization, RowOptimizer, RowRule, Rule, Storage, Stored,
};

/// An update of a mini-batch's rows.
struct Update {
    batch: Batch,
    tables: Vec<UpdateTable>,
    items: u32,
    d_x: Vec<f32>,
    d_first_order: Vec<f32>,
    /// Where each block ends, in examples, and the number of the first block.
    block_ends: Vec<u32>,
    first_block: u32,
    rounding: Vec<Vec<u64>>,
    skipped: Vec<Vec<u32>>,
    /// The same tables with frequent rows separated, and the number of these.
    apart: Vec<UpdateTable>,
    frequent_rows: u32,
}

impl Update {
    fn drawn(mut batch: Batch, (blocks, first_block): (usize, u32), dice: &mut Dice) -> Self {
        let examples = batch.examples;
        let ends = (1..=blocks).map(|block| (examples * block / blocks) as u32);
        let block_ends: Vec<u32> = ends.collect();
        let (mut rounding, mut skipped) = (Vec::<Vec<u64>>::new(), Vec::<Vec<u32>>::new());
        for table in &batch.tables {
            let rows = 0..table.slots.len();
            rounding.push(rows.clone().map(|_| dice.next()).collect());
            skipped.push(rows.map(|_| u32::from(dice.below(4) == 0)).collect());
        }
        let d_x = dice.numbers(examples * batch.columns);
        let d_first_order = dice.numbers(examples);
        let mut tables = Vec::new();
        let (mut first_item, mut sums) = (0, 0);
        let block_list = batch.lists.put(&block_ends);
        for (number, table) in batch.tables.iter().enumerate() {
            let lists = &mut batch.lists;
            let mut of = described(table, lists);
            of.rounding = lists.put_wide(&rounding[number]);
            // Some tables skip no rows.
            of.skip = if number % 2 == 0 { lists.put(&skipped[number]) } else { NONE };
            (of.block_ends, of.blocks, of.first_block) = (block_list, blocks as u32, first_block);
            (of.first_item, of.sums) = (first_item, sums);
            first_item += of.items() as u32;
            sums += u64::from(of.rows * of.width());
            tables.push(of);
        }
        for (number, skipped) in skipped.iter_mut().enumerate() {
            if number % 2 == 1 {
                skipped.fill(0);
            }
        }
        let mut apart = tables.clone();
        for (of, table) in apart.iter_mut().zip(&batch.tables) {
            let bags = table.bags_by_row().into_iter().zip(0..);
            let frequent = bags.filter(|(bags, _)| bags.len() > FREQUENT_BAGS as usize);
            let frequent: Vec<u32> = frequent.map(|(_, row)| row).collect();
            of.frequent = batch.lists.put(&frequent);
            of.frequent_rows = frequent.len() as u32;
        }
        let frequent_rows = apart.iter().map(|table| table.frequent_rows).sum();
        let (items, batch_of) = (first_item, batch);
        Self {
            apart,
            frequent_rows,
            batch: batch_of,
            tables,
            items,
            d_x,
            d_first_order,
            block_ends,
            first_block,
            rounding,
            skipped,
        }
    }

    /// The gradient of each row of a table: summed recursively, over all blocks.
    fn sums(&self, table: &Table) -> Vec<Vec<f32>> {
        let shape = table.shape;
        let mut sums = Vec::new();
        for bags in table.bags_by_row() {
            let mut of_blocks: Vec<Option<Vec<f32>>> = vec![None; self.block_ends.len()];
            for (bag, factor) in bags {
                let (example, field) = (bag as usize / shape.fields, bag as usize % shape.fields);
                let block = self.block_ends.partition_point(|end| *end as usize <= example);
                let at = example * self.batch.columns + table.columns[field];
                let mut gradient = self.d_x[at..at + shape.dim].to_vec();
                gradient.extend(vec![self.d_first_order[example]; shape.wide]);
                if shape.is_weighed {
                    gradient.iter_mut().for_each(|lane| *lane *= factor);
                }
                of_blocks[block] = both(of_blocks[block].take(), Some(gradient));
            }
            let first = self.first_block as usize;
            let of = |block: usize| {
                block.checked_sub(first).and_then(|block| of_blocks.get(block).cloned().flatten())
            };
            sums.push(tree(&of, 0, (first + of_blocks.len()).next_power_of_two()).unwrap());
        }
        sums
    }

    /// Rows after the optimizer's update, and sums.
    fn expected(&self) -> (Vec<f32>, Vec<f32>) {
        let (mut rows, mut all_sums) = (self.batch.rows.clone(), Vec::new());
        for (number, table) in self.batch.tables.iter().enumerate() {
            let (shape, sums) = (table.shape, self.sums(table));
            all_sums.extend(sums.concat());
            let mut room = vec![0.0; shape.width()];
            for (row, gradient) in sums.iter().enumerate() {
                if self.skipped[number][row] != 0 {
                    continue;
                }
                let model = &mut rows[table.place(row)][..shape.model_lanes()];
                let (lanes, state) = model.split_at_mut(shape.storage.lanes(shape.width()));
                let random = Stream::from_state(self.rounding[number][row]);
                let (storage, dim, room) = (shape.storage, shape.dim, &mut room);
                let stored = Stored { storage, dim, lanes, random, room };
                shape.optimizer.update_stored(stored, state, gradient);
            }
        }
        (rows, all_sums)
    }

    fn compare(&self) {
        let expected = self.expected();
        SCHEDULES.into_iter().for_each(|schedule| self.compare_by(schedule, &expected));
    }

    fn compare_by(&self, schedule: Schedule, (rows, sums): &(Vec<f32>, Vec<f32>)) {
        let count = Arg::U32;
        self.same(&self.updated(schedule, &self.tables, 0), rows);
        self.same(&self.updated(schedule, &self.apart, self.frequent_rows), rows);
        let mut got_sums = vec![f32::NAN; sums.len()];
        let (lists, tables) = (&self.batch.lists.0[..], &self.tables[..]);
        let (columns, examples) = (self.batch.columns as u32, self.batch.examples as u32);
        let items = u64::from(self.items);
        run(
            "rows_sums",
            items,
            schedule,
            &mut [
                Arg::W(lists),
                Arg::Update(tables),
                count(tables.len() as u32),
                count(self.items),
                Arg::F(&self.d_x),
                count(columns),
                Arg::F(&self.d_first_order),
                count(examples),
                Arg::FMut(&mut got_sums),
            ],
        );
        assert_eq!(bits(&got_sums), bits(sums));
        let mut got = self.batch.rows.clone();
        run(
            "rows_step",
            items,
            schedule,
            &mut [
                Arg::FMut(&mut got),
                Arg::W(lists),
                Arg::Update(tables),
                count(tables.len() as u32),
                count(self.items),
                Arg::F(&got_sums),
            ],
        );
        self.count_steps(schedule, &mut got);
        self.same(&got, rows);
    }

    /// Rows updated by their bags, with frequent rows of `tables` updated by blocks of threads.
    fn updated(&self, schedule: Schedule, tables: &[UpdateTable], frequent: u32) -> Vec<f32> {
        let mut rows = self.batch.rows.clone();
        for (kernel, items) in [("rows_update", self.items), ("rows_update_frequent", frequent)] {
            if kernel != "rows_update" && items == 0 {
                continue;
            }
            let args = &mut [
                Arg::FMut(&mut rows),
                Arg::W(&self.batch.lists.0[..]),
                Arg::Update(tables),
                Arg::U32(tables.len() as u32),
                Arg::U32(items),
                Arg::F(&self.d_x),
                Arg::U32(self.batch.columns as u32),
                Arg::F(&self.d_first_order),
                Arg::U32(self.batch.examples as u32),
            ];
            run(kernel, u64::from(items), schedule, args);
        }
        self.count_steps(schedule, &mut rows);
        rows
    }

    fn count_steps(&self, schedule: Schedule, rows: &mut [f32]) {
        let args = &mut [
            Arg::FMut(rows),
            Arg::W(&self.batch.lists.0[..]),
            Arg::Update(&self.tables[..]),
            Arg::U32(self.tables.len() as u32),
            Arg::U32(self.items),
        ];
        run("rows_count", u64::from(self.items), schedule, args);
    }

    /// Compares all lanes, naming the row that differs.
    fn same(&self, got: &[f32], expected: &[f32]) {
        for table in &self.batch.tables {
            for row in 0..table.slots.len() {
                let place = table.place(row);
                let (got, expected) = (&got[place.clone()], &expected[place]);
                assert_eq!(bits(got), bits(expected), "row {row} of {:?}", table.shape);
            }
        }
        assert_eq!(bits(got), bits(expected), "between the rows");
    }
}

fn both(left: Option<Vec<f32>>, right: Option<Vec<f32>>) -> Option<Vec<f32>> {
    match (left, right) {
        (Some(left), Some(right)) => {
            Some(left.iter().zip(&right).map(|(left, right)| left + right).collect())
        }
        (left, right) => left.or(right),
    }
}

/// The sum of blocks `from..from + count` as a tree, without missing blocks; `count` is a power of
/// two.
fn tree(of: &impl Fn(usize) -> Option<Vec<f32>>, from: usize, count: usize) -> Option<Vec<f32>> {
    if count == 1 {
        return of(from);
    }
    both(tree(of, from, count / 2), tree(of, from + count / 2, count / 2))
}

/// The descriptor of a table, without what all tables share.
fn described(table: &Table, lists: &mut Lists) -> UpdateTable {
    let shape = table.shape;
    let by_row = table.bags_by_row();
    let ends = by_row.iter().scan(0, |end, bags| {
        *end += bags.len() as u32;
        Some(*end)
    });
    let ends: Vec<u32> = ends.collect();
    let (bags, factors): (Vec<u32>, Vec<f32>) = by_row.concat().into_iter().unzip();
    let columns: Vec<u32> = table.columns.iter().map(|column| *column as u32).collect();
    let bag_factors = if shape.is_weighed { lists.put_numbers(&factors) } else { NONE };
    let of = UpdateTable {
        slab: table.slab as u64,
        rows: table.slots.len() as u32,
        row_lanes: shape.row_lanes() as u32,
        slots: lists.put(&table.slots),
        bag_ends: lists.put(&ends),
        bags: lists.put(&bags),
        bag_factors,
        fields: shape.fields as u32,
        columns: lists.put(&columns),
        dim: shape.dim as u32,
        wide: shape.wide as u32,
        storage: shape.storage as u32,
        ..UpdateTable::default()
    };
    let regularization = shape.optimizer.regularization();
    let of = UpdateTable {
        l2: regularization.l2 as f32,
        keep: regularization.keep(shape.optimizer.lr()),
        regularized: u32::from(regularization != Regularization::default()),
        ..of
    };
    match *shape.optimizer.rule() {
        RowRule::PerLane(Rule::Sgd(sgd)) => {
            UpdateTable { rule: RULE_SGD, rate: sgd.lr as f32, ..of }
        }
        RowRule::PerLane(Rule::Momentum(Momentum { lr, momentum })) => {
            UpdateTable { rule: RULE_MOMENTUM, rate: lr as f32, beta2: momentum, ..of }
        }
        RowRule::PerLane(Rule::Adagrad(adagrad)) => {
            let (rate, eps) = (-adagrad.lr as f32, adagrad.eps as f32);
            UpdateTable { rule: RULE_ADAGRAD, rate, eps, ..of }
        }
        RowRule::PerLane(Rule::Adam(adam)) => {
            let (lr, beta1, beta2) = (adam.lr, adam.beta1, adam.beta2);
            UpdateTable { rule: RULE_ADAM, lr, beta1, beta2, eps: adam.eps as f32, ..of }
        }
        RowRule::Ftrl(Ftrl { lr, beta, l1, .. }) => {
            let (rate, eps, l1) = (lr as f32, beta as f32, l1 as f32);
            UpdateTable { rule: RULE_FTRL, rate, eps, l1, ..of }
        }
        RowRule::CfSgd(_)
        | RowRule::RowWiseAdagrad(_)
        | RowRule::RowWiseAdam(_)
        | RowRule::Frozen => unreachable!("no kernel has it"),
    }
}

fn shape(dim: usize, wide: usize, storage: Storage, optimizer: RowOptimizer) -> Shape {
    let (is_weighed, keys, more_lanes) = (false, 60, 2);
    Shape { dim, wide, fields: 2, storage, optimizer, is_weighed, keys, more_lanes }
}

#[test]
fn every_storage_with_every_optimizer() {
    let mut dice = Dice(21);
    for (storage, optimizer) in
        Storage::ALL.into_iter().flat_map(|s| all_optimizers().into_iter().map(move |o| (s, o)))
    {
        for (dim, wide) in [(0, 1), (1, 0), (1, 1), (3, 0), (5, 1), (16, 0), (16, 1), (17, 1)] {
            for is_weighed in [false, true] {
                let shape = Shape { is_weighed, ..shape(dim, wide, storage, optimizer) };
                let batch = Batch::drawn(61, &[shape], &mut dice);
                Update::drawn(batch, (8, 0), &mut dice).compare();
            }
        }
    }
}

#[test]
fn any_blocks_of_a_mini_batch() {
    let mut dice = Dice(22);
    for blocks in [1, 2, 3, 4, 5, 6, 7, 8, 64] {
        for first_block in [0, 1, 2, 3, 5, 6, 60, 1000] {
            let shapes = [
                shape(3, 1, Storage::F32, optimizers()[1]),
                Shape { keys: 2, ..shape(2, 0, Storage::Bf16, optimizers()[0]) },
            ];
            let batch = Batch::drawn(9 * blocks, &shapes, &mut dice);
            Update::drawn(batch, (blocks, first_block), &mut dice).compare();
        }
    }
}

#[test]
fn several_tables_of_different_shapes_at_once() {
    let mut dice = Dice(23);
    let [sgd, adagrad, adam] = optimizers();
    let shapes = [
        shape(16, 1, Storage::F32, adam),
        Shape { fields: 1, is_weighed: true, ..shape(5, 0, Storage::F16, adagrad) },
        Shape { keys: 1, ..shape(0, 1, Storage::F32, sgd) },
        // No rows, and rows without weights: tables without items.
        Shape { fields: 0, ..shape(4, 1, Storage::F32, adam) },
        shape(0, 0, Storage::F32, sgd),
        Shape { fields: 3, keys: 5000, ..shape(17, 1, Storage::Bf16, adam) },
        Shape { more_lanes: 0, ..shape(4, 0, Storage::F32, adagrad) },
    ];
    for examples in sizes() {
        let shapes = if examples > 100_000 { &shapes[5..] } else { &shapes[..] };
        let batch = Batch::drawn(examples, shapes, &mut dice);
        Update::drawn(batch, (8, 0), &mut dice).compare();
    }
}

/// Rows that have up to all bags of a mini-batch, in one field or in several, with more weights
/// than are added at once.
#[test]
fn rows_that_occur_often() {
    let mut dice = Dice(25);
    let [sgd, adagrad, adam] = optimizers();
    for (dim, wide, storage) in [
        (0, 1, Storage::F32),
        (16, 1, Storage::F32),
        (33, 0, Storage::Bf16),
        (63, 1, Storage::F16),
        (70, 1, Storage::F32),
    ] {
        let often = |keys, of| Shape { keys, ..shape(dim, wide, storage, of) };
        let shapes = [
            often(1, adagrad),
            Shape { fields: 1, is_weighed: true, ..often(30, adam) },
            // None of its rows is frequent.
            Shape { fields: 1, ..often(100_000, sgd) },
            Shape { fields: 3, ..often(7, sgd) },
        ];
        for (examples, blocks) in [(33, (1, 0)), (257, (8, 0)), (700, (3, 5)), (1500, (64, 1))] {
            let batch = Batch::drawn(examples, &shapes, &mut dice);
            let update = Update::drawn(batch, blocks, &mut dice);
            assert!(update.frequent_rows > 0, "{examples} examples");
            update.compare();
        }
    }
}

/// Rows decay to zero as in `stepwell-optim`, and long training gives the same bits.
#[test]
fn many_steps_of_adam() {
    let mut dice = Dice(24);
    let rule = Rule::Adam(stepwell_optim::Adam { beta2: 0.5, ..stepwell_optim::Adam::new(0.01) });
    let adam = RowOptimizer::new(rule).unwrap();
    let batch = Batch::drawn(20, &[shape(4, 1, Storage::F32, adam)], &mut dice);
    let mut update = Update::drawn(batch, (4, 0), &mut dice);
    for step in 0..300 {
        let fresh = if step < 5 { 1e-3 } else { 0.0 };
        update.d_x.iter_mut().for_each(|lane| *lane = fresh * dice.number());
        update.d_first_order.iter_mut().for_each(|lane| *lane = fresh * dice.number());
        update.compare();
        update.batch.rows = update.expected().0;
    }
}
