//! Dense features that are large numbers as they are: a model that takes them so may well diverge.

use super::Sources;
use crate::layout::{Layout, Says, Transform};
use crate::{Input, ReadOptions, is_stream};

/// Bytes of the records that are looked at.
const LOOKED_BYTES: usize = 256 << 10;
/// Numbers above it are large.
const LARGE: f32 = 1e4;

impl Sources {
    /// The dense features without a transform that are large numbers in some of the first records:
    /// the name of each and the largest. What cannot be read is for who reads it in earnest.
    pub fn unscaled(&self) -> Vec<(String, f32)> {
        let Input::Files(files) = &*self.input else { return Vec::new() };
        let Some(layout) = files.layout.as_deref() else { return Vec::new() };
        let plain = plain_features(layout);
        // What comes by once is left to be read.
        if plain.is_empty() || files.paths.iter().any(|path| is_stream(path)) {
            return Vec::new();
        }
        let options = ReadOptions { block_bytes: LOOKED_BYTES, ..ReadOptions::new(self.schema()) };
        let Some(chunk) = self.first_chunk(&options) else { return Vec::new() };
        let largest = |feature: usize| {
            let values = (0..chunk.len()).map(|example| chunk.dense_of(example)[feature].abs());
            values.fold(0.0, f32::max)
        };
        let features = plain.into_iter().map(|(feature, name)| (name, largest(feature)));
        features.filter(|(_, largest)| *largest > LARGE).collect()
    }
}

/// Number and name of each dense feature that is a number of the data as it is.
fn plain_features(layout: &Layout) -> Vec<(usize, String)> {
    let of = layout.dense.iter().zip(layout.dense_names()).enumerate();
    let plain = of.filter_map(|(feature, (dense, name))| {
        let is_plain = dense.says == Says::Number && dense.rule.transform == Transform::None;
        Some((feature, name.filter(|_| is_plain)?.to_owned()))
    });
    plain.collect()
}
