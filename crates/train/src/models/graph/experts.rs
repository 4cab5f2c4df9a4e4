//! `mmoe` and `ple`: experts that labels mix by gates, and a tower for each label.

use stepwell_settings::{LayerConfig, LayerKind, ModelConfig, ModelKind};

use super::layers::Layers;

/// Levels of experts. In `mmoe`, there is one level, and all experts are shared. In `ple`, each
/// label also has its own, and a level's mixtures are the next level's inputs.
pub(super) fn experts(layers: &mut Layers, model: &ModelConfig, labels: &[&str]) {
    let (levels, own) = match model.kind {
        ModelKind::Ple => (model.levels, model.label_experts),
        _ => (1, 0),
    };
    let mut shared = "input".to_owned();
    let mut of_labels = vec![shared.clone(); labels.len()];
    for level in 1..=levels {
        let mut level = Level { layers: &mut *layers, model, level };
        let common = level.experts(None, &shared, model.experts);
        let mut all = common.clone();
        let mut mixed = Vec::new();
        for (label, value) in labels.iter().zip(&of_labels) {
            let experts = level.experts(Some(label), value, own);
            all.extend_from_slice(&experts);
            let experts = [common.as_slice(), &experts].concat();
            mixed.push(level.mixture(Some(label), value, &experts));
        }
        if level.level < levels {
            shared = level.mixture(None, &shared, &all);
        }
        of_labels = mixed;
    }
    let mut logits = Vec::new();
    for (label, value) in labels.iter().zip(of_labels) {
        let top = layers.mlp(&format!("{label}/tower"), &model.tower, &value);
        logits.push(layers.linear(&format!("{label}/logit"), &top, 1));
    }
    if logits.len() > 1 {
        layers.concat("logits", &logits);
    }
}

/// A level of experts.
struct Level<'a> {
    layers: &'a mut Layers,
    model: &'a ModelConfig,
    level: usize,
}

impl Level<'_> {
    /// Name of a part of this level that belongs to `label`, or to all labels.
    fn name(&self, label: Option<&str>, part: &str) -> String {
        let level = self.level;
        label.map_or_else(
            || format!("level{level}/{part}"),
            |label| format!("{label}/level{level}/{part}"),
        )
    }

    /// Adds `count` experts over `input`, which belong to `label` or to all labels.
    fn experts(&mut self, label: Option<&str>, input: &str, count: usize) -> Vec<String> {
        let expert = |number| {
            let name = self.name(label, &format!("expert{number}/mlp"));
            self.layers.mlp(&name, &self.model.hidden, input)
        };
        (1..=count).map(expert).collect()
    }

    /// Adds the mean of `experts`, weighted by a softmax of values that are linear in `input`.
    fn mixture(&mut self, label: Option<&str>, input: &str, experts: &[String]) -> String {
        let gate = self.layers.linear(&self.name(label, "gate"), input, experts.len());
        let inputs = [&[gate], experts].concat();
        let name = self.name(label, "mixture");
        let mixture = LayerConfig::new(&name, LayerKind::Mixture, &[]);
        self.layers.add(LayerConfig { inputs, ..mixture })
    }
}
