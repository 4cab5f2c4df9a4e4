//! Memory of a run besides its tiers, which doesn't depend on their size.

use std::sync::Arc;

use stepwell_base::ByteCount;
use stepwell_base::budget::Budget;
use stepwell_data::{BLOCKS_PER_PARSER, Input, Layout};
use stepwell_engine::BATCHES_QUEUED;

use super::wanted::{BLOCK_BYTES, LEARNING, Wanted};
use crate::Result;
use crate::batch::MiniBatchBytes;
use crate::dense::AgreedOptimizer;
use crate::exchange::Exchange;
use crate::metrics::Meter;
use crate::models::Model;
use crate::pipeline::shuffle_bytes_max;
use crate::run_plan::RunPlan;
use crate::step::{Agreement, TrainedModel};

/// Bounds outside the tiers.
pub(super) struct Apart {
    /// Reading, batching and the exchange with other ranks.
    pub(super) data: Budget,
    /// Computing.
    pub(super) training: Budget,
    /// Bytes of the dense part in a checkpoint.
    pub(super) dense: u64,
}

impl Apart {
    pub(super) fn of(wanted: &Wanted<'_>) -> Result<Self> {
        let (mut data, mut training) = (Budget::default(), Budget::default());
        add_reading(&mut data, wanted)?;
        add_batches(&mut data, wanted);
        if wanted.plan.ranks.count > 1 {
            Exchange::of(wanted.plan, wanted.model).add_bounds(&mut data);
        }
        add_training(&mut training, wanted)?;
        // Parameters, and one value per parameter for each part of the optimizer's state and for
        // their mean; the graph's state.
        let dense = wanted.plan.dense;
        let parts = 1 + dense.rule.state_names().len() + usize::from(dense.ema.is_some());
        let parameters = wanted.model.graph().parameter_count();
        let lanes = parameters * parts + wanted.model.graph().state_count();
        let dense = (lanes * size_of::<f32>()) as u64;
        Ok(Self { data, training, dense })
    }
}

fn add_reading(budget: &mut Budget, wanted: &Wanted<'_>) -> Result<()> {
    let threads = wanted.plan.threads;
    // Evaluations within an epoch are read apart.
    let readers = 1 + u64::from(wanted.plan.evaluate_every > 0 && !wanted.scores);
    let layout = wanted.inputs.into_iter().flatten().find_map(Input::layout);
    let chunk = match layout {
        Some(layout) => layout.chunk_bytes_max(BLOCK_BYTES),
        None => wanted.schema.chunk_bytes_max(BLOCK_BYTES),
    } as u64;
    // One for each stream of data, except the last.
    let streams = streams_read(wanted.plan);
    let chunks = readers * (BLOCKS_PER_PARSER * threads + threads + streams) as u64;
    let blocks = readers * (2 * threads + 3) as u64;
    let mut block = BLOCK_BYTES as u64;
    for input in wanted.inputs.into_iter().flatten() {
        block = block.max(BLOCK_BYTES as u64 + input.rows_bytes_max(BLOCK_BYTES)?);
    }
    let bytes = blocks * block + chunks * chunk;
    let (block, chunk) = (ByteCount(block), ByteCount(chunk));
    budget.add("reading", bytes, format!("{blocks} blocks of {block}, {chunks} chunks of {chunk}"));
    add_shuffle(budget, wanted, (layout, chunk.0));
    let mut source = 0;
    for input in wanted.inputs.into_iter().flatten() {
        source = source.max(input.source_bytes_max(BLOCK_BYTES)?);
    }
    let of_each = "decompression window, tables of the built-in stream";
    match streams {
        1 => budget.add("source", source, of_each),
        _ => budget.add("source", source * streams as u64, format!("{streams} times: {of_each}")),
    }
    if let Some((blocks, bytes)) = wanted.cache {
        budget.add("data cache", bytes, format!("a block and a table of {blocks} blocks"));
    }
    Ok(())
}

