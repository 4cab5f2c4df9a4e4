//! The forward and backward pass of a mini-batch, block by block.

use stepwell_base::huge::HugeSlice;
use stepwell_engine::{Blocks, Workspaces};
use stepwell_nn::{
    Block, BlockGradients, LossSums, Matrix, Objective, PackedWeights, Purpose, Shown, Source,
    Training, losses,
};

use crate::batch::Examples;
use crate::dense::{Input, front};
use crate::models::Model;
use crate::profile::{Direction, Kernel, Profile};

/// Buffers of a thread for a block.
#[derive(Debug)]
pub(super) struct Workspace {
    x: HugeSlice<f32>,
    first_order: Vec<f32>,
    graph: stepwell_nn::Workspace<f32>,
}

/// One block's part of the mini-batch's buffers.
pub(super) struct BlockTask<'a> {
    pub(super) number: usize,
    pub(super) logits: &'a mut [f32],
    pub(super) d_logits: &'a mut [f32],
    pub(super) d_first_order: &'a mut [f32],
    pub(super) d_x: &'a mut [f32],
    pub(super) shown: &'a mut [f32],
    /// Gradient of the parameters, then statistics, if the pass trains.
    pub(super) summands: Option<&'a mut HugeSlice<f32>>,
    pub(super) sums: LossSums,
}

/// Cuts the mini-batch's buffers at the blocks.
pub(super) fn cut<'a>(
    blocks: Blocks,
    (embedding, labels): (usize, usize),
    [mut logits, mut d_logits]: [&'a mut [f32]; 2],
    [mut d_first_order, mut d_x]: [&'a mut [f32]; 2],
    mut shown: &'a mut [f32],
    summands: Option<&'a mut Vec<HugeSlice<f32>>>,
) -> Vec<BlockTask<'a>> {
    let mut summands = summands.into_iter().flatten();
    let mut tasks = Vec::with_capacity(blocks.count());
    let shown_columns = shown.len() / (logits.len() / labels).max(1);
    for number in 0..blocks.count() {
        let rows = blocks.range(number).len();
        tasks.push(BlockTask {
            number,
            logits: front(&mut logits, rows * labels),
            d_logits: front(&mut d_logits, rows * labels),
            d_first_order: front(&mut d_first_order, rows),
            d_x: front(&mut d_x, rows * embedding),
            shown: front(&mut shown, rows * shown_columns),
            summands: summands.next(),
            sums: LossSums::default(),
        });
    }
    tasks
}

/// The forward and backward pass of one block.
pub(super) struct BlockPass<'a> {
    pub(super) model: &'a Model,
    pub(super) parameters: &'a [f32],
    /// Packed weights of these parameters.
    pub(super) packed: &'a PackedWeights,
    pub(super) workspaces: &'a Workspaces<Workspace>,
    pub(super) rows_max: usize,
    pub(super) input: Input<'a>,
    pub(super) examples: &'a Examples,
    /// Objective of each label.
    pub(super) objectives: &'a [Objective],
    pub(super) blocks: Blocks,
    pub(super) purpose: PassPurpose<'a>,
    /// Layers and parts of the input that are copied.
    pub(super) shown: &'a [Source],
    pub(super) profile: &'a Profile,
}

/// Purpose of the pass over a mini-batch.
#[derive(Clone, Copy)]
pub(super) enum PassPurpose<'a> {
    Training {
        seed: u64,
        /// Number of earlier steps.
        step: u64,
        /// State of the graph.
        state: &'a [f32],
    },
    Evaluation {
        /// State of the graph.
        state: &'a [f32],
    },
}

impl<'a> PassPurpose<'a> {
    /// Purpose of the pass over the block that begins at example `first` of this rank's, with a
    /// place for its statistics if it trains.
    fn of_block(
        self,
        blocks: Blocks,
        first: usize,
        statistics: Option<&'a mut [f32]>,
    ) -> Purpose<'a, f32> {
        match self {
            Self::Training { seed, step, state } => {
                let first_example = (blocks.place().start + first) as u64;
                Purpose::Training(Training { seed, step, first_example, state, statistics })
            }
            Self::Evaluation { state } => Purpose::Evaluation { state },
        }
    }
}

