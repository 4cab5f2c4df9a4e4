//! Buffers for the intermediate results of attention to sequences, which its layers share.

use stepwell_device::{Buffer, Device};

use super::sizes::Sizes;
use crate::Result;

/// Intermediate results of one attention at a time. Steps are packed by block.
pub(super) struct AttentionRoom {
    /// Place of each example's first step. // (rows)
    pub(super) firsts: Buffer<u32>,
    /// Steps of each block. // (slots)
    pub(super) counts: Buffer<u32>,
    /// A, then B.
    pub(super) weights: Buffer<f32>,
    /// Part of each target in the hidden sums, then its gradient. // (rows, hidden)
    pub(super) of_targets: Buffer<f32>,
    /// Features of steps. // (places, 2 dim)
    pub(super) features: Buffer<f32>,
    pub(super) d_features: Buffer<f32>,
    pub(super) d_hidden: Buffer<f32>, // (places, hidden)
    pub(super) d_parts: Buffer<f32>,  // (places)
    /// Gradients of A of all blocks, then those of B.
    pub(super) d_weights: Buffer<f32>,
    pub(super) d_targets: Buffer<f32>, // (rows, dim)
}

impl AttentionRoom {
    /// Allocates the buffers, if a layer needs them.
    pub(super) fn new(device: &Device, sizes: Sizes) -> Result<Option<Self>> {
        let (rows, slots) = (sizes.rows(), sizes.slots);
        let Some(lanes) = sizes.attention else { return Ok(None) };
        let buffer = |lanes: usize| device.buffer::<f32>(lanes.max(1), "attention");
        let [weights, of_targets, features, d_features, d_hidden, d_parts, d_weights, d_targets] =
            lanes.buffers(rows, slots);
        Ok(Some(Self {
            firsts: device.buffer(rows.max(1), "places of steps")?,
            counts: device.buffer(slots.max(1), "steps of blocks")?,
            weights: buffer(weights)?,
            of_targets: buffer(of_targets)?,
            features: buffer(features)?,
            d_features: buffer(d_features)?,
            d_hidden: buffer(d_hidden)?,
            d_parts: buffer(d_parts)?,
            d_weights: buffer(d_weights)?,
            d_targets: buffer(d_targets)?,
        }))
    }
}
