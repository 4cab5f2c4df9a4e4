//! Usual learning rates, which depend on the model.
//!
//! Adagrad's first updates of a weight are as long as the rate, whatever the gradient. The logits
//! of `lr` and `fm` are sums over the id columns, so the same updates move them by a multiple of
//! the number of columns, and the rate that suits them falls with that number. Their few dense
//! parameters need a higher rate than those of hidden layers, because they have to grow to the size
//! of logits. `bench/rates.py` compares these rates with tuned ones.

use stepwell_data::Schema;

use crate::config::{Config, LayerConfig, ModelKind, expanded};

/// Usual rate of rows: this divided by the number of id columns, and at most a bound.
struct ByColumns {
    rate: f64,
    most: f64,
}

impl Config {
    /// Learning rate of rows: the given one, or the usual one of the model.
    pub fn row_rate(&self) -> f64 {
        self.optim.rows.lr.unwrap_or_else(|| match self.model.kind {
            ModelKind::Lr => self.rate_by_columns(&ByColumns { rate: 1.0, most: 0.25 }),
            ModelKind::Fm => self.rate_by_columns(&ByColumns { rate: 0.5, most: 0.1 }),
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

    fn rate_by_columns(&self, of: &ByColumns) -> f64 {
        let rate = (of.rate / self.summed_columns().max(1) as f64).min(of.most);
        // A short number in files and messages.
        (rate * 1e4).round() / 1e4
    }

    /// Number of id columns that the model reads. Wrong columns are refused elsewhere.
    fn summed_columns(&self) -> usize {
        if self.features.is_empty() {
            let layout = self.layout().unwrap_or_default();
            return layout.map_or(Schema::CRITEO, |layout| layout.schema()).id_columns;
        }
        let counts = self.features.iter().filter_map(|of| expanded(&of.columns).ok());
        counts.map(|columns| columns.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FeatureConfig, PresetKind};

    #[test]
    fn sums_over_many_columns_learn_in_small_steps() {
        let mut config = Config::default();
        assert_eq!((config.row_rate(), config.dense_rate()), (0.02, 0.001));
        config.model.kind = ModelKind::Lr;
        assert_eq!((config.row_rate(), config.dense_rate()), (0.0385, 0.01));
        config.data.preset = PresetKind::MovieLens;
        assert_eq!(config.row_rate(), 0.25);
        let of_five =
            FeatureConfig { columns: vec!["C1-C5".to_owned()], ..FeatureConfig::default() };
        config.features = vec![of_five];
        assert_eq!(config.row_rate(), 0.2);
        config.model.kind = ModelKind::Fm;
        assert_eq!((config.row_rate(), config.dense_rate()), (0.1, 0.005));
        (config.optim.rows.lr, config.optim.dense.lr) = (Some(0.3), Some(0.2));
        assert_eq!((config.row_rate(), config.dense_rate()), (0.3, 0.2));
    }
}
