//! Machines on separate threads, and an application that waits: on the host, and on a device whose
//! streams are only awaited by events.

#![expect(clippy::unwrap_used, reason = "test helpers panic like the tests")]

use std::sync::Arc;
use std::time::Duration;

use stepwell_base::clock::SystemClock;
use stepwell_base::{Key, TableId};
use stepwell_device::emulated::{self, Machine, Rate};
use stepwell_device::{Arg, Device, Stream};
use stepwell_fabric::{Fabric, threads};
use stepwell_geeps::{
    Applies, Fetch, Finished, Geeps, Initial, LocalId, LocalSettings, Place, Result, Running, Save,
    Settings, Staleness, TableSettings,
};

use crate::support::oracle::{Rows, assert_same, trained};
use crate::support::worker::Worker;
use crate::support::{Model, Values};

fn start(settings: &Settings, end: Fabric) -> Running {
    Running::start(settings, end, Arc::new(SystemClock::new())).unwrap()
}

/// Runs `work` for all ranks on separate threads; returns the results.
fn on_threads<T: Send>(ranks: usize, work: impl Fn(usize, Fabric) -> T + Sync) -> Vec<T> {
    let ends = threads(ranks).into_iter().enumerate();
    std::thread::scope(|scope| {
        let work = &work;
        let spawn = |(rank, end)| scope.spawn(move || work(rank, end));
        let running: Vec<_> = ends.map(spawn).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn rows(finished: Vec<Finished>) -> Rows {
    let shards = finished.into_iter().map(|finished| finished.shard);
    let tables = shards.flat_map(|shard| shard.into_iter().enumerate());
    let rows = |(table, rows): (usize, Vec<(Key, Vec<f32>)>)| {
        rows.into_iter().map(move |(key, row)| ((table as u32, key), row))
    };
    tables.flat_map(rows).collect()
}

#[test]
fn threads_have_the_bits_of_the_oracle() {
    const CLOCKS: u64 = 12;
    let model = Model::new(&[64, 48, 64, 48], Applies::ByClock, Staleness::BSP, Values::Fractions);
    for ranks in [1, 2, 3] {
        let budget_bytes = 2 * model.peak_bytes() + model.data_bytes() / 3;
        let finished = on_threads(ranks, |rank, end| {
            let running = start(&Settings { budget_bytes, ..model.settings() }, end);
            let mut worker = Worker::new(&model, rank, CLOCKS);
            worker.gather(&running).unwrap();
            while !worker.is_over() {
                if !worker.poll(&running).unwrap() {
                    std::thread::yield_now();
                }
            }
            assert_eq!(worker.found, [""; 0]);
            running.finish().unwrap()
        });
        assert_same(&rows(finished), &trained(&model, ranks, CLOCKS), &format!("{ranks} ranks"));
    }
}

#[test]
fn threads_lose_no_update_and_wait_for_nobody_without_a_bound() {
    let (ranks, clocks) = (3, 200);
    let model = Model::new(&[4, 4], Applies::OnArrival, Staleness::Unbounded, Values::Counts);
    let finished = on_threads(ranks, |rank, end| {
        let running = start(&model.settings(), end);
        let mut worker = Worker::new(&model, rank, clocks);
        worker.gather(&running).unwrap();
        while !worker.is_over() {
            if !worker.poll(&running).unwrap() {
                std::thread::yield_now();
            }
        }
        running.finish().unwrap()
    });
    assert_same(&rows(finished), &trained(&model, ranks, clocks), "three ranks");
}

const FLOATS: usize = 64;
const LAYERS: u32 = 5;

fn settings(place: Place, budget_bytes: u64) -> Settings {
    let keys: Vec<Key> = (0..16).map(Key).collect();
    let table = |layer: u32| TableSettings {
        name: format!("layer {layer}"),
        row_floats: FLOATS,
        keys: keys.clone(),
        initial: Initial::Uniform { seed: 3, range: 1.0 },
        applies: Applies::ByClock,
    };
    let local = |layer: u32| LocalSettings {
        name: format!("sums {layer}"),
        row_floats: FLOATS,
        keys: keys.clone(),
    };
    Settings {
        tables: (0..LAYERS).map(table).collect(),
        locals: (0..LAYERS).map(local).collect(),
        place,
        budget_bytes,
        ..Settings::default()
    }
}

/// Adds `from` to `to` on a stream: the application's only kernel.
fn add(stream: &Stream, from: &stepwell_device::Buffer<f32>, to: &stepwell_device::Buffer<f32>) {
    let (rows, columns) = (16, FLOATS as u32);
    let args = vec![
        Arg::all(from),
        Arg::all(to),
        Arg::u32(rows),
        Arg::u32(columns),
        Arg::u32(columns),
        Arg::u32(columns),
        Arg::u32(1),
    ];
    stream.launch(stepwell_kernels::named("dense_copy"), from.len(), args).unwrap();
}

/// Sums of parameters are kept, and added to the parameters; nothing waits on the host.
fn iterate(geeps: &Geeps, stream: &Stream, keys: &[Key]) -> Result<()> {
    for layer in (0..LAYERS).chain((0..LAYERS).rev()) {
        let table = TableId(layer);
        let read = geeps.read(table, keys, Staleness::BSP)?;
        let sums = geeps.local_access(LocalId(layer), keys, Fetch::Fetch)?;
        let update = geeps.pre_update(table, keys)?;
        let (mut read, mut sums, mut update) = (read.wait()?, sums.wait()?, update.wait()?);
        if !read.is_virtual() {
            let params = read.on(stream)?;
            let kept = sums.on(stream)?;
            add(stream, params, kept);
            add(stream, kept, update.on(stream)?);
            [&mut read, &mut sums, &mut update]
                .into_iter()
                .try_for_each(|access| access.done_on(stream))?;
        }
        geeps.post_read(read)?;
        geeps.post_local_access(sums, Save::Save)?;
        geeps.update(update)?;
        geeps.table_clock(table)?;
    }
    Ok(())
}

/// The same computation with plain vectors.
fn iterated(ranks: usize, iterations: usize) -> Rows {
    let mut wanted = Rows::new();
    for layer in 0..LAYERS {
        for key in (0..16).map(Key) {
            let mut row = vec![0.0; FLOATS];
            Initial::Uniform { seed: 3, range: 1.0 }.fill(TableId(layer), key, &mut row);
            let mut kept = vec![0.0; FLOATS];
            for _ in 0..2 * iterations {
                kept.iter_mut().zip(&row).for_each(|(kept, value)| *kept += value);
                for _ in 0..ranks {
                    row.iter_mut().zip(&kept).for_each(|(value, kept)| *value += kept);
                }
            }
            wanted.insert((layer, key), row);
        }
    }
    wanted
}

/// Bytes for three buffers at the peak, twice, and for a part of all data.
fn budget(part: u64) -> u64 {
    let piece = Device::bytes_counted(4 * 16 * FLOATS as u64);
    6 * piece + part * piece * u64::from(LAYERS) + 10 * 256
}

fn on_devices(
    (ranks, iterations): (usize, usize),
    budget_bytes: u64,
    device: &(dyn Fn(usize) -> Device + Sync),
) -> Vec<Finished> {
    on_threads(ranks, |rank, end| {
        let device = device(rank);
        let running = start(&settings(Place::Device(device.clone()), budget_bytes), end);
        let stream = device.stream("application").unwrap();
        let keys: Vec<Key> = (0..16).map(Key).collect();
        running.begin_virtual().unwrap();
        iterate(&running, &stream, &keys).unwrap();
        running.end_virtual().unwrap();
        (0..iterations).for_each(|_| iterate(&running, &stream, &keys).unwrap());
        running.finish().unwrap()
    })
}

#[test]
fn streams_that_only_events_put_in_order_have_the_bits_of_the_oracle() {
    for ranks in [1, 2] {
        for part in 0..3 {
            let emulated = |rank| {
                let machine = Machine::new(emulated::Settings {
                    memory_bytes: budget(part),
                    seed: rank as u64,
                    delay_max: Duration::from_micros(300),
                    rate: Some(Rate { bytes_per_second: 1e9, latency: Duration::from_micros(20) }),
                    ..emulated::Settings::default()
                });
                machine.devices()[0].clone()
            };
            let finished = on_devices((ranks, 6), budget(part), &emulated);
            let statistics = finished[0].statistics;
            assert_eq!(statistics.handed_out > 0, part > 0, "{statistics:?}");
            let what = format!("{ranks} ranks, part {part}");
            assert_same(&rows(finished), &iterated(ranks, 6), &what);
        }
    }
}

#[cfg(feature = "cuda")]
#[test]
fn devices_of_nvidia_have_the_bits_of_the_oracle() {
    use stepwell_device::cuda::{self, Settings};

    let settings = Settings { memory_bytes: Some(1 << 30), ..Settings::default() };
    for check_order in [false, true] {
        match cuda::find(&Settings { check_order, ..settings.clone() }) {
            Ok(devices) => {
                for (ranks, part) in [(1, 0), (2, 0), (2, 1), (2, 2)] {
                    let device = |rank: usize| devices[rank % devices.len()].clone();
                    let finished = on_devices((ranks, 6), budget(part), &device);
                    assert_same(&rows(finished), &iterated(ranks, 6), "on devices of nvidia");
                }
            }
            Err(lacks) => stepwell_skip::skipped(lacks),
        }
    }
}
