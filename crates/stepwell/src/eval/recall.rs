//! `eval --at` without `--group`: recall of items among all items of the data.

use std::sync::{Mutex, PoisonError};

use stepwell_settings::Config;
use stepwell_train::{Observer, RecallMeter, RecallMetrics, Scored, layer_columns, pair_layers};

use crate::failure::Failure;

/// Collects the vectors of users and items as they are computed.
pub(super) struct Recall {
    /// Layers of the user's vector and the item's, and the item's input.
    layers: Vec<String>,
    meter: Mutex<RecallMeter>,
}

impl Recall {
    /// Prepares to measure the recall of the `k` best items by the model of `config`.
    pub(super) fn new(config: &Config, k: u32) -> Result<Self, Failure> {
        let pairs = pair_layers(config)?.ok_or_else(|| {
            Failure::Usage(format!(
                "--at {k} needs --group COLUMN: only models of two towers rank all items, and this \
                 one is {}",
                config.model.kind.name()
            ))
        })?;
        let layers = [vec![pairs.user, pairs.item], pairs.item_inputs].concat();
        let dim = layer_columns(config, &layers[..1])?[0];
        Ok(Self { layers, meter: Mutex::new(RecallMeter::new(k, dim)) })
    }

    /// The figures.
    pub(super) fn metrics(&self) -> RecallMetrics {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Observer for Recall {
    fn layers(&self) -> Vec<String> {
        self.layers.clone()
    }

    fn scored(&self, scored: Scored<'_>) {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).add(scored);
    }
}
