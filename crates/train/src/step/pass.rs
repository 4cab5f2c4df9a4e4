//! The forward and backward pass of a mini-batch, block by block.

use std::ops::Range;

use stepwell_base::huge::HugeSlice;
use stepwell_nn::{Block, Matrix, PackedWeights, Workspace, binary_cross_entropy};

use super::blocks::Blocks;
use super::desks::Desks;
use super::sight::Sight;
use super::{Sums, gather};
use crate::batch::MiniBatch;
use crate::models::Model;
use crate::profile::{Kernel, Pass, Profile};

/// What one thread needs for a block.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) x: HugeSlice<f32>,
    pub(super) first_order: Vec<f32>,
    pub(super) workspace: Workspace<f32>,
}

/// One block's part of the mini-batch's buffers.
pub(super) struct BlockTask<'a> {
    pub(super) number: usize,
    pub(super) logits: &'a mut [f32],
    pub(super) probabilities: &'a mut [f32],
    pub(super) d_logits: &'a mut [f32],
    pub(super) d_x: &'a mut [f32],
    pub(super) gradients: Option<&'a mut HugeSlice<f32>>,
    pub(super) sums: Sums,
}

/// Cuts the mini-batch's buffers at the blocks.
pub(super) fn cut<'a>(
    blocks: Blocks,
    embedding: usize,
    [mut logits, mut probabilities, mut d_logits]: [&'a mut [f32]; 3],
    mut d_x: &'a mut [f32],
    gradients: Option<&'a mut Vec<HugeSlice<f32>>>,
) -> Vec<BlockTask<'a>> {
    let mut gradients = gradients.into_iter().flatten();
    let mut tasks = Vec::with_capacity(blocks.count());
    for number in 0..blocks.count() {
        let rows = blocks.range(number).len();
        tasks.push(BlockTask {
            number,
            logits: front(&mut logits, rows),
            probabilities: front(&mut probabilities, rows),
            d_logits: front(&mut d_logits, rows),
            d_x: front(&mut d_x, rows * embedding),
            gradients: gradients.next(),
            sums: Sums::default(),
        });
    }
    tasks
}

fn front<'a>(rest: &mut &'a mut [f32], count: usize) -> &'a mut [f32] {
    let (front, back) = std::mem::take(rest).split_at_mut(count);
    *rest = back;
    front
}

/// The forward and backward pass of one block.
pub(super) struct BlockPass<'a> {
    pub(super) model: &'a Model,
    pub(super) parameters: &'a [f32],
    /// Packed of these parameters.
    pub(super) packed: &'a PackedWeights,
    pub(super) benches: &'a Desks<Bench>,
    pub(super) rows_max: usize,
    pub(super) mini: &'a MiniBatch,
    pub(super) sights: &'a [Sight<'a>],
    pub(super) blocks: Blocks,
    pub(super) profile: &'a Profile,
}

impl BlockPass<'_> {
    fn bench(&self) -> Bench {
        self.benches.take(|| Bench {
            x: HugeSlice::rounded_up(self.rows_max * self.model.columns()),
            first_order: vec![0.0; self.rows_max],
            workspace: Workspace::new(self.model.graph(), self.rows_max),
        })
    }

    pub(super) fn run(&self, task: &mut BlockTask<'_>) {
        let range = self.blocks.range(task.number);
        let (rows, columns) = (range.len(), self.model.columns());
        let mut bench = self.bench();
        let x = &mut bench.x[..rows * columns];
        let first_order = &mut bench.first_order[..rows];
        let profile = self.profile;
        profile.time(Kernel::Gather, || {
            gather::gather(self.model, self.mini, self.sights, range.clone(), x, first_order);
        });
        profile.count(Kernel::Gather, 0, gather::bytes(self.model, self.mini, range.clone()));
        let block = Block { x: Matrix::packed(x, rows, columns), first_order };
        let (graph, flops) = (self.model.graph(), self.model.graph().flops_per_example());
        profile.time(Kernel::Forward, || {
            let laps = &mut profile.laps(Pass::Forward, rows);
            let workspace = &mut bench.workspace;
            let graph = graph.watched(laps).with_packed(self.packed);
            graph.forward(self.parameters, &block, workspace, task.logits);
        });
        profile.count(Kernel::Forward, rows as u64 * flops.forward, 0);
        task.sums = profile.time(Kernel::Loss, || self.score(task, range));
        if let Some(gradients) = task.gradients.as_deref_mut() {
            profile.time(Kernel::Backward, || {
                let laps = &mut profile.laps(Pass::Backward, rows);
                graph.watched(laps).with_packed(self.packed).backward(
                    self.parameters,
                    &block,
                    task.d_logits,
                    &mut bench.workspace,
                    task.d_x,
                    gradients,
                );
            });
            profile.count(Kernel::Backward, rows as u64 * flops.backward, 0);
        }
        self.benches.put_back(bench);
    }

    fn score(&self, task: &mut BlockTask<'_>, range: Range<usize>) -> Sums {
        let loss = binary_cross_entropy(
            task.logits,
            &self.mini.labels[range],
            self.mini.examples(),
            task.d_logits,
            task.probabilities,
        );
        let probability = task.probabilities.iter().map(|p| f64::from(*p)).sum();
        Sums { loss, probability }
    }
}
