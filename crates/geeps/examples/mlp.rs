//! A network of two layers that several workers train together through a parameter server, each on
//! its own examples, with the loop of Cui et al., GeePS (2016), algorithm 1.
//!
//! ```text
//! cargo run --release -p stepwell-geeps --example mlp -- WORKERS BUDGET
//! ```
//!
//! The example prints the loss, the data pinned in a budget of `BUDGET` bytes (56 KiB by default),
//! and the bytes copied.

#![expect(clippy::print_stdout, reason = "the example prints its figures")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use stepwell_base::clock::SystemClock;
use stepwell_base::random::Stream;
use stepwell_base::{ByteCount, Key, TableId};
use stepwell_fabric::{Fabric, threads};
use stepwell_geeps::{
    Applies, Fetch, Geeps, Initial, LocalId, LocalSettings, Result, Running, Save, Settings,
    Staleness, TableSettings,
};

/// Inputs, hidden units, output.
const WIDTHS: [usize; 3] = [20, 64, 1];
const LAYERS: usize = WIDTHS.len() - 1;
const EXAMPLES: usize = 32;
const ITERATIONS: usize = 400;
const RATE: f32 = 0.2;

/// A mini-batch of one worker. // (examples, inputs), (examples)
struct Batch {
    inputs: Vec<f32>,
    labels: Vec<f32>,
}

fn batch(rank: usize, number: usize) -> Batch {
    let mut stream = Stream::named((rank * ITERATIONS + number) as u64, b"examples");
    let inputs: Vec<f32> = (0..EXAMPLES * WIDTHS[0]).map(|_| stream.next_symmetric(1.0)).collect();
    let label = |x: &[f32]| f32::from(u8::from(x[0] * x[1] + 0.5 * x[2] > 0.0));
    let labels = inputs.chunks_exact(WIDTHS[0]).map(label).collect();
    Batch { inputs, labels }
}

fn keys(count: usize) -> Vec<Key> {
    (0..count as u64).map(Key).collect()
}

/// Input of layer number `layer`, which is the output of the previous one.
fn values_of(layer: usize) -> LocalId {
    LocalId(layer as u32)
}

/// Gradients of these values.
fn gradients_of(layer: usize) -> LocalId {
    LocalId((WIDTHS.len() + layer) as u32)
}

fn settings(budget_bytes: u64) -> Settings {
    // A row for each unit: its weights and its bias.
    let table = |layer: usize| TableSettings {
        name: format!("layer {layer}"),
        row_floats: WIDTHS[layer] + 1,
        keys: keys(WIDTHS[layer + 1]),
        initial: Initial::Uniform { seed: 1, range: (3.0 / WIDTHS[layer] as f32).sqrt() },
        applies: Applies::ByClock,
    };
    let local = |what: &str, layer: usize| LocalSettings {
        name: format!("{what} {layer}"),
        row_floats: WIDTHS[layer],
        keys: keys(EXAMPLES),
    };
    let values = (0..WIDTHS.len()).map(|layer| local("values", layer));
    let gradients = (0..WIDTHS.len()).map(|layer| local("gradients", layer));
    Settings {
        tables: (0..LAYERS).map(table).collect(),
        locals: values.chain(gradients).collect(),
        budget_bytes,
        ..Settings::default()
    }
}

/// Trains on a mini-batch, or without one, runs a virtual iteration. Returns the sum of losses.
fn train(geeps: &Geeps, batch: Option<&Batch>) -> Result<f32> {
    let examples = keys(EXAMPLES);
    let local = |id, fetch| geeps.local_access(id, &examples, fetch)?.wait();
    let params = |layer: usize| {
        let keys = keys(WIDTHS[layer + 1]);
        geeps.read(TableId(layer as u32), &keys, Staleness::BSP)?.wait()
    };
    let mut inputs = local(values_of(0), Fetch::NoFetch)?;
    if let Some(batch) = batch {
        inputs.values()?.copy_from_slice(&batch.inputs);
    }
    geeps.post_local_access(inputs, Save::Save)?;
    for layer in 0..LAYERS {
        let mut weights = params(layer)?;
        let mut from = local(values_of(layer), Fetch::Fetch)?;
        let mut to = local(values_of(layer + 1), Fetch::NoFetch)?;
        if batch.is_some() {
            forward(layer, weights.values()?, from.values()?, to.values()?);
        }
        geeps.post_read(weights)?;
        geeps.post_local_access(from, Save::NoSave)?;
        geeps.post_local_access(to, Save::Save)?;
    }
    let mut outputs = local(values_of(LAYERS), Fetch::Fetch)?;
    let mut gradients = local(gradients_of(LAYERS), Fetch::NoFetch)?;
    let mut loss = 0.0;
    if let Some(batch) = batch {
        loss = logistic(&batch.labels, outputs.values()?, gradients.values()?);
    }
    geeps.post_local_access(outputs, Save::NoSave)?;
    geeps.post_local_access(gradients, Save::Save)?;
    for layer in (0..LAYERS).rev() {
        let mut weights = params(layer)?;
        let table = TableId(layer as u32);
        let mut update = geeps.pre_update(table, &keys(WIDTHS[layer + 1]))?.wait()?;
        let mut from = local(values_of(layer), Fetch::Fetch)?;
        let mut gradients = local(gradients_of(layer + 1), Fetch::Fetch)?;
        let mut below = local(gradients_of(layer), Fetch::NoFetch)?;
        if batch.is_some() {
            let given = (&*weights.values()?, &*from.values()?, &*gradients.values()?);
            backward(layer, given, update.values()?, below.values()?);
        }
        geeps.post_read(weights)?;
        geeps.update(update)?;
        geeps.post_local_access(from, Save::NoSave)?;
        geeps.post_local_access(gradients, Save::NoSave)?;
        geeps.post_local_access(below, Save::Save)?;
        // The update is sent while the layers below compute.
        geeps.table_clock(table)?;
    }
    Ok(loss)
}

