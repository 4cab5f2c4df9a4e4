//! A model's list of layers is the model: read back from settings, it has the same nodes,
//! parameters and tables.

use stepwell_engine::Pooling;
use stepwell_settings::{
    ColumnConfig, ColumnType, FeatureConfig, LayerConfig, LayerKind, TableConfig,
};

use super::*;
use crate::run_plan::schema;

fn build(config: &Config) -> Result<Model> {
    config.check().map_err(Error::Config)?;
    Model::build(config, schema(config)?)
}

/// Everything that the bits of a model depend on.
fn described(model: &Model) -> String {
    let nodes: Vec<_> = model.graph().nodes().collect();
    let (parameters, tables) = (model.graph().parameters(), model.tables());
    let columns = model.embedding();
    let derived: Vec<String> = model.features().derived_names().collect();
    format!("{nodes:#?} {parameters:#?} {tables:#?} {columns:?} {derived:?}")
}

/// The configuration with the layers of its model instead of the model's kind.
fn as_graph(config: &Config) -> Config {
    config.as_graph(Model::layers(config, schema(config).unwrap()).unwrap())
}

/// Features over three tables of different dimensions; some columns have several, and some aren't
/// pooled.
fn with_tables(mut config: Config) -> Config {
    let table = |name: &str, dim| TableConfig { dim: Some(dim), ..TableConfig::named(name) };
    config.model.dim = 4;
    config.tables = vec![table("wide", 8), table("narrow", 4)];
    let of = |columns: &str, table: &str, pooling, ids| FeatureConfig {
        columns: vec![columns.to_owned()],
        table: table.to_owned(),
        pooling,
        ids,
        weight: None,
    };
    config.features = vec![
        of("C1-C3", "wide", Pooling::Sum, 1),
        of("C4-C5", "narrow", Pooling::Mean, 1),
        of("C2", "narrow", Pooling::Sum, 1),
        of("C6", "narrow", Pooling::None, 3),
        of("C7", "wide", Pooling::None, 2),
    ];
    config
}

/// Data of a shop: an item, the items before it, a user and a price.
fn shop() -> Config {
    let mut config = Config::default();
    let column = |names: &[&str], kind| ColumnConfig {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        kind,
        ..ColumnConfig::default()
    };
    config.data.paths = vec!["shop.csv".to_owned()];
    config.columns = vec![
        column(&["clicked", "bought"], ColumnType::Label),
        column(&["price", "input"], ColumnType::Dense),
        column(&["user", "item", "shop-1"], ColumnType::Id),
        ColumnConfig {
            namespace: Some("item".to_owned()),
            separator: " ".to_owned(),
            ids: 5,
            ..column(&["items", "a-b"], ColumnType::Ids)
        },
    ];
    let of = |column: &str, pooling, ids| FeatureConfig {
        columns: vec![column.to_owned()],
        table: "embedding".to_owned(),
        pooling,
        ids,
        weight: None,
    };
    config.features = vec![
        of("user", Pooling::Sum, 1),
        of("items", Pooling::None, 5),
        of("item", Pooling::Sum, 1),
        of("a-b", Pooling::None, 4),
        of("shop-1", Pooling::Sum, 1),
        // The same sequence as a bag.
        of("items", Pooling::Mean, 5),
    ];
    config
}

fn with_kind(mut config: Config, kind: ModelKind) -> Config {
    config.model.kind = kind;
    (config.model.hidden, config.model.second) = (vec![6, 5], vec![3]);
    config.model.target = vec!["item".to_owned(), "item".to_owned()];
    config.model.sequences = vec!["items".to_owned(), "a-b".to_owned()];
    config.model.item = vec!["item".to_owned(), "a-b".to_owned()];
    config
}

#[test]
fn layers_of_a_model_are_the_model() {
    let mut names = String::new();
    for (number, kind) in ModelKind::OF_ANY_DATA.into_iter().enumerate() {
        for mut config in [Config::default(), with_tables(Config::default()), shop()] {
            config.model.dropout = [0.0, 0.25][number % 2];
            config.model.batch_norm = number % 3 == 0;
            let config = with_kind(config, kind);
            let graph = as_graph(&config);
            assert_eq!(described(&build(&config).unwrap()), described(&build(&graph).unwrap()));
            let text = stepwell_settings::to_json(&graph);
            assert_eq!(stepwell_settings::from_json(&text), Ok(graph.clone()));
            names += &format!("{:?}", graph.model.layers);
        }
    }
    for kind in [ModelKind::Din, ModelKind::TwoTower] {
        let mut config = with_kind(shop(), kind);
        if kind == ModelKind::TwoTower {
            config.columns[0].names.truncate(1);
        }
        let graph = as_graph(&config);
        assert_eq!(described(&build(&config).unwrap()), described(&build(&graph).unwrap()));
        names += &format!("{:?}", graph.model.layers);
    }
    // Each form of a name occurs.
    for name in [
        "\"input\"",
        "\"dense\"",
        "\"embeddings\"",
        "\"first_order\"",
        "\"column:C1-C3\"",
        "\"column:C4-C6\"",
        "\"column:C2/1\"",
        "\"column:C7#1\"",
        "\"column:a-b\"",
        "\"column:items/1\"",
        "\"column:shop-1-input\"",
    ] {
        assert!(names.contains(name), "{name}");
    }
}

