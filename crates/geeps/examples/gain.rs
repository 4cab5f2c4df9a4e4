//! Measures the gains from indexes made once, rows moved in one pass, copies ahead of the
//! application, and tables sent while layers compute, each compared with running without it.
//!
//! ```text
//! cargo run --release -p stepwell-geeps --example gain
//! ```

#![expect(clippy::print_stdout, reason = "the example prints its figures")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::{Key, TableId};
use stepwell_device::emulated::{self, Machine, Rate};
use stepwell_device::{Device, Stream};
use stepwell_fabric::{Fabric, Network, threads};
use stepwell_geeps::{
    Access, Applies, Fetch, Geeps, Initial, LocalId, LocalSettings, Place, Result, Running, Save,
    Settings, Staleness, TableSettings,
};

const TABLE: TableId = TableId(0);

fn keys(count: u64, by: u64) -> Vec<Key> {
    // Scattered like hashes.
    (0..count).map(|key| Key((key + 1).wrapping_mul(by))).collect()
}

fn start(settings: &Settings) -> Result<Running> {
    Running::start(settings, threads(1).remove(0), Arc::new(SystemClock::new()))
}

/// Seconds of an iteration that reads and updates `rows` rows.
fn batches(rows: u64, row_floats: usize, batched: bool) -> Result<f64> {
    const ITERATIONS: u32 = 20;
    let by = 0x9E37_79B9_7F4A_7C15;
    let table = TableSettings {
        name: "rows".to_owned(),
        row_floats,
        keys: keys(rows, by),
        initial: Initial::Zeros,
        applies: Applies::ByClock,
    };
    let settings =
        Settings { tables: vec![table], batched, indexed: batched, ..Settings::default() };
    let running = start(&settings)?;
    // Every other row, so that nothing is copied whole.
    let some: Vec<Key> = keys(rows, by).into_iter().rev().step_by(2).collect();
    let iterate = |geeps: &Geeps| -> Result<()> {
        let read = geeps.read(TABLE, &some, Staleness::BSP)?.wait()?;
        geeps.post_read(read)?;
        let update = geeps.pre_update(TABLE, &some)?.wait()?;
        geeps.update(update)?;
        geeps.table_clock(TABLE)
    };
    running.begin_virtual()?;
    iterate(&running)?;
    running.end_virtual()?;
    iterate(&running)?;
    let clock = SystemClock::new();
    (0..ITERATIONS).try_for_each(|_| iterate(&running))?;
    let seconds = clock.seconds() / f64::from(ITERATIONS);
    running.finish()?;
    Ok(seconds)
}

const LAYERS: u32 = 6;
const ROWS: u64 = 64;
const ROW_FLOATS: usize = 4096;
const COMPUTES: Duration = Duration::from_millis(2);

/// Computes with a buffer for a while, once it is there.
fn compute(access: &mut Access, stream: &Stream) -> Result<()> {
    if !access.is_virtual() {
        access.on(stream)?;
        stream.finish()?;
        std::thread::sleep(COMPUTES);
        access.done_on(stream)?;
    }
    Ok(())
}

fn layers(geeps: &Geeps, stream: &Stream) -> Result<()> {
    let keys = keys(ROWS, 1);
    for layer in (0..LAYERS).chain((0..LAYERS).rev()) {
        let mut local = geeps.local_access(LocalId(layer), &keys, Fetch::Fetch)?.wait()?;
        compute(&mut local, stream)?;
        geeps.post_local_access(local, Save::Save)?;
    }
    Ok(())
}

/// Seconds of an iteration through layers of 1 MiB each on a device with `budget_bytes` of memory.
fn layers_of(budget_bytes: u64, prefetch: bool) -> Result<f64> {
    const ITERATIONS: u32 = 5;
    let rate = Rate { bytes_per_second: 1e9, latency: Duration::from_micros(10) };
    let memory_bytes = budget_bytes;
    let settings = emulated::Settings { memory_bytes, rate: Some(rate), ..Default::default() };
    let machine = Machine::new(settings);
    let device: &Device = &machine.devices()[0];
    let local = |layer: u32| LocalSettings {
        name: format!("layer {layer}"),
        row_floats: ROW_FLOATS,
        keys: keys(ROWS, 1),
    };
    let settings = Settings {
        locals: (0..LAYERS).map(local).collect(),
        place: Place::Device(device.clone()),
        budget_bytes,
        prefetch,
        ..Settings::default()
    };
    let running = start(&settings)?;
    let stream = device.stream("application")?;
    running.begin_virtual()?;
    layers(&running, &stream)?;
    running.end_virtual()?;
    layers(&running, &stream)?;
    let clock = SystemClock::new();
    (0..ITERATIONS).try_for_each(|_| layers(&running, &stream))?;
    let seconds = clock.seconds() / f64::from(ITERATIONS);
    running.finish()?;
    Ok(seconds)
}

