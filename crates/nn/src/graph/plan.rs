//! Plans a graph's buffers: first write, last read, and position of each.
//!
//! Time counts passes of nodes. Of n nodes, node i runs forwards at time i and backwards at time
//! 2n-1-i:
//!
//! ```text
//! time            0    1    2    3    4    5          n = 3
//! pass            f0   f1   f2   b2   b1   b0
//! value of 0      ├────────────────────────┤          if b0 reads its output
//! value of 1           ├──────────────┤
//! gradient of 1                  ├────┤               from the pass of its last reader to its own
//! ```
//!
//! Buffers with disjoint lifetimes share memory: each, in order of first use, takes the lowest
//! position that is free for its whole lifetime. Values and gradients are planned separately, so
//! that a backward pass reads one and writes the other.

use std::ops::Range;

use stepwell_base::huge::HugeSlice;

use crate::layer::{NodeId, Reads, Source};

/// Contents of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// Output of a node, followed by what the node keeps for its backward pass.
    Value,
    /// Gradient of a node's output.
    Gradient,
}

/// One planned buffer; lanes are per example of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// Owner.
    pub node: NodeId,
    /// Contents.
    pub kind: BufferKind,
    /// Length in lanes.
    pub lanes: usize,
    /// Position among the buffers of its kind, in lanes.
    pub offset: usize,
    /// Time of the first pass that writes it.
    pub first_use: usize,
    /// Time of the last pass that reads it.
    pub last_use: usize,
}

/// All buffers of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Buffers in order of their first use.
    pub buffers: Vec<BufferPlan>,
    /// Lanes per example of all values.
    pub value_lanes: usize,
    /// Lanes per example of all gradients.
    pub gradient_lanes: usize,
    /// Number of passes: twice the number of nodes.
    pub passes: usize,
}

impl Plan {
    /// Bytes of a workspace for blocks of `rows_max` examples, with numbers of `scalar_bytes` each.
    pub fn workspace_bytes(&self, rows_max: usize, scalar_bytes: usize) -> usize {
        let bytes =
            |lanes: usize| HugeSlice::<u8>::bytes_rounded_up(lanes * rows_max * scalar_bytes);
        bytes(self.value_lanes) + bytes(self.gradient_lanes)
    }

    /// Position of a buffer of `node`.
    pub(super) fn offset(&self, node: usize, kind: BufferKind) -> usize {
        let found = self.buffers.iter().find(|b| b.node.0 == node && b.kind == kind);
        found.map_or(0, |buffer| buffer.offset)
    }
}

/// Properties of a node that determine its buffers.
pub(super) struct NodeUse<'a> {
    pub(super) columns: usize,
    pub(super) kept: usize,
    pub(super) reads: Reads,
    pub(super) sources: &'a [Source],
}

