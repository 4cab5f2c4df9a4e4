//! `eval --at` without `--group`: recall of items among all items of the data.

use std::sync::{Mutex, PoisonError};

use stepwell_settings::Config;
use stepwell_train::{Observer, RecallMeter, RecallMetrics, Scored, pair_layers};

use crate::failure::Failure;

/// Collects the vectors of users and items as they are computed.
pub(super) struct Recall {
    /// Layers of the user's vector and the item's.
    layers: [String; 2],
    meter: Mutex<RecallMeter>,
}

impl Recall {
    /// Prepares to measure the recall of the `k` best items by the model of `config`.
    pub(super) fn new(config: &Config, k: u32) -> Result<Self, Failure> {
        let layers = pair_layers(config)?.ok_or_else(|| {
            Failure::Usage(format!(
                "--at {k} needs --group COLUMN: only models of two towers rank all items, and this \
                 one is {}",
                config.model.kind.name()
            ))
        })?;
        Ok(Self { layers, meter: Mutex::new(RecallMeter::new(k)) })
    }

    /// The figures.
    pub(super) fn metrics(&self) -> RecallMetrics {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Observer for Recall {
    fn layers(&self) -> Vec<String> {
        self.layers.to_vec()
    }

    fn scored(&self, scored: Scored<'_>) {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).add(scored);
    }
}
