//! `mmoe` and `ple`: experts that labels mix by gates, and a tower for each label.

use stepwell_nn::{Concat, GraphBuilder, InputShape, Mixture, Source};
use stepwell_settings::{ModelConfig, ModelKind};

use super::parts::{Built, layer, mlp};

/// A value in the graph with its columns.
type Value = (usize, Source);

/// Levels of experts. In `mmoe`, there is one level, and all experts are shared. In `ple`, each
/// label also has its own, and a level's mixtures are the next level's inputs.
pub(super) fn experts(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    labels: &[String],
) -> Built<()> {
    let (levels, own) = match model.kind {
        ModelKind::Ple => (model.levels, model.label_experts),
        _ => (1, 0),
    };
    let whole = (input.columns(), Source::Columns(0..input.columns()));
    let mut shared = whole.clone();
    let mut of_labels = vec![whole; labels.len()];
    for level in 1..=levels {
        let mut level = Level { builder: &mut *builder, model, level };
        let common = level.experts(None, &shared, model.experts)?;
        let mut all = common.clone();
        let mut mixed = Vec::new();
        for (label, value) in labels.iter().zip(&of_labels) {
            let experts = level.experts(Some(label), value, own)?;
            all.extend_from_slice(&experts);
            let experts = [common.as_slice(), &experts].concat();
            mixed.push(level.mixture(Some(label), value, &experts)?);
        }
        if level.level < levels {
            shared = level.mixture(None, &shared, &all)?;
        }
        of_labels = mixed;
    }
    let mut logits = Vec::new();
    for (label, (columns, value)) in labels.iter().zip(of_labels) {
        let (width, top) = mlp(builder, &format!("{label}/tower"), &model.tower, columns, value)?;
        let logit = builder.add(&format!("{label}/logit"), layer(width, 1, false), &[top])?;
        logits.push(Source::Node(logit));
    }
    if logits.len() > 1 { builder.add("logits", Concat, &logits).map(drop) } else { Ok(()) }
}

/// A level of experts.
struct Level<'a> {
    builder: &'a mut GraphBuilder<f32>,
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
    fn experts(&mut self, label: Option<&str>, input: &Value, count: usize) -> Built<Vec<Value>> {
        let expert = |number| {
            let name = self.name(label, &format!("expert{number}/mlp"));
            mlp(self.builder, &name, &self.model.hidden, input.0, input.1.clone())
        };
        (1..=count).map(expert).collect()
    }

    /// Adds the mean of `experts`, weighted by a softmax of values that are linear in `input`.
    fn mixture(&mut self, label: Option<&str>, input: &Value, experts: &[Value]) -> Built<Value> {
        let columns = experts[0].0;
        let gate = layer(input.0, experts.len(), false);
        let name = self.name(label, "gate");
        let gate = self.builder.add(&name, gate, std::slice::from_ref(&input.1))?;
        let outputs = experts.iter().map(|(_, output)| output.clone());
        let sources: Vec<Source> = [Source::Node(gate)].into_iter().chain(outputs).collect();
        let mixture = Mixture { experts: experts.len(), columns };
        let name = self.name(label, "mixture");
        Ok((columns, Source::Node(self.builder.add(&name, mixture, &sources)?)))
    }
}
