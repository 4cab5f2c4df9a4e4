//! Forecasts the network traffic of a run of several ranks, and its speed.
//!
//! Bytes follow from the settings and the number of distinct keys in the data (`traffic`).
//! Speed follows from the measured costs of a run of one rank (`profile`, `costs`).

mod costs;
mod keys;
mod predict;
mod profile;
mod traffic;

use serde::Serialize;
use stepwell_data::Sources;
use stepwell_engine::{Blocks, EmbeddingBags};
use stepwell_fabric::Network;

use self::costs::Costs;
pub use self::costs::PerExchange;
pub use self::predict::{Predicted, Takes};
pub use self::profile::{MAKE, Profile};
pub use self::traffic::{Exchanged, Sent, Step, Touched};
use crate::Result;
use crate::models::Model;
use crate::run_plan::RunPlan;

/// Inputs of a forecast besides settings and data.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The network between ranks on different machines.
    pub network: Option<Network>,
    /// The measured costs of a run of one rank.
    pub profile: Option<Profile>,
}

/// Predicted traffic and speed of a run of several ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Number of ranks.
    pub ranks: usize,
    /// Mean number of distinct keys in a rank's part of a mini-batch.
    pub keys: f64,
    /// Bytes that a rank sends to all others, per example of all ranks, by kind.
    pub sent: Sent,
    /// Sum of `sent`: bytes that a link carries each way, per example.
    pub bytes_per_example: f64,
    /// Contents of all ranks' messages, per example.
    pub exchanged: Exchanged,
    /// Processor time per unit of `exchanged`, from one measurement.
    pub per_exchange: PerExchange,
    /// Speed that the network alone would allow, if one is named.
    pub network: Option<Predicted>,
    /// Prediction for ranks as threads of one process on the profile's machine.
    pub one_machine: Option<Predicted>,
    /// Prediction for one such machine per rank, joined by the network.
    pub machines: Option<Predicted>,
}

impl Forecast {
    /// Forecasts a run that reads `sources`.
    ///
    /// # Errors
    /// Data that cannot be read, or has no example.
    pub(crate) fn of(
        plan: &RunPlan<'_>,
        sources: &Sources,
        model: &Model,
        known: &Known,
    ) -> Result<Self> {
        let keys = keys::count(plan, sources, model)?;
        let RunPlan { batching, ranks, tiers, .. } = plan;
        let weighs = tiers.policy.weighs_occurrences();
        let tables = model.tables().iter().zip(keys).map(|(table, keys)| Touched {
            keys,
            weights: table.weight_count(),
            counts: table.life.is_some(),
            seen: EmbeddingBags::tells_seen(table, weighs),
        });
        let step = Step {
            ranks: ranks.count,
            examples: batching.mini_batch,
            tables: tables.collect(),
            subtrees: Blocks::subtrees_max(batching.blocks, ranks.count),
            dense: model.summed_count(),
        };
        Ok(Self::of_step(&step, plan.threads, known))
    }

    fn of_step(step: &Step, threads: usize, known: &Known) -> Self {
        let sent = step.sent_per_example();
        let costs = known.profile.as_ref().map(Costs::of);
        let costs = costs.as_ref();
        let machines = costs.zip(known.network);
        Self {
            ranks: step.ranks,
            keys: step.keys(),
            sent,
            bytes_per_example: sent.sum(),
            exchanged: step.exchanged(),
            per_exchange: PerExchange::MEASURED,
            network: known.network.map(|network| Predicted::of_network(step, network)),
            one_machine: costs.map(|costs| Predicted::on_one_machine(costs, step, threads)),
            machines: machines
                .map(|(costs, network)| Predicted::on_machines(costs, step, threads, network)),
        }
    }
}
