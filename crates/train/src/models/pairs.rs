//! The layers with the vectors of users and items.

use stepwell_settings::{Config, LayerKind};

use crate::Result;
use crate::run::layers;

/// Names of the layers whose outputs are an example's vectors of its user and its item; `None` if
/// the model doesn't rank items by dot products.
///
/// # Errors
/// Settings from which no model can be built.
pub fn pair_layers(config: &Config) -> Result<Option<[String; 2]>> {
    if !config.trains_on_positives() {
        return Ok(None);
    }
    let layers = layers(config)?;
    let pairs = layers.iter().find(|layer| layer.kind == LayerKind::InBatchSoftmax);
    Ok(pairs.and_then(|layer| layer.inputs.first_chunk().cloned()))
}
