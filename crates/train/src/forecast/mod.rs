//! What a run of several ranks will need of a network, and how fast it will be.
//!
//! Bytes follow from the settings and from how many keys of the data are distinct (`traffic`).
//! Speed follows from what a run of one rank cost on a machine (`profile`, `costs`).

mod costs;
mod keys;
mod predict;
mod profile;
mod traffic;

use serde::Serialize;
use stepwell_data::Sources;
use stepwell_engine::{Blocks, EmbeddingBags};
use stepwell_fabric::Network;
use stepwell_settings::Config;

use self::costs::Costs;
pub use self::costs::PerExchange;
pub use self::predict::{Predicted, Takes};
pub use self::profile::{MAKE, Profile};
pub use self::traffic::{Exchanged, Sent, Step, Touched};
use crate::Result;
use crate::models::Model;

/// What a forecast is made from, beside settings and data.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// What joins ranks that are on machines of their own.
    pub network: Option<Network>,
    /// What a run of one rank cost.
    pub profile: Option<Profile>,
}

/// What a run of several ranks will send, and how fast it will be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Ranks.
    pub ranks: usize,
    /// Distinct keys of a rank's part of a mini-batch, in the mean.
    pub keys: f64,
    /// Bytes that a rank sends to all others for an example of all, by what they are.
    pub sent: Sent,
    /// All of them: what a link carries each way.
    pub bytes_per_example: f64,
    /// What all ranks put into messages for an example.
    pub exchanged: Exchanged,
    /// What that takes their processors, as it was measured once.
    pub per_exchange: PerExchange,
    /// What the network alone would allow, where one is named.
    pub network: Option<Predicted>,
    /// As threads of one process on the machine of the profile.
    pub one_machine: Option<Predicted>,
    /// On as many machines like it, joined by the network.
    pub machines: Option<Predicted>,
}

impl Forecast {
    /// That of a run of `config` that reads `sources`.
    ///
    /// # Errors
    /// Data that cannot be read, or has no example.
    pub(crate) fn of(
        config: &Config,
        sources: &Sources,
        model: &Model,
        known: &Known,
    ) -> Result<Self> {
        let keys = keys::count(config, sources, model)?;
        let weighs = config.tiers.policy.weighs_occurrences();
        let tables = model.tables().iter().zip(keys).map(|(table, keys)| Touched {
            keys,
            weights: table.weight_count(),
            counts: table.life.is_some(),
            seen: EmbeddingBags::tells_seen(table, weighs),
        });
        let step = Step {
            ranks: config.ranks.count,
            examples: config.data.mini_batch,
            tables: tables.collect(),
            subtrees: Blocks::subtrees_max(config.model.blocks, config.ranks.count),
            dense: model.graph().parameter_count(),
        };
        Ok(Self::of_step(&step, config.threads, known))
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
