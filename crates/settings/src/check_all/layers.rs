//! Checks of the layers of `model.kind = graph`.

use std::collections::BTreeSet;

use crate::check::{GRAPH_LAYERS_MAX, Outcome};
use crate::config::{Config, LayerConfig, LayerKind, ModelKind, Need};
use crate::layer_settings::LAYER_SETTINGS;

/// Parts of a model's input, which layers can't have as names.
const PARTS: [&str; 4] = ["input", "embeddings", "dense", "first_order"];
/// Characters that begin other parts of the input.
const PREFIXES: [&str; 3] = ["column:", "bin:", "input["];
/// Most bytes of a name, which is a part of the names of exported files.
const NAME_MAX: usize = 100;

impl Config {
    /// Refuses layers that can't be built whatever the data.
    pub(super) fn check_layers(&self) -> Outcome {
        let layers = &self.model.layers;
        // Other kinds of models ignore them.
        if self.model.kind != ModelKind::Graph {
            return Ok(());
        }
        match layers.len() {
            0 => {
                return Err(
                    "model.kind = graph, but it has no layers: give model.layers, such as \
                            those that `stepwell config --model.kind deepfm --graph` prints"
                        .to_owned(),
                );
            }
            count if count > GRAPH_LAYERS_MAX => {
                return Err(format!(
                    "model.layers has {count} layers: give at most {GRAPH_LAYERS_MAX}"
                ));
            }
            _ => {}
        }
        let mut names = BTreeSet::new();
        for (number, layer) in (1..).zip(layers) {
            for setting in LAYER_SETTINGS {
                setting.check_as(&LayerConfig::key(number, setting.key), layer)?;
            }
            check_layer(number, layer)?;
            check_name(number, &layer.name)?;
            if !names.insert(layer.name.as_str()) {
                return Err(format!(
                    "{} is {}, as an earlier layer's: give each its own",
                    LayerConfig::key(number, "name"),
                    layer.name
                ));
            }
        }
        Ok(())
    }

    /// Refuses blocks of one example for layers that compare the examples of a block.
    pub(super) fn check_blocks(&self) -> Outcome {
        let (examples, blocks) = (self.data.mini_batch, self.train.blocks);
        let compares = self.trains_on_positives() || self.normalizes_blocks();
        if !compares || examples > blocks {
            return Ok(());
        }
        Err(format!(
            "data.mini_batch = {examples} and train.blocks = {blocks}: each block has one example, \
             but the model compares the examples of a block; give many times more examples than \
             blocks"
        ))
    }

    /// Whether columns are normalized over a block of examples.
    fn normalizes_blocks(&self) -> bool {
        let is_one = |layer: &LayerConfig| layer.kind.normalizes_blocks();
        match self.model.kind {
            ModelKind::Graph => self.model.layers.iter().any(is_one),
            kind => self.model.batch_norm && kind.has_hidden_layers(),
        }
    }
}

fn check_name(number: usize, name: &str) -> Outcome {
    let key = LayerConfig::key(number, "name");
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(format!("{key} is '{}': give a text", name.escape_default()));
    }
    if name.len() > NAME_MAX {
        return Err(format!("{key} has {} bytes: give at most {NAME_MAX}", name.len()));
    }
    if PARTS.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(format!(
            "{key} is {name}, which is a part of the model's input: give another name"
        ));
    }
    Ok(())
}

/// Refuses settings that the layer's kind doesn't take, and missing ones that it needs.
fn check_layer(number: usize, layer: &LayerConfig) -> Outcome {
    let (kind, takes) = (layer.kind.name(), layer.kind.takes());
    let key = |setting| LayerConfig::key(number, setting);
    let function = layer.function.map(|function| function.name().to_owned());
    let [width, dim] = [layer.width, layer.dim].map(|of| of.map(|value| value.to_string()));
    let [rate, temperature] =
        [layer.rate, layer.temperature].map(|of| of.map(|value| value.to_string()));
    let given = [
        ("width", width, takes.width, "64"),
        ("function", function, takes.function, "relu"),
        ("dim", dim, takes.dim, "16"),
        ("rate", rate, takes.rate, "0.1"),
        ("temperature", temperature, takes.temperature, "0.1"),
    ];
    for (setting, value, need, example) in given {
        match (value, need) {
            (Some(value), Need::Never) => {
                let key = key(setting);
                return Err(format!("{key} is {value}, but {kind} takes none: leave it out"));
            }
            (None, Need::Required) => {
                let key = key(setting);
                return Err(format!("{key} is missing: {kind} needs it, such as {example}"));
            }
            _ => {}
        }
    }
    if let (LayerKind::Linear, Some(function)) = (layer.kind, layer.function)
        && function.name() != "relu"
    {
        return Err(format!(
            "{} is {}: linear takes relu or none; give the function to an activate layer after it",
            key("function"),
            function.name()
        ));
    }
    if !layer.bias && layer.kind != LayerKind::Linear {
        return Err(format!("{} is false, but only linear takes it: leave it out", key("bias")));
    }
    if layer.zero && !takes.zero {
        return Err(format!(
            "{} is true, but {kind} has no weights to start at zero: leave it out",
            key("zero")
        ));
    }
    let (least, most) = takes.inputs;
    let count = layer.inputs.len();
    if (least..=most).contains(&count) {
        return Ok(());
    }
    let wanted = match (least, most) {
        (1, 1) => "1 (a concat layer joins several)".to_owned(),
        (least, most) if least == most => least.to_string(),
        (least, usize::MAX) => format!("{least} or more"),
        (least, most) => format!("{least} to {most}"),
    };
    let names = if count == 1 { "name" } else { "names" };
    Err(format!("{} has {count} {names}: {kind} takes {wanted}", key("inputs")))
}
