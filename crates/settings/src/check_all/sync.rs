//! Checks of settings for ranks that are out of step.

use stepwell_device::Choice;

use crate::check::Outcome;
use crate::config::{
    Config, DenseKind, DensePlace, ExchangeKind, LayerConfig, LayerKind, ModelKind, OptimConfig,
    RowsKind, ScheduleKind,
};

impl Config {
    /// Refuses protocols that do not match `sync.rows`, and settings that need ranks in step.
    pub(super) fn check_sync(&self) -> Outcome {
        let (sync, dense) = (&self.sync, self.sync.dense.name());
        if sync.dense != DenseKind::BSP && sync.rows == RowsKind::Exact {
            return Err(format!(
                "sync.dense = {dense} and sync.rows = exact: exact rows need every rank's gradient \
                 in every step; give sync.rows = bounded or async, or sync.dense = bsp"
            ));
        }
        if self.in_step() {
            return Ok(());
        }
        let penalty =
            [("l2", self.optim.dense.l2), ("weight_decay", self.optim.dense.weight_decay)];
        let given = penalty.iter().find(|(_, value)| value.is_some_and(|value| value > 0.0));
        if let Some((name, _)) = given.filter(|_| sync.dense == DenseKind::Geeps) {
            return Err(format!(
                "sync.dense = geeps and optim.dense.{name}: its updates don't read the parameters; \
                 remove optim.dense.{name}, or give another sync.dense"
            ));
        }
        let rows = sync.rows.name();
        let in_step = match sync.dense {
            DenseKind::BSP => "sync.rows = exact",
            _ => "sync.dense = bsp and sync.rows = exact",
        };
        let refuse = |what: String, why: &str, mend: &str| {
            Err(format!("sync.rows = {rows} and {what}: {why}; give {mend}, or {in_step}"))
        };
        if self.ranks.exchange == ExchangeKind::WorkingSet {
            let why = "lent rows are updated in step";
            return refuse(
                "ranks.exchange = working_set".to_owned(),
                why,
                "ranks.exchange = owner",
            );
        }
        if self.pipeline.staleness > 0 {
            let what = format!("pipeline.staleness = {}", self.pipeline.staleness);
            return refuse(
                what,
                "it counts steps that all ranks take together",
                "pipeline.staleness = 0",
            );
        }
        let OptimConfig { rows: of_rows, dense: of_dense } = &self.optim;
        for (part, kind) in [("rows", of_rows.schedule), ("dense", of_dense.schedule)] {
            if kind == ScheduleKind::Plateau {
                let what = format!("optim.{part}.schedule = plateau");
                return refuse(what, "a rate falls on all ranks together", "another schedule");
            }
        }
        if of_dense.ema.is_some() {
            let why = "a mean has the parameters after each step of all ranks";
            return refuse("optim.dense.ema".to_owned(), why, "no optim.dense.ema");
        }
        if let Some((what, instead)) = self.with_statistics() {
            let why = "the statistics of all ranks are summed in each step";
            return refuse(what, why, &instead);
        }
        if self.train.dense == DensePlace::Device {
            let why = "protocols move dense parameters in the host's memory";
            return refuse("train.dense = device".to_owned(), why, "train.dense = host");
        }
        if !matches!(self.device, Choice::Host | Choice::Auto) {
            let why = "rows on devices are updated in step";
            return refuse(format!("device = {}", self.device), why, "device = host");
        }
        Ok(())
    }

    /// The setting of a layer with statistics of blocks of examples, and its alternative.
    fn with_statistics(&self) -> Option<(String, String)> {
        if self.model.kind != ModelKind::Graph {
            let counts_items = self.model.kind == ModelKind::TwoTower && self.model.log_q;
            let given =
                [(self.model.batch_norm, "model.batch_norm"), (counts_items, "model.log_q")];
            let found = given.iter().find(|(is_given, _)| *is_given);
            return found.map(|(_, key)| (format!("{key} = true"), format!("{key} = false")));
        }
        let is_one = |layer: &LayerConfig| match layer.kind {
            LayerKind::InBatchSoftmax => layer.inputs.len() > 2,
            kind => kind.normalizes_blocks(),
        };
        let place = self.model.layers.iter().position(is_one)?;
        let key = LayerConfig::key(place + 1, "kind");
        let kind = self.model.layers[place].kind.name();
        Some((format!("{key} = {kind}"), format!("layers without {kind}")))
    }
}