/// Plans the buffers of `nodes`, the last of which is the output.
pub(super) fn plan(nodes: &[NodeUse<'_>]) -> Plan {
    let mut buffers: Vec<BufferPlan> =
        (0..nodes.len()).flat_map(|node| lifetimes(nodes, node)).collect();
    buffers.sort_by_key(|buffer| (buffer.first_use, buffer.node));
    let value_lanes = place(&mut buffers, BufferKind::Value);
    let gradient_lanes = place(&mut buffers, BufferKind::Gradient);
    Plan { buffers, value_lanes, gradient_lanes, passes: 2 * nodes.len() }
}

/// The two buffers of `node`, without positions.
fn lifetimes(nodes: &[NodeUse<'_>], node: usize) -> [BufferPlan; 2] {
    let end = 2 * nodes.len() - 1;
    let reads_node = |reader: &usize| nodes[*reader].sources.contains(&Source::Node(NodeId(node)));
    let readers: Vec<usize> = (node + 1..nodes.len()).filter(reads_node).collect();
    let last_reader = readers.last().copied();
    let read_back = readers.iter().find(|reader| nodes[**reader].reads.inputs);
    // A value lives at least until the logits are copied out, at the end of the forward pass.
    let mut last_use = last_reader.unwrap_or(node);
    if let Some(reader) = read_back {
        last_use = end - reader;
    }
    if nodes[node].reads.output || nodes[node].kept > 0 {
        last_use = end - node;
    }
    let lanes = nodes[node].columns;
    let value = BufferPlan {
        node: NodeId(node),
        kind: BufferKind::Value,
        lanes: lanes + nodes[node].kept,
        offset: 0,
        first_use: node,
        last_use,
    };
    let first_use = end - last_reader.unwrap_or(node);
    let kind = BufferKind::Gradient;
    let gradient = BufferPlan { kind, lanes, first_use, last_use: end - node, ..value };
    [value, gradient]
}

/// Sets the offset of every buffer of `kind`; returns the total lanes.
fn place(buffers: &mut [BufferPlan], kind: BufferKind) -> usize {
    let (mut placed, mut total) = (Vec::<BufferPlan>::new(), 0);
    for buffer in buffers.iter_mut().filter(|buffer| buffer.kind == kind) {
        let mut taken: Vec<Range<usize>> = placed
            .iter()
            .filter(|other| {
                other.last_use >= buffer.first_use && other.first_use <= buffer.last_use
            })
            .map(|other| other.offset..other.offset + other.lanes)
            .collect();
        taken.sort_by_key(|range| range.start);
        buffer.offset = lowest_gap(&taken, buffer.lanes);
        total = total.max(buffer.offset + buffer.lanes);
        placed.push(*buffer);
    }
    total
}

/// The lowest offset at which `lanes` lanes don't overlap `taken`, which is sorted.
fn lowest_gap(taken: &[Range<usize>], lanes: usize) -> usize {
    let mut offset = 0;
    for range in taken {
        if range.start >= offset + lanes {
            break;
        }
        offset = offset.max(range.end);
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(kept: usize) -> Plan {
        let sources: Vec<[Source; 1]> = vec![
            [Source::Columns(0..4)],
            [Source::Node(NodeId(0))],
            [Source::Node(NodeId(1))],
            [Source::Node(NodeId(2))],
        ];
        let widths = [8, 6, 4, 1];
        let reads = Reads { inputs: true, output: true };
        let nodes: Vec<NodeUse<'_>> = widths
            .into_iter()
            .zip(&sources)
            .map(|(columns, sources)| NodeUse { columns, kept, reads, sources })
            .collect();
        plan(&nodes)
    }

    #[test]
    fn buffers_alive_together_do_not_meet() {
        for plan in [chain(0), chain(3)] {
            assert_eq!(plan.passes, 8);
            check_apart(&plan);
        }
    }

    fn check_apart(plan: &Plan) {
        for a in &plan.buffers {
            for b in plan.buffers.iter().filter(|b| b.kind == a.kind && b.node != a.node) {
                let together = a.first_use <= b.last_use && b.first_use <= a.last_use;
                let apart = a.offset + a.lanes <= b.offset || b.offset + b.lanes <= a.offset;
                assert!(!together || apart, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn gradients_share_memory_and_stashed_values_do_not() {
        let plan = chain(0);
        assert_eq!(plan.value_lanes, 8 + 6 + 4 + 1);
        // Two neighbors at a time: the widest pair determines the size, and first fit wastes at
        // most a few lanes.
        assert!((14..19).contains(&plan.gradient_lanes), "{}", plan.gradient_lanes);
        // Whole pages: small or huge ones.
        assert_eq!(plan.workspace_bytes(2, 4), 2 * 4096);
        let huge = |lanes: usize| (lanes * 100_000 * 4).next_multiple_of(2 << 20);
        assert_eq!(plan.workspace_bytes(100_000, 4), huge(19) + huge(plan.gradient_lanes));
    }

    #[test]
    fn what_is_kept_lies_behind_the_value_until_its_backward_pass() {
        let sources = [[Source::Columns(0..4)], [Source::Node(NodeId(0))]];
        let reads = Reads { inputs: false, output: false };
        let node = |sources, kept| NodeUse { columns: 1, kept, reads, sources };
        let plan = plan(&[node(&sources[0], 2), node(&sources[1], 0)]);
        assert_eq!((plan.value_lanes, plan.gradient_lanes), (4, 2));
        assert_eq!((plan.buffers[0].lanes, plan.buffers[0].last_use), (3, 3));
    }

    #[test]
    fn gaps_are_found_from_below() {
        assert_eq!(lowest_gap(&[], 3), 0);
        assert_eq!(lowest_gap(&[0..2, 5..6], 3), 2);
        assert_eq!(lowest_gap(&[0..4, 1..2, 5..6], 2), 6);
        assert_eq!(lowest_gap(&[3..4, 4..5], 3), 0);
    }
}
