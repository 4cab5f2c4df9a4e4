//! Finds untransformed dense features with large values: a model may diverge on them.

use super::Sources;
use crate::data_file::is_stream;
use crate::input::Input;
use crate::layout::{Layout, Says, Transform};
use crate::read_options::ReadOptions;

/// Bytes of records to examine.
const LOOKED_BYTES: usize = 256 << 10;
/// Numbers above this are large.
const LARGE: f32 = 1e4;

impl Sources {
    /// Names of untransformed dense features with large values in the first records, and the
    /// largest of each. Read errors are ignored here; reading reports them.
    pub fn unscaled(&self) -> Vec<(String, f32)> {
        let Input::Files(files) = &*self.input else { return Vec::new() };
        let Some(layout) = files.layout.as_deref() else { return Vec::new() };
        let plain = plain_features(layout);
        // A stream can't be read twice.
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

/// Number and name of each untransformed dense feature.
fn plain_features(layout: &Layout) -> Vec<(usize, String)> {
    let of = layout.dense.iter().zip(layout.dense_names()).enumerate();
    let plain = of.filter_map(|(feature, (dense, name))| {
        let is_plain = dense.says == Says::Number && dense.rule.transform == Transform::None;
        Some((feature, name.filter(|_| is_plain)?.to_owned()))
    });
    plain.collect()
}