/// The message that refuses these layers.
fn refused(layers: &[LayerConfig]) -> String {
    let mut config = shop();
    config.columns[0].names.truncate(1);
    (config.model.kind, config.model.layers) = (ModelKind::Graph, layers.to_vec());
    build(&config).err().map(|error| error.to_string()).unwrap_or_default()
}

fn linear(name: &str, input: &str, width: usize) -> LayerConfig {
    LayerConfig { width: Some(width), ..LayerConfig::new(name, LayerKind::Linear, &[input]) }
}

#[test]
fn layers_that_fit_nothing_are_refused_by_name() {
    let logit = || linear("logit", "hidden", 1);
    let fine = [linear("hidden", "input", 4), logit()];
    assert_eq!(refused(&fine), "");
    for (layers, says) in [
        (vec![], "model.kind = graph, but it has no layers"),
        (vec![linear("logit", "input", 2)], "'logit', has 2 columns"),
        (vec![logit()], "layer 'logit' has the input hidden, which is neither a layer nor"),
        (vec![logit(), linear("hidden", "input", 4)], "which isn't before it"),
        (vec![linear("logit", "column:nix", 1)], "column:nix, but the model reads no such column"),
        (vec![linear("logit", "column:user", 1)], "no layer reads the embeddings of column items"),
        (vec![fine[0].clone(), linear("logit", "input", 1)], "layer 'hidden' feeds nothing"),
        (
            vec![
                linear("a", "input", 4096),
                LayerConfig {
                    dim: Some(1),
                    ..LayerConfig::new("b", LayerKind::DotInteraction, &["a"])
                },
                linear("logit", "b", 1),
            ],
            "layer 'b' has more than 4194304 columns: give fewer",
        ),
        (vec![linear("logit", "dense", 1)], "read embeddings or first_order in model.layers"),
        (vec![linear("dense", "input", 1)], "model.layers.1.name is dense, which is a part"),
        (vec![logit(), logit()], "model.layers.2.name is logit, as an earlier layer's"),
        (vec![LayerConfig { width: None, ..fine[0].clone() }], "model.layers.1.width is missing"),
        (
            vec![LayerConfig { dim: Some(3), ..fine[0].clone() }],
            "model.layers.1.dim is 3, but linear takes none",
        ),
        (
            vec![LayerConfig::new("a", LayerKind::Multiply, &["input"])],
            "model.layers.1.inputs has 1 name: multiply takes 2",
        ),
        (
            vec![LayerConfig {
                dim: Some(7),
                ..LayerConfig::new("a", LayerKind::FactorizationMachine, &["embeddings"])
            }],
            "layer 'a': it takes one input of",
        ),
        (
            vec![LayerConfig {
                width: Some(8),
                ..LayerConfig::new("a", LayerKind::TargetAttention, &["column:item", "input"])
            }],
            "layer 'a': its second input isn't a sequence",
        ),
        (
            vec![LayerConfig::new("a", LayerKind::MultiHeadAttention, &["input", "embeddings"])],
            "layer 'a': its second input isn't a sequence",
        ),
        (
            vec![LayerConfig { zero: true, ..LayerConfig::new("a", LayerKind::Add, &["input"]) }],
            "model.layers.1.zero is true, but add has no weights",
        ),
    ] {
        let said = refused(&layers);
        assert!(said.contains(says) && !said.contains('\n'), "{says}: {said}");
    }
}

#[test]
fn names_that_stand_for_nothing_are_refused_with_the_fix() {
    for (layers, says) in [
        (
            vec![linear("logit", "column:item-user", 1)],
            "column:item-user, but the input has these columns in the reverse order: swap them",
        ),
        (
            vec![linear("logit", "input[0..9999]", 1)],
            "input[0..9999], but the input has 210 columns: give input[A..B] with A < B, and B at \
             most 210",
        ),
        (vec![linear("logit", "input[3..3]", 1)], "give input[A..B] with A < B,"),
        (
            vec![linear("a/b", "input", 4), linear("a.b", "a/b", 4), linear("logit", "a.b", 1)],
            "layers a/b and a.b would both be exported as a.b.weight: rename a layer",
        ),
        (
            vec![linear(&"n".repeat(101), "input", 1)],
            "model.layers.1.name has 101 bytes: give at most 100",
        ),
    ] {
        let said = refused(&layers);
        assert!(said.contains(says) && !said.contains('\n'), "{says}: {said}");
    }
}

/// A model without embeddings has no lanes for them, whatever `model.dim` is.
#[test]
fn embeddings_that_no_layer_reads_do_not_exist() {
    let mut config = Config::default();
    let sum = LayerConfig::new("logit", LayerKind::Add, &["first_order", "linear"]);
    config.model.layers = vec![linear("linear", "dense", 1), sum];
    config.model.kind = ModelKind::Graph;
    let model = build(&config).unwrap();
    assert_eq!((model.tables()[0].dim, model.tables()[0].wide), (0, 1));
}