/// When tables are clocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clocks {
    /// Each as soon as its layer is done.
    ByLayer,
    /// All after the last layer, as if they were one.
    AtOnce,
}

/// Seconds of an iteration of two workers, whose tables are sent over a slow network.
fn tables(clocks: Clocks) -> std::result::Result<f64, String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let network: Network = "1Gbit,50us".parse()?;
    let slow = |end| network.slow_down(end, &clock).map_err(|error| error.to_string());
    let ends: Vec<Fabric> =
        threads(2).into_iter().map(slow).collect::<std::result::Result<_, _>>()?;
    std::thread::scope(|scope| {
        let work = |end| scope.spawn(move || worker(end, clocks));
        let workers: Vec<_> = ends.into_iter().map(work).collect();
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(seconds) => seconds.map_err(|error| error.to_string()),
            Err(_) => Err("a worker panicked".to_owned()),
        });
        joined.last().unwrap_or(Ok(0.0))
    })
}

fn worker(end: Fabric, clocks: Clocks) -> Result<f64> {
    const ITERATIONS: u32 = 10;
    let table = |layer: u32| TableSettings {
        name: format!("layer {layer}"),
        row_floats: 1024,
        keys: keys(ROWS, 1),
        initial: Initial::Zeros,
        applies: Applies::ByClock,
    };
    let settings = Settings { tables: (0..LAYERS).map(table).collect(), ..Settings::default() };
    let running = Running::start(&settings, end, Arc::new(SystemClock::new()))?;
    let keys = keys(ROWS, 1);
    let backward = |layer| -> Result<()> {
        let update = running.pre_update(layer, &keys)?.wait()?;
        running.update(update)?;
        running.table_clock(layer)
    };
    let iteration = |is_virtual: bool| -> Result<()> {
        for layer in (0..LAYERS).map(TableId) {
            pass(&running, layer, (&keys, is_virtual))?;
        }
        for layer in (0..LAYERS).rev().map(TableId) {
            pass(&running, layer, (&keys, is_virtual))?;
            if clocks == Clocks::ByLayer {
                backward(layer)?;
            }
        }
        if clocks == Clocks::AtOnce {
            (0..LAYERS).rev().map(TableId).try_for_each(backward)?;
        }
        Ok(())
    };
    running.begin_virtual()?;
    iteration(true)?;
    running.end_virtual()?;
    iteration(false)?;
    let clock = SystemClock::new();
    (0..ITERATIONS).try_for_each(|_| iteration(false))?;
    let seconds = clock.seconds() / f64::from(ITERATIONS);
    running.finish()?;
    Ok(seconds)
}

/// A pass through a layer, forward or backward.
fn pass(geeps: &Geeps, layer: TableId, (keys, is_virtual): (&[Key], bool)) -> Result<()> {
    let read = geeps.read(layer, keys, Staleness::BSP)?.wait()?;
    if !is_virtual {
        std::thread::sleep(COMPUTES);
    }
    geeps.post_read(read)
}

fn run() -> std::result::Result<(), String> {
    let milliseconds =
        |seconds: Result<f64>| seconds.map(|seconds| 1e3 * seconds).map_err(|e| e.to_string());
    println!("indexes and batches, on the host: milliseconds of an iteration");
    for (rows, row_floats) in [(100_000, 4), (100_000, 32), (1000, 4096)] {
        let [with, without] = [true, false].map(|batched| batches(rows, row_floats, batched));
        let (with, without) = (milliseconds(with)?, milliseconds(without)?);
        println!("  {rows:>7} rows of {row_floats:>4} floats: {with:.2}, one by one {without:.2}");
    }
    let computes = 1e3 * 2.0 * f64::from(LAYERS) * COMPUTES.as_secs_f64();
    println!("copies ahead, at 1 GB/s: milliseconds of an iteration that computes for {computes}");
    for layers in [2, 4, u64::from(LAYERS) + 2] {
        let [with, without] = [true, false].map(|prefetch| layers_of(layers << 20, prefetch));
        let (with, without) = (milliseconds(with)?, milliseconds(without)?);
        println!("  memory for {layers} of {LAYERS} layers: {with:.1}, without {without:.1}");
    }
    println!(
        "tables of their own, at 1 Gbit/s: milliseconds of an iteration, computing {computes}"
    );
    let [by_layer, at_once] = [Clocks::ByLayer, Clocks::AtOnce].map(tables);
    let (by_layer, at_once) = (1e3 * by_layer?, 1e3 * at_once?);
    println!("  two workers, {LAYERS} tables: {by_layer:.1}, all clocked at once {at_once:.1}");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