impl BlockPass<'_> {
    fn workspace(&self) -> Workspace {
        self.workspaces.take(|| Workspace {
            x: HugeSlice::rounded_up(self.rows_max * self.model.columns()),
            first_order: vec![0.0; self.rows_max],
            graph: stepwell_nn::Workspace::new(self.model.graph(), self.rows_max),
        })
    }

    pub(super) fn run(&self, task: &mut BlockTask<'_>) {
        let range = self.blocks.range(task.number);
        let (rows, columns) = (range.len(), self.model.columns());
        let mut workspace = self.workspace();
        let x = &mut workspace.x[..rows * columns];
        let first_order = &mut workspace.first_order[..rows];
        let profile = self.profile;
        self.input.gather(range.clone(), (x, first_order), profile);
        let block = Block { x: Matrix::packed(x, rows, columns), first_order };
        let (graph, flops) = (self.model.graph(), self.model.graph().flops_per_example());
        let summands = task.summands.as_deref_mut();
        let parts = summands.map(|of| of.split_at_mut(graph.parameter_count()));
        let (gradients, statistics) = parts.unzip();
        profile.time(Kernel::Forward, || {
            let laps = &mut profile.laps(Direction::Forward, rows);
            let workspace = &mut workspace.graph;
            let graph = graph.watched(laps).with_packed(self.packed);
            let purpose = self.purpose.of_block(self.blocks, range.start, statistics);
            let graph = graph.with_purpose(purpose);
            let graph = graph.with_shown(Shown { sources: self.shown, values: task.shown });
            graph.forward(self.parameters, &block, workspace, task.logits);
        });
        profile.count(Kernel::Forward, rows as u64 * flops.forward, 0);
        task.sums = profile.time(Kernel::Loss, || {
            let targets = self.examples.targets(self.objectives, range);
            losses(task.logits, targets, self.blocks.examples_of_all(), task.d_logits)
        });
        if let Some(gradients) = gradients {
            profile.time(Kernel::Backward, || {
                let laps = &mut profile.laps(Direction::Backward, rows);
                let (x, first_order) = (&mut *task.d_x, &mut *task.d_first_order);
                graph.watched(laps).with_packed(self.packed).backward(
                    self.parameters,
                    &block,
                    task.d_logits,
                    &mut workspace.graph,
                    BlockGradients { x, first_order, parameters: gradients },
                );
            });
            profile.count(Kernel::Backward, rows as u64 * flops.backward, 0);
        }
        self.workspaces.put_back(workspace);
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::owner::RankOf;

    use super::*;

    #[test]
    fn examples_are_numbered_in_the_whole_mini_batch_whatever_the_ranks() {
        let whole = Blocks::new(100, 8);
        let firsts = |blocks: Blocks| {
            let numbers = (0..blocks.count()).map(move |number| {
                let first = blocks.range(number).start;
                let training = PassPurpose::Training { seed: 7, step: 42, state: &[] };
                let Purpose::Training(of) = training.of_block(blocks, first, None) else {
                    panic!("it trains");
                };
                assert_eq!((of.seed, of.step, of.statistics), (7, 42, None));
                of.first_example
            });
            numbers.collect::<Vec<_>>()
        };
        let of_all = firsts(whole);
        assert_eq!(of_all[..4], [0, 12, 25, 37]);
        for ranks in [2, 3, 8] {
            let of_ranks = (0..ranks).map(|rank| firsts(whole.of_rank(RankOf { rank, ranks })));
            assert_eq!(of_ranks.collect::<Vec<_>>().concat(), of_all);
        }
        let evaluation = PassPurpose::Evaluation { state: &[1.5] };
        let evaluation = evaluation.of_block(whole, 12, None);
        assert!(matches!(evaluation, Purpose::Evaluation { state: [1.5] }));
    }
}