/// Windows of shuffled examples, and a chunk that spans two of them.
fn add_shuffle(
    budget: &mut Budget,
    wanted: &Wanted<'_>,
    (layout, chunk): (Option<&Arc<Layout>>, u64),
) {
    let room = wanted.plan.data.shuffle;
    if room == 0 {
        return;
    }
    let of_layout =
        layout.map_or(0, |layout| layout.id_names().into_iter().map(|(_, most)| most as u64).sum());
    let bytes = shuffle_bytes_max(room, wanted.schema, (wanted.model.features(), of_layout));
    let of_each = ByteCount(bytes / 2);
    let why = format!("2 windows of {room} examples, {of_each} each, and 2 chunks");
    budget.add("shuffle", bytes + 2 * chunk, why);
}

fn add_batches(budget: &mut Budget, wanted: &Wanted<'_>) {
    let RunPlan { batching, ranks, .. } = wanted.plan;
    let (batch, features) = (batching.batch() as u64, wanted.model.features());
    let mut bytes = MiniBatchBytes::new(batch, wanted.schema, features);
    if ranks.count > 1 {
        bytes = bytes.shared();
    }
    // Planned units and returning ones, which are reused.
    let planned = batching.lookahead + 3;
    // Being cut, queued, known.
    let known = BATCHES_QUEUED + batching.horizon + 1 + planned;
    let (of_known, of_planned) = (ByteCount(bytes.known), ByteCount(bytes.planned));
    budget.add(
        "batches",
        bytes.known * known as u64 + bytes.planned * planned as u64 + bytes.gathered,
        format!("{known} of {of_known}; {planned} planned ones take {of_planned} more"),
    );
}

fn add_training(budget: &mut Budget, wanted: &Wanted<'_>) -> Result<()> {
    budget.add(
        "training",
        TrainedModel::bytes_max(wanted.model, wanted.plan),
        "dense parameters, gradients by block, activations by thread",
    );
    if !wanted.plan.ranks.in_step {
        let bytes = learning_bytes_max(wanted.model, wanted.plan)?;
        let why = "another copy for steps, and the protocol of the dense part";
        budget.add(LEARNING, bytes, why);
    }
    if let Some(from) = wanted.from {
        budget.add("checkpoint", from.dense.bytes(), "its dense part, until it is loaded");
    }
    let examples = wanted.examples.unwrap_or(u64::MAX);
    // Progressive figures if something is trained, those of an evaluation, and those of the true
    // probabilities.
    let mut meters = if wanted.scores { 1 } else { 2 };
    let mut has_truth = false;
    for input in wanted.inputs.into_iter().flatten() {
        has_truth |= input.has_truth()?;
    }
    meters += u64::from(has_truth);
    let scores = Meter::bytes_max(wanted.model.labels(), wanted.schema.labels, examples);
    budget.add("scores", meters * scores, format!("{meters} of {}", ByteCount(scores)));
    Ok(())
}

/// The most bytes of a learner's threads and of the dense part's protocol, if ranks are out of
/// step.
fn learning_bytes_max(model: &Model, plan: &RunPlan<'_>) -> Result<u64> {
    let ranks = plan.ranks;
    let count = model.graph().parameter_count();
    let parameters = count * size_of::<f32>();
    let agreement = Agreement::bytes_max(plan, model.graph().parameters())?;
    // Parameters and gradient of the current step, and what ranks send each other at a mark, as
    // messages and after reading.
    let agreed = AgreedOptimizer::bytes_max(count);
    let shown = ranks.sync.dense.model_of(ranks.count).len();
    let moved = 2 * parameters + (2 + 2 * shown) * agreed;
    Ok(TrainedModel::bytes_max(model, plan) + agreement + (agreed + moved) as u64)
}

/// The most streams of the data that a rank reads.
fn streams_read(plan: &RunPlan<'_>) -> usize {
    let (streams, blocks) = (plan.data.streams, plan.batching.blocks);
    let ranks = plan.ranks.learners();
    let of_each = blocks / streams;
    let read = |rank: usize| {
        (blocks * (rank + 1) / ranks).div_ceil(of_each) - blocks * rank / ranks / of_each
    };
    (0..ranks).map(read).max().unwrap_or(streams)
}
