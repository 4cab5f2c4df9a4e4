//! Usual learning rates, which depend on the model.
//!
//! Adagrad's first updates of a weight are as long as the rate, whatever the gradient. The logits
//! of `lr` and `fm` are sums over an example's ids, so the same updates move them by a multiple of
//! the number of ids, and the rate that suits them falls with that number. Their few dense
//! parameters need a higher rate than those of hidden layers, because they have to grow to the size
//! of logits. `bench/rates.py` compares these rates with tuned ones.

use stepwell_data::Schema;
use stepwell_engine::Pooling;

use crate::config::{
    ColumnConfig, ColumnType, Config, FeatureConfig, LayerConfig, ModelKind, expanded,
};

/// The most ids that a list is expected to have, though it may have more.
const LIST: usize = 50;
/// The lowest usual rate of rows.
const LEAST: f64 = 0.001;

/// Usual rate of rows: this divided by the number of ids of an example, and at most a bound.
struct ByIds {
    rate: f64,
    most: f64,
}

impl Config {
    /// Learning rate of rows: the given one, or the usual one of the model.
    pub fn row_rate(&self) -> f64 {
        self.optim.rows.lr.unwrap_or_else(|| match self.model.kind {
            ModelKind::Lr => self.rate_by_ids(&ByIds { rate: 1.0, most: 0.25 }),
            ModelKind::Fm => self.rate_by_ids(&ByIds { rate: 0.5, most: 0.1 }),
            _ => 0.02,
        })
    }

    /// Learning rate of dense parameters: the given one, or the usual one of the model.
    pub fn dense_rate(&self) -> f64 {
        self.optim.dense.lr.unwrap_or(match self.model.kind {
            ModelKind::Lr => 0.01,
            ModelKind::Fm => 0.005,
            _ => 0.001,
        })
    }

    /// The same settings, with the learning rates in use written out.
    pub fn with_rates(&self) -> Self {
        let mut all = self.clone();
        all.optim.rows.lr = Some(self.row_rate());
        all.optim.dense.lr = Some(self.dense_rate());
        all
    }

    /// The same model as `graph` with `layers`, the model's own.
    pub fn as_graph(&self, layers: Vec<LayerConfig>) -> Self {
        let mut graph = self.clone();
        (graph.model.kind, graph.model.layers) = (ModelKind::Graph, layers);
        if graph.row_rate() != self.row_rate() {
            graph.optim.rows.lr = Some(self.row_rate());
        }
        if graph.dense_rate() != self.dense_rate() {
            graph.optim.dense.lr = Some(self.dense_rate());
        }
        graph
    }

    fn rate_by_ids(&self, of: &ByIds) -> f64 {
        let rate = (of.rate / self.expected_ids().max(1) as f64).clamp(LEAST, of.most);
        // A short number in files and messages.
        (rate * 1e4).round() / 1e4
    }

    /// Number of ids that an example is expected to have: one for each column, or several for a
    /// list. Wrong columns are refused elsewhere.
    fn expected_ids(&self) -> usize {
        let count =
            |names: &[String], ids: usize| expanded(names).map_or(0, |names| names.len() * ids);
        if !self.features.is_empty() {
            let of_feature = |of: &FeatureConfig| match of.pooling {
                Pooling::Sum | Pooling::None => count(&of.columns, of.ids.clamp(1, LIST)),
                _ => count(&of.columns, 1),
            };
            return self.features.iter().map(of_feature).sum();
        }
        let lists = self.columns.iter().filter(|of| of.kind == ColumnType::Ids);
        let more: usize = lists.map(|of| count(&of.names, of.expected_ids() - 1)).sum();
        let layout = self.layout().unwrap_or_default();
        more + layout.map_or(Schema::CRITEO, |layout| layout.schema()).id_columns
    }
}

impl ColumnConfig {
    /// Number of ids that a list is expected to have: as many as it may have, up to a bound.
    fn expected_ids(&self) -> usize {
        let of_sources = if self.of.len() > 1 { expanded(&self.of).ok() } else { None };
        let of_sources = of_sources.map_or(usize::MAX, |of| of.len());
        let of_bins = self.bins.map_or(usize::MAX, |bins| bins as usize);
        self.ids.min(of_sources).min(of_bins).clamp(1, LIST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PresetKind;

    #[test]
    fn sums_over_many_ids_learn_in_small_steps() {
        let mut config = Config::default();
        assert_eq!((config.row_rate(), config.dense_rate()), (0.02, 0.001));
        config.model.kind = ModelKind::Lr;
        assert_eq!((config.row_rate(), config.dense_rate()), (0.0385, 0.01));
        config.data.preset = PresetKind::MovieLens;
        assert_eq!(config.row_rate(), 0.25);
        let of_five =
            FeatureConfig { columns: vec!["C1-C5".to_owned()], ..FeatureConfig::default() };
        config.features = vec![FeatureConfig { pooling: Pooling::Mean, ids: 9, ..of_five.clone() }];
        assert_eq!(config.row_rate(), 0.2);
        config.features = vec![of_five.clone(), FeatureConfig { ids: 20, ..of_five }];
        assert_eq!(config.row_rate(), 0.0095);
        config.features.clear();
        let column = |name: &str, kind, ids| {
            let names = vec![name.to_owned()];
            ColumnConfig { names, kind, ids, ..ColumnConfig::default() }
        };
        let label = column("click", ColumnType::Label, 1);
        config.columns = vec![label, column("indices", ColumnType::Ids, 256)];
        assert_eq!(config.row_rate(), 0.02);
        let plain = config.columns[1].clone();
        config.columns[1].bins = Some(10);
        assert_eq!(config.row_rate(), 0.1);
        config.columns[1].of = vec!["user".to_owned(), "item".to_owned()];
        config.columns.push(column("user", ColumnType::Ignored, 1));
        config.columns.push(column("item", ColumnType::Ignored, 1));
        assert_eq!(config.row_rate(), 0.25);
        config.columns.truncate(2);
        config.columns[1] = plain;
        config.columns.push(column("x1-x5000", ColumnType::Id, 1));
        assert_eq!(config.row_rate(), 0.001);
        config.columns.truncate(1);
        config.columns.push(column("user", ColumnType::Id, 1));
        config.model.kind = ModelKind::Fm;
        assert_eq!((config.row_rate(), config.dense_rate()), (0.1, 0.005));
        let written = config.with_rates();
        assert_eq!((written.optim.rows.lr, written.optim.dense.lr), (Some(0.1), Some(0.005)));
        (config.optim.rows.lr, config.optim.dense.lr) = (Some(0.3), Some(0.2));
        assert_eq!((config.row_rate(), config.dense_rate()), (0.3, 0.2));
    }
}
