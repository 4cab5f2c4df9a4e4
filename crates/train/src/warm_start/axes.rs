//! Labels along the axes of dense parameters.
//!
//! - **Why.** A layer over a model's whole input has a column for each lane of each feature. When
//!   features are added or removed, the others keep what was learned.
//! - **How.** Each place along an axis has a label: the lane of a feature, a dense feature, an
//!   output of a layer. Equal labels match. An output's label names the layer's width, so layers of
//!   different widths don't match.

use std::collections::HashMap;

use stepwell_settings::{Config, ModelKind};

use crate::Result;
use crate::models::Model;
use crate::run_plan::schema;

/// Labels along an axis.
type Axis = Vec<String>;
/// Labels along the axes of a parameter.
pub(super) type Axes = Vec<Axis>;

/// Axes of the parameters that depend on the model's input or labels, by parameter name. All other
/// parameters match by shape.
pub(super) fn axes(config: &Config, model: &Model) -> Result<HashMap<String, Axes>> {
    let embeddings = model.field_lanes();
    let dense = dense_names(config)?;
    let lanes: Axis = embeddings.iter().flatten().cloned().collect();
    let whole: Axis = lanes.iter().chain(&dense).cloned().collect();
    let hidden = &config.model.hidden;
    let deep = last_of("mlp", hidden, &whole);
    let logits: Axis = model.labels().iter().map(|label| label.name.clone()).collect();
    let mut axes = HashMap::new();
    let mut layer = |name: &str, outputs: &Axis, inputs: &Axis| {
        axes.insert(format!("{name}/weight"), vec![outputs.clone(), inputs.clone()]);
        axes.insert(format!("{name}/bias"), vec![outputs.clone()]);
    };
    for (number, of) in (1..).zip(&embeddings) {
        layer(&format!("project{number}"), &outputs("project", config.model.dim), of);
    }
    let first = hidden.first().map(|width| outputs("mlp1", *width));
    match config.model.kind {
        ModelKind::Lr | ModelKind::Fm | ModelKind::WideDeep | ModelKind::DeepFm => {
            first.iter().for_each(|first| layer("mlp1", first, &whole));
            layer("linear", &outputs("linear", 1), &dense);
            layer("mlp_out", &outputs("mlp_out", 1), &deep);
            let mut shared = vec!["first order".to_owned()];
            shared.extend(dense.iter().cloned());
            if config.model.kind.has_hidden_layers() {
                shared.extend(deep);
            }
            if config.model.kind.has_pairs() {
                shared.push("pairs".to_owned());
            }
            layer("logits", &logits, &shared);
        }
        ModelKind::Dcn => {
            first.iter().for_each(|first| layer("mlp1", first, &whole));
            for number in 1..=config.model.cross_layers {
                layer(&format!("cross{number}"), &whole, &whole);
            }
            layer("logit", &logits, &whole.iter().cloned().chain(deep).collect());
        }
        ModelKind::Dlrm => {
            let bottom = [config.model.bottom.as_slice(), &[config.model.dim]].concat();
            layer("bottom1", &outputs("bottom1", bottom[0]), &dense);
            let last = outputs("bottom", config.model.dim);
            let fields = embeddings.iter().filter_map(|lanes| lanes.first());
            let vectors: Axis = ["bottom".to_owned()].into_iter().chain(fields.cloned()).collect();
            let pair = |later: usize| {
                let later_name = &vectors[later];
                let name = move |earlier: &String| format!("{earlier} x {later_name}");
                vectors[..later].iter().map(name).collect::<Axis>()
            };
            let pairs = (1..vectors.len()).flat_map(pair);
            let both: Axis = last.into_iter().chain(pairs).collect();
            first.iter().for_each(|first| layer("mlp1", first, &both));
            layer("logit", &logits, &last_of("mlp", hidden, &both));
        }
        ModelKind::FinalMlp => {
            first.iter().for_each(|first| layer("mlp1", first, &whole));
            let second = &config.model.second;
            second.first().iter().for_each(|width| {
                layer("second1", &outputs("second1", **width), &whole);
            });
            let last = last_of("second", second, &whole);
            layer("bilinear", &last, &deep);
            let mut both: Axis = deep.into_iter().chain(last).collect();
            layer("linear", &outputs("linear", 1), &both);
            both.push("fusion".to_owned());
            layer("logits", &logits, &both);
        }
    }
    Ok(axes)
}

/// Labels of the output of hidden layers, or of their input if there are none, apart from those of
/// the input itself.
fn last_of(name: &str, widths: &[usize], input: &Axis) -> Axis {
    match widths.last() {
        Some(width) => outputs(name, *width),
        None => input.iter().map(|label| format!("{name} {label}")).collect(),
    }
}

/// Labels of a layer's `count` outputs.
fn outputs(layer: &str, count: usize) -> Axis {
    (0..count).map(|number| format!("{layer} {number} of {count}")).collect()
}

/// Labels of the dense features, including the constant one.
fn dense_names(config: &Config) -> Result<Axis> {
    let layout = config.layout().map_err(crate::Error::Config)?;
    let Some(layout) = layout else {
        return Ok((1..=schema(config)?.dense).map(|number| format!("I{number}")).collect());
    };
    let mut names = Axis::new();
    for name in layout.dense_names() {
        let label = match (name, names.last()) {
            (Some(name), _) => format!("number {name}"),
            (None, Some(of)) => format!("{of} is missing"),
            (None, None) => "constant".to_owned(),
        };
        names.push(label);
    }
    names.resize(schema(config)?.dense, "constant".to_owned());
    Ok(names)
}
