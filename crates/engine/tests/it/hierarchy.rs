//! The engine without a pipeline: mini-batches come back in order, and neither slots, lookahead,
//! nor what polls the stages affects any bit.

#![expect(clippy::unwrap_used, reason = "a test panics on unexpected results")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use stepwell_base::clock::ManualClock;
use stepwell_base::initial::Initial;
use stepwell_base::owner::RankOf;
use stepwell_base::random::Stream;
use stepwell_base::rules::{Rule, Rules};
use stepwell_base::{ByteCount, Key};
use stepwell_device::emulated::{Machine, Settings, Time};
use stepwell_disk::{Disk, MemDisk};
use stepwell_engine::{
    Admission, Bags, Cargo, Columns, DenseView, DeviceOptions, DevicePlan, DeviceShare, DeviceTier,
    EmbeddingBags, Error, Field, Gradients, Group, GroupTables, Grouper, Hands, Hierarchy, Life,
    Load, Lookup, MiniBatch, ModelDigest, NoLaps, Part, Planner, Pooled, PrefetchDepth, Purpose,
    Ready, Retired, Shape, Staging, TableLoad, TableSpec, TierOptions, TierPlan, WorkingRows,
};
use stepwell_mem::PolicyKind;
use stepwell_optim::{RowOptimizer, Rule as Optimizer};
use stepwell_ssd::{Compaction, Store, StoreOptions};

const FIELDS: usize = 3;
const DIM: usize = 4;
const COLUMNS: usize = FIELDS * DIM;
const EXAMPLES: usize = 20;
/// Maximum number of distinct keys of a mini-batch.
const ROWS_MOST: usize = EXAMPLES * FIELDS * 5;

/// Labels of a mini-batch.
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
    let optimizer = RowOptimizer::new(Optimizer::adagrad(0.1)).unwrap();
    let spec = TableSpec::new(0, "items", DIM, optimizer);
    TableSpec { wide: 1, initial: Initial::Uniform { range: 0.1 }, seed: 3, life, ..spec }
}

fn shape() -> Shape {
    Shape { blocks: 4, staleness: 1, sketch_bytes: vec![1 << 10], ..Shape::default() }
}

/// How a model is trained, which must not affect it.
#[derive(Clone, Copy, Debug)]
struct Way {
    slots: usize,
    lookahead: usize,
    hands: Hands,
    /// Whether every fourth step is begun and abandoned first.
    hesitates: bool,
    /// Devices for the model's rows: their number, the maximum slots of each, how their work is
    /// run, and how rows are found there.
    devices: Option<(usize, usize, Time, Lookup)>,
}

/// Devices above a slab of `slots` slots.
fn tier(
    table: &TableSpec,
    slots: usize,
    (devices, most, time, lookup): (usize, usize, Time, Lookup),
    rules: Rules,
) -> Arc<DeviceTier> {
    let delay_max = Duration::from_micros(if time == Time::Threads { 50 } else { 0 });
    let seed = (devices * 1000 + slots) as u64;
    let settings = Settings { devices, time, seed, delay_max, ..Settings::default() };
    let machine = Machine::new(settings);
    let options = TierOptions::default();
    let dram = ByteCount(options.slab_bytes(slots as u64, table.row_lanes()));
    let ids_max = (FIELDS * 5) as u64;
    let load = TableLoad { expected: 1, ids_max, ..TableLoad::default() };
    let options = TierOptions { dram, ..options };
    let groups = [GroupTables::alone(0)];
    let tables = std::slice::from_ref(table);
    let tiers = TierPlan::new(tables, &groups, &[load], options).unwrap();
    let load = Load { mini_batch: EXAMPLES as u64, ..Load::default() };
    let plan = |hbm| {
        let hbm = ByteCount(hbm);
        let share = DeviceShare { hbm, devices, lookup, ..DeviceShare::default() };
        DevicePlan::new(&tiers, tables, &load, share).unwrap()
    };
    let moving = plan(1 << 30).moving_bytes;
    let (slot, beside) = match lookup {
        Lookup::Slots => (0, 16),
        Lookup::Table => (24, 40 + 512),
    };
    let plan = plan(moving + beside + (most * (table.row_bytes() + slot)) as u64);
    assert_eq!(plan.slots, [most.min(slots / 2 / devices)]);
    let options = DeviceOptions { devices: machine.devices().to_vec(), place: RankOf::ALONE };
    DeviceTier::new(&options, plan, &tiers, rules).unwrap()
}

/// Everything in memory, step by step.
const IN_MEMORY: Way =
    Way { slots: 8000, lookahead: 0, hands: Hands::Caller, hesitates: false, devices: None };

struct Model {
    hierarchy: Hierarchy<Labels>,
    embeddings: EmbeddingBags,
    grouper: Grouper,
    way: Way,
    /// The bits of everything that was read.
    seen: Vec<u32>,
}

