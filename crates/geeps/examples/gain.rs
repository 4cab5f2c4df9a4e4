//! What indexes made once, rows moved in one pass and copies ahead of the application are worth,
//! each beside the same without it.
//!
//! ```text
//! cargo run --release -p stepwell-geeps --example gain
//! ```

#![expect(clippy::print_stdout, reason = "its figures are what it is for")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use stepwell_base::clock::{Clock, SystemClock};
use stepwell_base::{Key, TableId};
use stepwell_device::emulated::{self, Machine, Rate};
use stepwell_device::{Device, Stream};
use stepwell_fabric::threads;
use stepwell_geeps::{
    Access, Applies, Fetch, Geeps, Initial, LocalId, LocalSettings, Place, Result, Running, Save,
    Settings, Staleness, TableSettings,
};

const TABLE: TableId = TableId(0);

fn keys(count: u64, by: u64) -> Vec<Key> {
    // Scattered, as hashes are.
    (0..count).map(|key| Key((key + 1).wrapping_mul(by))).collect()
}

fn start(settings: &Settings) -> Result<Running> {
    Running::start(settings, threads(1).remove(0), Arc::new(SystemClock::new()))
}

/// Seconds of an iteration that reads and updates so many rows.
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
    let settings = Settings { tables: vec![table], batched, ..Settings::default() };
    let running = start(&settings)?;
    // Every other row, so that no piece is copied whole.
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

/// Computes with a buffer: once it is there, for a while.
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

/// Seconds of an iteration through layers of 1 MiB each on a device that has so many of them.
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

fn run() -> Result<()> {
    println!("indexes and batches, on the host: milliseconds of an iteration");
    for (rows, row_floats) in [(100_000, 4), (100_000, 32), (1000, 4096)] {
        let [with, without] = [true, false].map(|batched| batches(rows, row_floats, batched));
        let (with, without) = (1e3 * with?, 1e3 * without?);
        println!("  {rows:>7} rows of {row_floats:>4} floats: {with:.2}, one by one {without:.2}");
    }
    let computes = 1e3 * 2.0 * f64::from(LAYERS) * COMPUTES.as_secs_f64();
    println!("copies ahead, at 1 GB/s: milliseconds of an iteration that computes for {computes}");
    for layers in [2, 4, u64::from(LAYERS) + 2] {
        let [with, without] = [true, false].map(|prefetch| layers_of(layers << 20, prefetch));
        let (with, without) = (1e3 * with?, 1e3 * without?);
        println!("  memory for {layers} of {LAYERS} layers: {with:.1}, without {without:.1}");
    }
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