/// Units are rectified, except the output.
fn forward(layer: usize, weights: &[f32], from: &[f32], to: &mut [f32]) {
    let (inputs, units) = (WIDTHS[layer], WIDTHS[layer + 1]);
    for (x, y) in from.chunks_exact(inputs).zip(to.chunks_exact_mut(units)) {
        for (w, y) in weights.chunks_exact(inputs + 1).zip(y) {
            let sum: f32 = w.iter().zip(x).map(|(w, x)| w * x).sum();
            *y = sum + w[inputs];
            if layer + 1 < LAYERS {
                *y = y.max(0.0);
            }
        }
    }
}

/// Losses, and gradients of the outputs.
fn logistic(labels: &[f32], outputs: &[f32], gradients: &mut [f32]) -> f32 {
    let mut loss = 0.0;
    for ((label, output), gradient) in labels.iter().zip(outputs).zip(gradients) {
        let probability = 1.0 / (1.0 + (-output).exp());
        *gradient = probability - label;
        loss -= (1.0 - (probability - label).abs()).max(1e-6).ln();
    }
    loss
}

/// The step of the weights, and gradients of the layer's input.
fn backward(
    layer: usize,
    (weights, from, gradients): (&[f32], &[f32], &[f32]),
    update: &mut [f32],
    below: &mut [f32],
) {
    let (inputs, units) = (WIDTHS[layer], WIDTHS[layer + 1]);
    below.fill(0.0);
    let examples = from.chunks_exact(inputs).zip(below.chunks_exact_mut(inputs));
    for ((x, below), d_y) in examples.zip(gradients.chunks_exact(units)) {
        let rows = weights.chunks_exact(inputs + 1).zip(update.chunks_exact_mut(inputs + 1));
        for ((w, step), d_y) in rows.zip(d_y) {
            let rate = RATE / EXAMPLES as f32 * d_y;
            for at in 0..inputs {
                below[at] += w[at] * d_y;
                step[at] -= rate * x[at];
            }
            step[inputs] -= rate;
        }
        if layer > 0 {
            below.iter_mut().zip(x).for_each(|(d, x)| *d = if *x > 0.0 { *d } else { 0.0 });
        }
    }
}

fn work(rank: usize, end: Fabric, budget_bytes: u64) -> Result<String> {
    let settings = settings(budget_bytes);
    let running = Running::start(&settings, end, Arc::new(SystemClock::new()))?;
    running.begin_virtual()?;
    train(&running, None)?;
    let placement = running.end_virtual()?;
    let (mut lines, mut losses) = (String::new(), 0.0);
    for number in 0..ITERATIONS {
        losses += train(&running, Some(&batch(rank, number)))?;
        if (number + 1) % (ITERATIONS / 5) == 0 {
            let loss = losses / (ITERATIONS / 5 * EXAMPLES) as f32;
            lines += &format!("  after {:>4} iterations: loss {loss:.4}\n", number + 1);
            losses = 0.0;
        }
    }
    let finished = running.finish()?;
    let names = settings.tables.iter().map(|table| &table.name);
    let names = names.chain(settings.locals.iter().map(|local| &local.name));
    let pinned = names.zip(&placement.pinned).filter(|(_, pinned)| **pinned);
    let pinned: Vec<_> = pinned.map(|(name, _)| name.as_str()).collect();
    let buffers = ByteCount(placement.buffer_bytes);
    lines += &format!("  pinned: {}; access buffers: {buffers}\n", pinned.join(", "));
    lines += &format!("  {:?}\n", finished.statistics);
    Ok(lines)
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

fn run() -> std::result::Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let workers = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let budget = arguments.next().map_or(Ok(ByteCount(56 << 10)), |text| text.parse())?;
    let ends = threads(workers).into_iter().enumerate();
    let said: Vec<Result<String>> = std::thread::scope(|scope| {
        let spawn = |(rank, end)| scope.spawn(move || work(rank, end, budget.0));
        let running: Vec<_> = ends.map(spawn).collect();
        let panicked = || "a worker panicked".to_owned();
        running.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Ok(panicked()))).collect()
    });
    for (rank, said) in said.into_iter().enumerate() {
        println!("rank {rank} of {workers}\n{}", said?);
    }
    Ok(())
}
