use stepwell_settings::{ColumnConfig, LayerConfig, LayerKind};

use super::*;

/// A model of kind `kind` without hidden layers over these id columns.
fn model(kind: ModelKind, ids: &[&str]) -> (Config, Model) {
    let mut config = Config::default();
    (config.model.kind, config.model.dim) = (kind, 2);
    config.model.hidden.clear();
    let column = |names: &[&str]| ColumnConfig {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ColumnConfig::default()
    };
    let label = ColumnConfig { kind: stepwell_settings::ColumnType::Label, ..column(&["click"]) };
    config.columns = vec![label, column(ids)];
    let model = Model::build(&config, schema(&config).unwrap()).unwrap();
    (config, model)
}

/// The parameters of two models, matched.
fn parameters(was: (&Config, &Model), now: (&Config, &Model)) -> Matched {
    let axes = [was, now].map(|(config, model)| axes(config, model).unwrap());
    Matched::new([was.1.graph().parameters(), now.1.graph().parameters()], &axes)
}

/// The source of each number of parameter `name` in the previous model, -1 for none.
fn taken(kind: ModelKind, was: &[&str], now: &[&str], name: &str) -> Vec<f32> {
    let (was_config, was) = model(kind, was);
    let (config, now) = model(kind, now);
    let matched = parameters((&was_config, &was), (&config, &now));
    let before = was.graph().parameters();
    let first = before.iter().find(|of| of.name == name).unwrap().range.start;
    let from: Vec<f32> = (0..matched.count).map(|at| at as f32 - first as f32).collect();
    let parameters = now.graph().parameters();
    let mut to = vec![-1.0; parameters.last().unwrap().range.end];
    matched.copy(&from, &mut to);
    to[parameters.iter().find(|of| of.name == name).unwrap().range.clone()].to_vec()
}

#[test]
fn a_column_never_takes_over_what_another_one_learned() {
    let (new, kept) = ([-1.0, -1.0], [0.0, 1.0]);
    for (kind, name) in
        [(ModelKind::WideDeep, "mlp_out/weight"), (ModelKind::DeepFm, "mlp_out/weight")]
    {
        let found = taken(kind, &["a", "b"], &["a", "c"], name);
        assert_eq!(found[..4], [kept, new].concat(), "{kind:?}");
        let found = taken(kind, &["a", "b"], &["b", "a"], name);
        assert_eq!(found[..4], [2.0, 3.0, 0.0, 1.0], "{kind:?}");
    }
}

#[test]
fn both_halves_of_a_layer_keep_their_own() {
    // With two columns and a constant, each half has five places.
    let found = taken(ModelKind::Dcn, &["a", "b"], &["a", "b", "c"], "logit/weight");
    let half = |from: f32| vec![from, from + 1.0, from + 2.0, from + 3.0, -1.0, -1.0, from + 4.0];
    assert_eq!(found, [half(0.0), half(5.0)].concat());
}

/// A layer that normalizes columns of the input keeps their means and variances.
#[test]
fn a_column_keeps_its_own_mean_and_variance() {
    let of = |ids: &[&str]| {
        let (mut config, _) = model(ModelKind::Dcn, ids);
        config.model.kind = ModelKind::Graph;
        let norm = LayerConfig::new("norm", LayerKind::BatchNorm, &["embeddings"]);
        let logit = LayerConfig::new("logit", LayerKind::Linear, &["norm"]);
        config.model.layers = vec![norm, LayerConfig { width: Some(1), ..logit }];
        let model = Model::build(&config, schema(&config).unwrap()).unwrap();
        (config, model)
    };
    let ((was_config, was), (config, now)) = (of(&["a", "b"]), of(&["c", "b"]));
    let axes = [(&was_config, &was), (&config, &now)].map(|(c, of)| axes(c, of).unwrap());
    let state = Matched::new([was.graph().state(), now.graph().state()], &axes);
    let mut to = [-1.0; 8];
    let left = state.copy(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], &mut to);
    assert_eq!(to, [-1.0, -1.0, 2.0, 3.0, -1.0, -1.0, 6.0, 7.0]);
    assert_eq!(left, ["norm/mean", "norm/variance"]);
}

/// Labels in another order keep their gates, experts and towers.
#[test]
fn a_label_keeps_its_own_parts() {
    let of = |labels: &[&str]| {
        let (mut config, _) = model(ModelKind::Ple, &["a", "b"]);
        config.columns[0].names = labels.iter().map(|name| (*name).to_owned()).collect();
        (config.model.levels, config.model.hidden) = (2, vec![3]);
        let model = Model::build(&config, schema(&config).unwrap()).unwrap();
        (config, model)
    };
    // One label alone has the same parts.
    let (alone_config, alone) = of(&["click"]);
    let (was_config, was) = of(&["click", "buy"]);
    for (from, to) in [
        ((&alone_config, &alone), (&was_config, &was)),
        ((&was_config, &was), (&alone_config, &alone)),
    ] {
        let matched = parameters(from, to);
        let [before, after] = [from.1, to.1].map(|model| model.graph().parameters());
        let numbers: Vec<f32> = (0..matched.count).map(|at| at as f32).collect();
        let mut taken = vec![-1.0; after.last().unwrap().range.end];
        matched.copy(&numbers, &mut taken);
        for name in ["click/logit/weight", "click/logit/bias", "click/tower1/weight"] {
            let range = before.iter().find(|of| of.name == name).unwrap().range.clone();
            let own = after.iter().find(|of| of.name == name).unwrap().range.clone();
            assert_eq!(taken[own], numbers[range], "{name}");
        }
    }
    let (config, now) = of(&["buy", "click", "like"]);
    let matched = parameters((&was_config, &was), (&config, &now));
    let [before, after] = [&was, &now].map(|model| model.graph().parameters());
    let from: Vec<f32> = (0..matched.count).map(|at| at as f32).collect();
    let mut to = vec![-1.0; after.last().unwrap().range.end];
    matched.copy(&from, &mut to);
    let find = |of: &'_ [ParameterSpec], name: &str| {
        of.iter().find(|of| of.name == name).unwrap().range.clone()
    };
    for name in ["click/level1/gate/weight", "buy/tower1/weight", "buy/logit/bias"] {
        let numbers: Vec<f32> = find(before, name).map(|at| at as f32).collect();
        assert_eq!(to[find(after, name)], numbers, "{name}");
    }
    let new = &to[find(after, "like/tower1/weight")];
    assert!(new.iter().all(|number| *number == -1.0));
    // The shared gate weighs the shared experts, then those of each label.
    let (rows, name) = (&to[find(after, "level1/gate/bias")], "level1/gate/bias");
    let first = find(before, name).start as f32;
    let at = |row: f32| first + row;
    let shared = [at(0.0), at(1.0), at(2.0), at(3.0)];
    let (click, buy) = ([at(4.0), at(5.0)], [at(6.0), at(7.0)]);
    assert_eq!(rows, [&shared[..], &buy, &click, &[-1.0, -1.0]].concat());
}