impl Model {
    fn new(life: Option<Life>, way: Way) -> Self {
        Self::with_rules(life, way, Rules::default())
    }

    fn with_rules(life: Option<Life>, way: Way, rules: Rules) -> Self {
        let table = table(life);
        let options = StoreOptions {
            compaction: Compaction::Inline,
            segment_bytes: 64 << 10,
            ..StoreOptions::new(0, table.row_bytes())
        };
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let store = Arc::new(Store::create(disk, options).unwrap());
        let staging = Staging::new(table.row_lanes(), 16, 3);
        let mut group = Group::new(table.clone(), way.slots, store, staging).unwrap();
        if let Some(devices) = way.devices {
            group = group.below(&tier(&table, way.slots, devices, rules)).unwrap();
        }
        let planner = Planner::new(way.slots, way.lookahead + 2, PolicyKind::default());
        let prefetch = PrefetchDepth { lookahead: way.lookahead, horizon: way.lookahead + 1 };
        let clock = Arc::new(ManualClock::default());
        let groups = vec![Arc::new(group)];
        let columns =
            Columns { of_fields: vec![[0, DIM, 2 * DIM].map(Field::sum).to_vec()], count: COLUMNS };
        Self {
            hierarchy: Hierarchy::new(groups, vec![planner], prefetch, clock, way.hands).unwrap(),
            embeddings: EmbeddingBags::new(vec![table], columns, shape()),
            grouper: Grouper::default(),
            way,
            seen: Vec::new(),
        }
    }

    fn feed(&mut self, drawn: &Drawn) {
        self.try_feed(drawn).unwrap();
    }

    fn try_feed(&mut self, (bags, labels, purpose): &Drawn) -> Result<(), Error> {
        let mut mini = self.hierarchy.spares().take().unwrap_or_else(|| MiniBatch {
            number: 0,
            purpose: *purpose,
            parts: vec![Part::default()],
            cargo: Labels::default(),
        });
        mini.purpose = *purpose;
        mini.cargo.0.extend_from_slice(labels);
        mini.parts[0].request.ends.extend_from_slice(&bags.ends);
        self.grouper.group_into(&bags.keys, 0, &mut mini.parts[0].request);
        self.hierarchy.feed(mini)
    }

    /// Trains the next item, or checks a pause.
    fn take(&mut self) -> Result<(), Error> {
        match self.hierarchy.ready()?.unwrap() {
            Ready::Unit(mut unit) => {
                for mini in &mut unit.minis {
                    unit.trained |= self.run(mini)?;
                }
                self.hierarchy.retire(Retired::Unit(unit));
            }
            Ready::Checkpoint(pause) => {
                self.hierarchy.settle()?;
                self.hierarchy.retire(Retired::Checkpoint(pause));
            }
            Ready::Mark(()) => unreachable!("none was fed"),
        }
        Ok(())
    }

    /// Runs a mini-batch; returns whether it was trained.
    fn run(&mut self, mini: &mut MiniBatch<Labels>) -> Result<bool, Error> {
        let trains = mini.purpose == Purpose::Train;
        if self.way.hesitates && mini.number.is_multiple_of(4) {
            let groups = self.hierarchy.groups();
            drop(self.embeddings.hold(mini.number, &mut mini.parts, groups, trains)?);
        }
        let MiniBatch { number, parts, cargo, .. } = mini;
        let groups = self.hierarchy.groups();
        let mut rows = self.embeddings.hold(*number, parts, groups, trains)?;
        let (x, first_order) = pooled(&self.embeddings, &rows, cargo.0.len());
        self.seen.extend(x.iter().chain(&first_order).map(|value| value.to_bits()));
        if trains {
            // Gradient of the squared error between the label and the sum of all columns.
            let sums = x.chunks_exact(COLUMNS).zip(&first_order).zip(&cargo.0);
            let of_example: Vec<f32> =
                sums.map(|((x, first), label)| x.iter().sum::<f32>() + first - label).collect();
            let d_x: Vec<f32> =
                of_example.iter().flat_map(|error| std::iter::repeat_n(*error, COLUMNS)).collect();
            let gradients = Gradients { d_x: &d_x, d_first_order: &of_example, labels: &cargo.0 };
            self.embeddings.apply(&mut rows, gradients, &NoLaps)?;
        }
        Ok(trains)
    }

    fn end(self) -> Result<(String, Vec<u32>), Error> {
        let groups = self.hierarchy.groups().to_vec();
        let planners = self.hierarchy.finish()?;
        let mut digest = ModelDigest::default();
        for (group, planner) in groups.iter().zip(&planners) {
            group.digest(planner.cache(), &mut digest, &mut || Ok(()))?;
        }
        Ok((digest.finish(&DenseView::default()), self.seen))
    }
}

