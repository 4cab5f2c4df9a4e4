//! Packing of a graph's weights.

use super::Graph;
use super::weights::{Direction, PackedWeight, PackedWeights};
use crate::gemm::Scalar;
use crate::gemm::{Packed, plain, transposed};
use crate::matrix::Matrix;

impl<T: Scalar> Graph<T> {
    /// Allocates packed weights of [`Graph::packed_bytes`] bytes.
    pub fn packed_weights(&self) -> PackedWeights {
        let room = |node: usize, pass| {
            let (tiles, columns) = self.room_of(node, pass);
            (tiles > 0).then(|| PackedWeight { node, pass, packed: Packed::new(tiles, columns) })
        };
        let both = |node| [room(node, Direction::Forward), room(node, Direction::Backward)];
        PackedWeights { parts: (0..self.nodes.len()).flat_map(both).flatten().collect() }
    }

    /// Bytes of [`Graph::packed_weights`]; 0 if the kernel reads weights unpacked.
    pub fn packed_bytes(&self) -> usize {
        self.packed_tiles().map(Packed::bytes).sum()
    }

    /// Bytes that packing all weights writes.
    pub fn packing_writes(&self) -> usize {
        self.packed_tiles().map(Packed::bytes_written).sum()
    }

    /// Number of tiles of each part.
    fn packed_tiles(&self) -> impl Iterator<Item = usize> {
        let both = |node| {
            [self.room_of(node, Direction::Forward), self.room_of(node, Direction::Backward)]
        };
        (0..self.nodes.len()).flat_map(both).map(|(tiles, _)| tiles).filter(|tiles| *tiles > 0)
    }

    /// Tiles of a node's weight as a right operand, and its columns.
    fn room_of(&self, node: usize, pass: Direction) -> (usize, usize) {
        let Some([outputs, inputs]) = self.nodes[node].layer.weight() else { return (0, 0) };
        let (depth, columns) = match pass {
            Direction::Forward => (inputs, outputs),
            Direction::Backward => (outputs, inputs),
        };
        (self.kernel.packed_tiles(depth, columns), columns)
    }

    /// Packs one part of these parameters. Must be repeated whenever they change.
    pub fn pack(&self, parameters: &[T], part: &mut PackedWeight) {
        assert_eq!(parameters.len(), self.parameter_count, "parameters of this graph");
        let node = &self.nodes[part.node];
        if let Some([outputs, inputs]) = node.layer.weight() {
            let lanes = &parameters[node.parameters.clone()];
            let weight = Matrix::packed(lanes, outputs, inputs);
            let right = match part.pass {
                Direction::Forward => transposed(weight),
                Direction::Backward => plain(weight),
            };
            self.kernel.pack(right, &mut part.packed);
        }
    }
}
