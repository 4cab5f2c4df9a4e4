//! The engine without a pipeline: what is fed comes up in order, and neither slots, nor lookahead,
//! nor who polls the stages shows in any bit.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::clock::ManualClock;
use stepwell_base::random::Stream;
use stepwell_disk::{Disk, MemDisk};
use stepwell_engine::{
    Admission, Bags, Cargo, Columns, DenseView, EmbeddingBags, Error, Field, Gradients, Group,
    Grouper, Hands, Hierarchy, Life, MiniBatch, ModelDigest, NoLaps, Part, Planner, Pooled,
    Purpose, Ready, Retired, Shape, Staging, TableSpec, Window, WorkingRows,
};
use stepwell_mem::PolicyKind;
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_ssd::{Compaction, Store, StoreOptions};

const FIELDS: usize = 3;
const DIM: usize = 4;
const COLUMNS: usize = FIELDS * DIM;
const EXAMPLES: usize = 20;
/// No mini-batch has more distinct keys.
const ROWS_MOST: usize = EXAMPLES * FIELDS * 5;

/// Labels, and what the mini-batch was drawn as.
#[derive(Debug, Default)]
struct Labels(Vec<f32>);

impl Cargo for Labels {
    fn examples(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

fn table(life: Option<Life>) -> TableSpec {
    let optimizer = RowOptimizer::new(Rule::adagrad(0.1)).unwrap();
    let spec = TableSpec::new(0, "items", DIM, optimizer);
    TableSpec { wide: 1, init_range: 0.1, seed: 3, life, ..spec }
}

fn shape() -> Shape {
    Shape { blocks: 4, staleness: 1, sketch_bytes: vec![1 << 10], ..Shape::default() }
}

/// How a model is trained, without effect on it.
#[derive(Clone, Copy, Debug)]
struct Way {
    slots: usize,
    lookahead: usize,
    hands: Hands,
    /// Whether every fourth step is begun and given up before it is done.
    hesitates: bool,
}

struct Model {
    hierarchy: Hierarchy<Labels>,
    embeddings: EmbeddingBags,
    grouper: Grouper,
    way: Way,
    /// Everything that was read.
    seen: Vec<u32>,
}

impl Model {
    fn new(life: Option<Life>, way: Way) -> Self {
        let table = table(life);
        let options = StoreOptions {
            compaction: Compaction::Inline,
            segment_bytes: 64 << 10,
            ..StoreOptions::new(0, table.row_bytes())
        };
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let store = Arc::new(Store::create(disk, options).unwrap());
        let staging = Staging::new(table.row_lanes(), 16, 3);
        let group = Group::new(table.clone(), way.slots, store, staging).unwrap();
        let planner = Planner::new(way.slots, way.lookahead + 2, PolicyKind::default());
        let window = Window { lookahead: way.lookahead, horizon: way.lookahead + 1 };
        let clock = Arc::new(ManualClock::default());
        let groups = vec![Arc::new(group)];
        let columns =
            Columns { of_fields: vec![[0, DIM, 2 * DIM].map(Field::sum).to_vec()], count: COLUMNS };
        Self {
            hierarchy: Hierarchy::new(groups, vec![planner], window, clock, way.hands).unwrap(),
            embeddings: EmbeddingBags::new(vec![table], columns, shape()),
            grouper: Grouper::default(),
            way,
            seen: Vec::new(),
        }
    }

    fn feed(&mut self, (bags, labels, purpose): &Drawn) {
        let mut mini = self.hierarchy.spare().unwrap_or_else(|| MiniBatch {
            number: 0,
            purpose: *purpose,
            parts: vec![Part::default()],
            cargo: Labels::default(),
        });
        mini.purpose = *purpose;
        mini.cargo.0.extend_from_slice(labels);
        mini.parts[0].request.ends.extend_from_slice(&bags.ends);
        self.grouper.group_into(&bags.keys, 0, &mut mini.parts[0].request);
        self.hierarchy.feed(mini).unwrap();
    }

    /// Trains what comes next, or notes what a pause finds.
    fn take(&mut self) {
        match self.hierarchy.ready().unwrap().unwrap() {
            Ready::Unit(mut unit) => {
                unit.trained =
                    unit.minis.iter_mut().fold(false, |trained, mini| trained | self.run(mini));
                self.hierarchy.retire(Retired::Unit(unit));
            }
            Ready::Checkpoint(pause) => {
                self.hierarchy.settle().unwrap();
                self.hierarchy.retire(Retired::Checkpoint(pause));
            }
            Ready::Mark(()) => unreachable!("none was fed"),
        }
    }

    /// Whether it was trained.
    fn run(&mut self, mini: &mut MiniBatch<Labels>) -> bool {
        let trains = mini.purpose == Purpose::Train;
        if self.way.hesitates && mini.number.is_multiple_of(4) {
            let groups = self.hierarchy.groups();
            drop(self.embeddings.hold(mini.number, &mut mini.parts, groups, trains));
        }
        let MiniBatch { number, parts, cargo, .. } = mini;
        let groups = self.hierarchy.groups();
        let mut rows = self.embeddings.hold(*number, parts, groups, trains);
        let (x, first_order) = pooled(&self.embeddings, &rows, cargo.0.len());
        self.seen.extend(x.iter().chain(&first_order).map(|value| value.to_bits()));
        if trains {
            // Of the squared error between the label and the sum of all columns.
            let sums = x.chunks_exact(COLUMNS).zip(&first_order).zip(&cargo.0);
            let of_example: Vec<f32> =
                sums.map(|((x, first), label)| x.iter().sum::<f32>() + first - label).collect();
            let d_x: Vec<f32> =
                of_example.iter().flat_map(|error| std::iter::repeat_n(*error, COLUMNS)).collect();
            let gradients = Gradients { d_x: &d_x, d_first_order: &of_example, labels: &cargo.0 };
            self.embeddings.apply(&mut rows, gradients, &NoLaps);
        }
        trains
    }

    fn end(self) -> (String, Vec<u32>) {
        let groups = self.hierarchy.groups().to_vec();
        let planners = self.hierarchy.finish().unwrap();
        let mut digest = ModelDigest::default();
        for (group, planner) in groups.iter().zip(&planners) {
            group.digest(planner.cache(), &mut digest, &mut || Ok(())).unwrap();
        }
        (digest.finish(&DenseView::default()), self.seen)
    }
}

fn pooled(
    embeddings: &EmbeddingBags,
    rows: &WorkingRows<'_>,
    examples: usize,
) -> (Vec<f32>, Vec<f32>) {
    let (mut x, mut first_order) = (vec![f32::NAN; examples * COLUMNS], vec![f32::NAN; examples]);
    // In two parts, as threads would.
    let middle = examples / 2;
    let (left, right) = x.split_at_mut(middle * COLUMNS);
    let (first_left, first_right) = first_order.split_at_mut(middle);
    for (range, x, first_order) in
        [(0..middle, left, first_left), (middle..examples, right, first_right)]
    {
        embeddings.gather(rows, range, Pooled { x, width: COLUMNS, first_order });
    }
    (x, first_order)
}

type Drawn = (Bags, Vec<f32>, Purpose);

/// Mini-batches with bags of no to five ids, some of them frequent.
fn drawn(count: usize) -> Vec<Drawn> {
    let mut dice = Stream::named(5, b"hierarchy");
    let one = |number: usize| {
        let examples = 1 + dice.next_u64() as usize % EXAMPLES;
        let mut bags = Bags::default();
        for _ in 0..examples * FIELDS {
            for _ in 0..dice.next_u64() % 6 {
                let below = [5, 200, 4000][(dice.next_u64() % 3) as usize];
                bags.keys.push(Key(dice.next_u64() % below));
            }
            bags.ends.push(bags.keys.len() as u32);
        }
        let labels = (0..examples).map(|_| (dice.next_u64() % 2) as f32).collect();
        let purpose = if number % 7 == 3 { Purpose::Evaluate } else { Purpose::Train };
        (bags, labels, purpose)
    };
    (0..count).map(one).collect()
}

fn train(life: Option<Life>, way: Way, drawn: &[Drawn]) -> (String, Vec<u32>) {
    let mut model = Model::new(life, way);
    let mut waiting: VecDeque<&Drawn> = drawn.iter().collect();
    let mut fed = 0;
    while model.hierarchy.fed() > 0 || !waiting.is_empty() {
        while model.hierarchy.has_room() && !waiting.is_empty() {
            fed += 1;
            if fed % 40 == 0 {
                model.hierarchy.pause().unwrap();
                continue;
            }
            model.feed(waiting.pop_front().unwrap());
        }
        model.take();
    }
    assert!(model.hierarchy.ready().unwrap().is_none(), "nothing is left");
    model.end()
}

#[test]
fn neither_slots_nor_lookahead_nor_hands_show() {
    let drawn = drawn(240);
    let lives = [
        None,
        Some(Life { admission: Admission::After(2), expire_after: 0 }),
        Some(Life { admission: Admission::AtOnce, expire_after: 9 }),
    ];
    for life in lives {
        let all = Way { slots: 8000, lookahead: 0, hands: Hands::Caller, hesitates: false };
        let expected = train(life, all, &drawn);
        assert!(expected.1.iter().all(|bits| f32::from_bits(*bits).is_finite()));
        for hands in [Hands::Caller, Hands::Threads] {
            for (slots, lookahead) in [(ROWS_MOST, 0), (ROWS_MOST, 5), (2 * ROWS_MOST, 2)] {
                for hesitates in [false, true] {
                    let way = Way { slots, lookahead, hands, hesitates };
                    assert_eq!(train(life, way, &drawn), expected, "{life:?} {way:?}");
                }
            }
        }
    }
}

#[test]
fn more_rows_than_slots_are_an_error_that_says_so_and_the_end() {
    for hands in [Hands::Caller, Hands::Threads] {
        let way = Way { slots: 3, lookahead: 1, hands, hesitates: false };
        let mut model = Model::new(None, way);
        let keys: Vec<Key> = (0..FIELDS as u64 * 2).map(Key).collect();
        let ends = (1..=keys.len() as u32).collect();
        let bags = Bags { ends, keys, ..Bags::default() };
        model.feed(&(bags, vec![0.0, 1.0], Purpose::Train));
        let error = model.hierarchy.ready().unwrap_err();
        assert!(
            matches!(error, Error::MiniBatchTooLarge { rows: 6, slots: 3, examples: 2, .. }),
            "{error}"
        );
    }
}

#[test]
fn one_that_is_dropped_half_way_ends_its_threads() {
    let drawn = drawn(8);
    for fed in [0, 1, 3] {
        let way = Way { slots: 800, lookahead: 4, hands: Hands::Threads, hesitates: false };
        let mut model = Model::new(None, way);
        drawn.iter().take(fed).for_each(|one| model.feed(one));
        let unit = model.hierarchy.ready().unwrap();
        assert_eq!(unit.is_some(), fed > 0);
        drop(model);
    }
}
