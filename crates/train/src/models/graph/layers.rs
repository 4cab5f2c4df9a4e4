//! Lists of layers, and parts that several models have.

use std::ops::Range;

use stepwell_nn::Function;
use stepwell_settings::{LayerConfig, LayerKind, ModelConfig};

use super::input::ModelInput;

/// Layers of a model, in the order in which they are computed.
#[derive(Debug)]
pub(super) struct Layers {
    layers: Vec<LayerConfig>,
    /// Whether hidden layers are normalized over a block of examples.
    batch_norm: bool,
    /// Share of the values of hidden layers to drop.
    dropout: f64,
}

impl Layers {
    /// No layers yet; hidden ones are normalized and dropped as in `model`.
    pub(super) fn new(model: &ModelConfig) -> Self {
        let ModelConfig { batch_norm, dropout, .. } = *model;
        Self { layers: Vec::new(), batch_norm, dropout }
    }

    /// The layers as settings.
    pub(super) fn into_settings(self) -> Vec<LayerConfig> {
        self.layers
    }

    /// Adds a layer; returns its name.
    pub(super) fn add(&mut self, layer: LayerConfig) -> String {
        let name = layer.name.clone();
        self.layers.push(layer);
        name
    }

    /// Adds a layer without further settings; returns its name.
    pub(super) fn plain(&mut self, name: &str, kind: LayerKind, inputs: &[&str]) -> String {
        self.add(LayerConfig::new(name, kind, inputs))
    }

    /// Adds a layer over vectors of `dim` lanes; returns its name.
    pub(super) fn of_vectors(
        &mut self,
        name: &str,
        kind: LayerKind,
        (inputs, dim): (&[&str], usize),
    ) -> String {
        self.add(LayerConfig { dim: Some(dim), ..LayerConfig::new(name, kind, inputs) })
    }

    /// Adds the inputs side by side; returns their name.
    pub(super) fn concat(&mut self, name: &str, inputs: &[String]) -> String {
        let inputs = inputs.to_vec();
        self.add(LayerConfig { inputs, ..LayerConfig::new(name, LayerKind::Concat, &[]) })
    }

    /// Adds a linear layer of `width` columns; returns its name.
    pub(super) fn linear(&mut self, name: &str, input: &str, width: usize) -> String {
        self.add(linear(name, input, width))
    }

    /// Adds a linear layer with relu; returns its name.
    pub(super) fn relu(&mut self, name: &str, input: &str, width: usize) -> String {
        self.add(LayerConfig { function: Some(Function::Relu), ..linear(name, input, width) })
    }

    /// Adds a linear layer, its normalization over a block, which replaces the bias by a shift, and
    /// relu; returns the name of the last one.
    fn normalized(&mut self, name: &str, input: &str, width: usize) -> String {
        let sums = self.add(LayerConfig { bias: false, ..linear(name, input, width) });
        let norm = self.plain(&format!("{name}/norm"), LayerKind::BatchNorm, &[&sums]);
        let relu = LayerConfig::new(&format!("{name}/relu"), LayerKind::Activate, &[&norm]);
        self.add(LayerConfig { function: Some(Function::Relu), ..relu })
    }

    /// Adds hidden layers `<name>1`, `<name>2` and so on; returns the name of the last one, or the
    /// input if there are none.
    pub(super) fn mlp(&mut self, name: &str, widths: &[usize], input: &str) -> String {
        let mut input = input.to_owned();
        for (number, width) in (1..).zip(widths) {
            let name = format!("{name}{number}");
            input = if self.batch_norm {
                self.normalized(&name, &input, *width)
            } else {
                self.relu(&name, &input, *width)
            };
            if self.dropout > 0.0 {
                let dropout =
                    LayerConfig::new(&format!("{name}/dropout"), LayerKind::Dropout, &[&input]);
                input = self.add(LayerConfig { rate: Some(self.dropout), ..dropout });
            }
        }
        input
    }

    /// The embeddings as vectors of `dim` lanes: others are projected, empty ones are left out.
    /// Returns their name.
    pub(super) fn vectors(&mut self, input: &ModelInput<'_>, dim: usize) -> String {
        let fields = input.fields();
        if fields.iter().all(|field| field.len() == dim) {
            return "embeddings".to_owned();
        }
        let mut vectors = Vec::new();
        let mut adjacent: Option<Range<usize>> = None;
        for (number, field) in (1..).zip(fields) {
            match &mut adjacent {
                _ if field.is_empty() => {}
                // Adjacent embeddings are read as one.
                Some(before) if field.len() == dim && before.end == field.start => {
                    before.end = field.end;
                }
                _ => {
                    vectors.extend(adjacent.take().map(|columns| input.name(&columns)));
                    if field.len() == dim {
                        adjacent = Some(field);
                    } else {
                        let project = linear(&format!("project{number}"), &input.name(&field), dim);
                        vectors.push(self.add(LayerConfig { bias: false, ..project }));
                    }
                }
            }
        }
        vectors.extend(adjacent.map(|columns| input.name(&columns)));
        self.concat("vectors", &vectors)
    }
}

/// A linear layer of `width` columns.
pub(super) fn linear(name: &str, input: &str, width: usize) -> LayerConfig {
    LayerConfig { width: Some(width), ..LayerConfig::new(name, LayerKind::Linear, &[input]) }
}
