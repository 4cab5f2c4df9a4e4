//! Consecutive parameter servers: each begins with the rows of the previous one, on the same ranks
//! and with the same tags.

use std::sync::Arc;

use stepwell_base::clock::SystemClock;
use stepwell_base::{Key, TableId};
use stepwell_fabric::{Fabric, Tag, threads};
use stepwell_geeps::{
    Applies, Error, Initial, Running, Settings, ShardRows, Staleness, TableSettings,
};

const RANKS: usize = 3;
const ROWS: u64 = 11;
const TABLE: TableId = TableId(0);
/// Clocks of each server.
const CLOCKS: u64 = 5;

fn keys() -> Vec<Key> {
    (0..ROWS).map(|number| Key(number * number)).collect()
}

/// Settings with rows that begin with these values, in the order of keys.
fn settings(applies: Applies, values: Vec<f32>) -> Settings {
    let table = TableSettings {
        name: "weights".to_owned(),
        row_floats: 2,
        keys: keys(),
        initial: Initial::Zeros,
        applies,
    };
    Settings { tables: vec![table], values: vec![values], ..Settings::default() }
}

/// Each worker adds one to every value in every clock; returns the rows of its shard.
fn train(settings: &Settings, end: &Fabric) -> Result<ShardRows, Error> {
    let worker = Running::start(settings, end.clone(), Arc::new(SystemClock::new()))?;
    for clock in 0..CLOCKS {
        let staleness =
            Staleness::Clocks(u64::from(settings.tables[0].applies == Applies::OnArrival));
        let mut read = worker.read(TABLE, &keys(), staleness)?.wait()?;
        let (age, first) = (read.data_age(), read.values()?[0]);
        assert!(first >= settings.values[0][0] + (age * RANKS as u64) as f32, "{first} at {age}");
        assert!(age <= clock + 1 && age + 1 >= clock, "{age} at clock {clock}");
        worker.post_read(read)?;
        let mut update = worker.pre_update(TABLE, &keys())?.wait()?;
        update.values()?.fill(1.0);
        worker.update(update)?;
        worker.table_clock(TABLE)?;
    }
    Ok(worker.finish()?.shard.remove(0))
}

#[test]
fn a_server_begins_with_given_values_and_leaves_its_tags_to_the_next() {
    for applies in [Applies::ByClock, Applies::OnArrival] {
        let ends = threads(RANKS);
        let mut values: Vec<f32> = (0..2 * ROWS).map(|lane| lane as f32 - 4.5).collect();
        for _ in 0..20 {
            let settings = settings(applies, values.clone());
            let shards: Vec<ShardRows> = std::thread::scope(|scope| {
                let settings = &settings;
                let train = |end| scope.spawn(move || train(settings, end).unwrap());
                let threads: Vec<_> = ends.iter().map(train).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            values.iter_mut().for_each(|value| *value += (CLOCKS * RANKS as u64) as f32);
            let mut rows: ShardRows = shards.concat();
            rows.sort_by_key(|(key, _)| *key);
            let left: Vec<f32> = rows.into_iter().flat_map(|(_, row)| row).collect();
            assert_eq!(left, values, "{applies:?}");
            for end in &ends {
                let left = (0..RANKS).flat_map(|from| (0..4).map(move |tag| (from, Tag(tag))));
                left.for_each(|(from, tag)| assert_eq!(end.receive(from, tag), Ok(None)));
            }
        }
    }
}

#[test]
fn whoever_is_through_may_leave_at_once() {
    let settings = settings(Applies::ByClock, vec![0.0; 2 * ROWS as usize]);
    for _ in 0..50 {
        std::thread::scope(|scope| {
            for end in threads(RANKS) {
                let settings = &settings;
                scope.spawn(move || {
                    train(settings, &end).unwrap();
                    end.end();
                });
            }
        });
    }
}

#[test]
fn values_that_do_not_fit_or_differ_between_ranks_are_refused() {
    let of = |values: Vec<Vec<f32>>| {
        let settings = Settings { values, ..settings(Applies::ByClock, Vec::new()) };
        settings.check().unwrap_err().to_string()
    };
    assert_eq!(of(vec![vec![0.0; 21]]), "'weights' has 22 floats, but 21 initial values");
    assert_eq!(of(vec![vec![0.0; 22]; 2]), "values are given for 2 tables, but there are 1");
    let why: Vec<String> = std::thread::scope(|scope| {
        let train = |end: Fabric| {
            scope.spawn(move || {
                let values = vec![end.rank() as f32; 2 * ROWS as usize];
                train(&settings(Applies::ByClock, values), &end).unwrap_err().to_string()
            })
        };
        let threads: Vec<_> = threads(RANKS).into_iter().map(train).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(why.iter().all(|why| why.contains("table 'weights' of rank")), "{why:?}");
}
