//! Tables that must stay in memory whole, one of which has no room for all of its rows.

#![expect(clippy::unwrap_used, reason = "a test panics on unexpected results")]

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::clock::ManualClock;
use stepwell_disk::{Disk, MemDisk};
use stepwell_engine::{
    Cargo, Columns, EmbeddingBags, Error, Field, Gradients, Group, GroupTables, Grouper, Hands,
    Hierarchy, MiniBatch, NoLaps, Part, Planner, PrefetchDepth, Purpose, Ready, Retired, Shape,
    Staging, TableSpec,
};
use stepwell_mem::PolicyKind;
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_ssd::{Compaction, Store, StoreOptions};

const NAMES: [&str; 3] = ["items", "pages", "users"];

/// Size of a table.
#[derive(Clone, Copy)]
struct Table {
    slots: usize,
    whole: bool,
    keys: u64,
}

/// A mini-batch of one example.
#[derive(Debug)]
struct One;

impl Cargo for One {
    fn examples(&self) -> usize {
        1
    }

    fn clear(&mut self) {}
}

fn table(name: &str) -> TableSpec {
    TableSpec::new(0, name, 2, RowOptimizer::new(Rule::sgd(0.1)).unwrap())
}

/// Opens the tables, the stages that move their rows, and the embeddings that train them.
fn open(tables: [Table; 3], lookahead: usize) -> (Hierarchy<One>, EmbeddingBags) {
    let mut specs = NAMES.map(table);
    let mut groups = GroupTables::of(&mut specs, |_| true).unwrap();
    groups.iter_mut().zip(tables).for_each(|(group, table)| group.whole = table.whole);
    let made = groups.into_iter().zip(tables).map(|(group, Table { slots, .. })| {
        let options = StoreOptions { compaction: Compaction::Inline, ..StoreOptions::new(0, 8) };
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let store = Arc::new(Store::create(disk, options).unwrap());
        let group = Group::of(&specs, group, slots, store, Staging::new(2, 4, 3)).unwrap();
        let planner = Planner::new(slots, lookahead + 2, PolicyKind::default());
        let planner = if group.is_whole() { planner.whole() } else { planner };
        (Arc::new(group), planner)
    });
    let (groups, planners): (Vec<_>, Vec<_>) = made.unzip();
    let prefetch = PrefetchDepth { lookahead, horizon: lookahead };
    let clock = Arc::new(ManualClock::default());
    let hierarchy = Hierarchy::new(groups, planners, prefetch, clock, Hands::Caller).unwrap();
    let of_fields = [0, 2, 4].map(|column| vec![Field::sum(column)]).to_vec();
    let columns = Columns { of_fields, count: 6 };
    let shape = Shape { blocks: 1, ..Shape::default() };
    (hierarchy, EmbeddingBags::new(specs.to_vec(), columns, shape))
}

/// The error that ends the training of mini-batches with one key of each table, the next one each
/// time.
fn end(tables: [Table; 3], lookahead: usize) -> Error {
    let (mut hierarchy, mut embeddings) = open(tables, lookahead);
    let (mut grouper, mut number) = (Grouper::default(), 0);
    loop {
        while hierarchy.has_room() {
            let parts = tables.map(|Table { keys, .. }| {
                let mut part = Part::default();
                part.request.ends.push(1);
                grouper.group_into(&[Key(number % keys)], 0, &mut part.request);
                part
            });
            number += 1;
            let (purpose, parts) = (Purpose::Train, parts.into());
            if let Err(error) = hierarchy.feed(MiniBatch { number: 0, purpose, parts, cargo: One })
            {
                return error;
            }
        }
        let mut unit = match hierarchy.ready() {
            Ok(Some(Ready::Unit(unit))) => unit,
            Ok(_) => unreachable!("mini-batches alone are fed"),
            Err(error) => return error,
        };
        unit.trained = true;
        for mini in &mut unit.minis {
            let (number, parts) = (mini.number, &mut mini.parts);
            let mut rows = embeddings.hold(number, parts, hierarchy.groups(), true).unwrap();
            let gradients = Gradients { d_x: &[0.0; 6], d_first_order: &[0.0], labels: &[0.0] };
            embeddings.apply(&mut rows, gradients, &NoLaps).unwrap();
        }
        hierarchy.retire(Retired::Unit(unit));
    }
}

#[test]
fn the_table_that_has_no_room_is_named_with_the_rows_that_it_wants() {
    for lookahead in [0, 3] {
        for (tables, name) in [
            ([(5, true, 5), (4, true, 9), (4, false, 9)], "pages"),
            ([(4, false, 9), (9, true, 9), (6, true, 9)], "users"),
            ([(5, true, 9), (9, true, 9), (4, false, 2)], "items"),
        ] {
            let tables = tables.map(|(slots, whole, keys)| Table { slots, whole, keys });
            let error = end(tables, lookahead);
            let Error::NotWhole { table, slots, rows } = &error else { panic!("{error}") };
            assert_eq!((table.as_str(), *rows), (name, slots + 1), "{error}");
        }
    }
}