fn pooled(
    embeddings: &EmbeddingBags,
    rows: &WorkingRows<'_>,
    examples: usize,
) -> (Vec<f32>, Vec<f32>) {
    let (mut x, mut first_order) = (vec![f32::NAN; examples * COLUMNS], vec![f32::NAN; examples]);
    // In two parts, as two threads would.
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

/// Mini-batches with bags of zero to five ids, some of them frequent.
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
    try_train(Model::new(life, way), drawn).unwrap()
}

fn try_train(mut model: Model, drawn: &[Drawn]) -> Result<(String, Vec<u32>), Error> {
    let mut waiting: VecDeque<&Drawn> = drawn.iter().collect();
    let mut fed = 0;
    while model.hierarchy.fed() > 0 || !waiting.is_empty() {
        while model.hierarchy.has_room() && !waiting.is_empty() {
            fed += 1;
            if fed % 40 == 0 {
                model.hierarchy.pause()?;
                continue;
            }
            model.try_feed(waiting.pop_front().unwrap())?;
        }
        model.take()?;
    }
    assert!(model.hierarchy.ready()?.is_none(), "nothing is left");
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
        let expected = train(life, IN_MEMORY, &drawn);
        assert!(expected.1.iter().all(|bits| f32::from_bits(*bits).is_finite()));
        for hands in [Hands::Caller, Hands::Threads] {
            for (slots, lookahead) in [(ROWS_MOST, 0), (ROWS_MOST, 5), (2 * ROWS_MOST, 2)] {
                for hesitates in [false, true] {
                    let way = Way { slots, lookahead, hands, hesitates, devices: None };
                    assert_eq!(train(life, way, &drawn), expected, "{life:?} {way:?}");
                }
            }
        }
    }
}

#[test]
fn devices_do_not_show() {
    let drawn = drawn(160);
    let lives = [None, Some(Life { admission: Admission::After(2), expire_after: 9 })];
    for life in lives {
        let expected = train(life, IN_MEMORY, &drawn);
        for (devices, hands) in [(1, Hands::Caller), (2, Hands::Caller), (4, Hands::Threads)] {
            for (slots, lookahead) in [(2 * ROWS_MOST, 0), (2 * ROWS_MOST, 5), (1500, 3)] {
                let time = if hands == Hands::Caller { Time::Stepped } else { Time::Threads };
                for most in [2 * ROWS_MOST / devices, 30] {
                    for lookup in Lookup::ALL {
                        let devices = Some((devices, most, time, lookup));
                        let hesitates = lookahead == 5;
                        let way = Way { slots, lookahead, hands, hesitates, devices };
                        assert_eq!(train(life, way, &drawn), expected, "{life:?} {way:?}");
                    }
                }
            }
        }
    }
}

/// Whether switching `rule` off is detected: by an access without an order, a broken invariant, or
/// wrong rows.
fn is_missed(rule: Rule, lookup: Lookup, life: Option<Life>, drawn: &[Drawn]) -> bool {
    let expected = train(life, IN_MEMORY, drawn);
    let ways = [(1, 0, 2 * ROWS_MOST), (1, 5, 2 * ROWS_MOST), (1, 3, 1500), (2, 3, 1500)];
    ways.into_iter().any(|(devices, lookahead, slots)| {
        let devices = Some((devices, 2 * ROWS_MOST / devices, Time::Stepped, lookup));
        let hands = Hands::Caller;
        let hesitates = lookahead == 5;
        let way = Way { slots, lookahead, hands, hesitates, devices };
        let run = || try_train(Model::with_rules(life, way, Rules::without(rule)), drawn);
        match std::panic::catch_unwind(run) {
            Ok(Ok(model)) => model != expected,
            Ok(Err(_)) | Err(_) => true,
        }
    })
}

#[test]
fn every_rule_of_devices_is_missed_where_it_does_not_hold() {
    let drawn = drawn(160);
    let refusing = Some(Life { admission: Admission::After(2), expire_after: 9 });
    for rule in [
        Rule::PinOnDevice,
        Rule::PinBelow,
        Rule::StepBeforeLower,
        Rule::WaitForLifted,
        Rule::WaitForLowered,
    ] {
        for lookup in Lookup::ALL {
            assert!(is_missed(rule, lookup, None, &drawn), "{rule:?} {lookup:?}");
        }
    }
    for life in [None, refusing] {
        for lookup in Lookup::ALL {
            assert!(!is_missed(Rule::TakeBack, lookup, life, &drawn), "nothing is lent here");
        }
    }
}

#[test]
fn more_rows_than_slots_are_an_error_that_says_so_and_the_end() {
    for hands in [Hands::Caller, Hands::Threads] {
        let way = Way { slots: 3, lookahead: 1, hands, hesitates: false, devices: None };
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
        let way = Way { slots: 800, lookahead: 4, hands: Hands::Threads, ..IN_MEMORY };
        let mut model = Model::new(None, way);
        drawn.iter().take(fed).for_each(|one| model.feed(one));
        let unit = model.hierarchy.ready().unwrap();
        assert_eq!(unit.is_some(), fed > 0);
        drop(model);
    }
}
