//! Weights that are rounded and packed once per step for all blocks, if the kernel packs operands.
//!
//! A product's right operand is the same weight in every block, so packing it once saves reading
//! and writing it for each block, for the forward and the backward pass. The results have the same
//! bits with and without.

use crate::gemm::Packed;

/// Packed weights of a graph: one part per weight and pass for which the kernel packs operands, so
/// none in f32.
#[derive(Debug)]
pub struct PackedWeights {
    pub(super) parts: Vec<PackedWeight>,
}

/// One node's weight, packed for one pass. Threads can pack parts independently.
#[derive(Debug)]
pub struct PackedWeight {
    pub(super) node: usize,
    pub(super) pass: Direction,
    pub(super) packed: Packed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

impl PackedWeights {
    /// All parts.
    pub fn parts_mut(&mut self) -> &mut [PackedWeight] {
        &mut self.parts
    }

    fn of(&self, node: usize, pass: Direction) -> Option<&Packed> {
        let part = self.parts.iter().find(|part| (part.node, part.pass) == (node, pass));
        part.map(|part| &part.packed)
    }
}

/// Parameters of a pass, and optionally their packed form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights<'a, T> {
    pub(super) parameters: &'a [T],
    pub(super) packed: Option<&'a PackedWeights>,
}

impl<'a, T> Weights<'a, T> {
    pub(super) fn packed(&self, node: usize, pass: Direction) -> Option<&'a Packed> {
        self.packed.and_then(|packed| packed.of(node, pass))
    }
}
