//! The models: which tables they have and which layers stand on them.
//!
//! ```text
//!   lr         first order + linear(dense)
//!   wide_deep  first order + linear(dense) + mlp(embeddings, dense)
//!   deepfm     first order + linear(dense) + mlp(embeddings, dense) + fm(embeddings)
//! ```
//!
//! Sources: Cheng et al., "Wide & Deep Learning for Recommender Systems" (DLRS 2016); Guo et al.,
//! "DeepFM" (IJCAI 2017). The wide weight of an id is one more lane of its row, so that a row is
//! fetched once.

use std::ops::Range;

use stepwell_base::TableId;
use stepwell_data::Schema;
use stepwell_nn::{
    Activation, Add, FactorizationMachine, Graph, GraphBuilder, GraphError, InputShape, Linear,
    NodeId, Source,
};
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_server::TableSpec;

use crate::config::{Config, ModelKind, OptimizerConfig, OptimizerKind};
use crate::{Error, Result};

/// A model: tables and the graph on them.
#[derive(Debug)]
pub struct Model {
    graph: Graph<f32>,
    tables: Vec<TableSpec>,
    /// Feature fields of each table group.
    group_fields: Vec<Vec<usize>>,
    /// First column in the graph's input of each field of each group.
    field_columns: Vec<Vec<usize>>,
}

impl Model {
    /// The model that `config` names, over data of `schema`.
    ///
    /// # Errors
    /// Settings from which no model can be built.
    pub fn build(config: &Config, schema: Schema) -> Result<Self> {
        let graph = graph(config, schema).map_err(|error| Error::Config(error.to_string()))?;
        let dim = embedding_dim(config);
        let rule = rule(&config.rows);
        let optimizer =
            RowOptimizer::new(rule).map_err(|e| Error::Config(format!("optim.rows: {e}")))?;
        let table = TableSpec {
            id: TableId(0),
            name: "embedding".to_owned(),
            dim,
            wide: 1,
            optimizer,
            init_range: config.model.init_range as f32,
            seed: config.seed,
            life: config.life.life(),
        };
        Ok(Self {
            graph,
            tables: vec![table],
            group_fields: vec![(0..schema.slots).collect()],
            field_columns: vec![(0..schema.slots).map(|field| field * dim).collect()],
        })
    }

    /// The dense part.
    pub fn graph(&self) -> &Graph<f32> {
        &self.graph
    }

    /// The tables, one for each group.
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// Feature fields of each table group.
    pub fn group_fields(&self) -> &[Vec<usize>] {
        &self.group_fields
    }

    /// First column of each field of a group in the graph's input.
    pub fn field_columns(&self, group: usize) -> &[usize] {
        &self.field_columns[group]
    }

    /// Columns of the graph's input.
    pub fn columns(&self) -> usize {
        self.graph.input().columns()
    }

    /// Those of them that are embeddings; they come first.
    pub fn embedding_columns(&self) -> usize {
        self.graph.input().embedding
    }
}

/// The rule that an optimizer follows.
pub(crate) fn rule(config: &OptimizerConfig) -> Rule {
    match config.kind {
        OptimizerKind::Sgd => Rule::sgd(config.lr),
        OptimizerKind::Adagrad => Rule::adagrad(config.lr),
        OptimizerKind::Adam => Rule::adam(config.lr),
    }
}

fn embedding_dim(config: &Config) -> usize {
    if config.model.kind == ModelKind::Lr { 0 } else { config.model.dim }
}

fn graph(config: &Config, schema: Schema) -> std::result::Result<Graph<f32>, GraphError> {
    let dim = embedding_dim(config);
    let embedding = schema.slots * dim;
    let input = InputShape { embedding, dense: schema.dense };
    let mut builder = GraphBuilder::new(input);
    let dense = embedding..input.columns();
    let linear = builder.add("linear", layer(dense.len(), 1, false), &[Source::Columns(dense)])?;
    let mut logit = vec![Source::FirstOrder, Source::Node(linear)];
    if config.model.kind != ModelKind::Lr {
        let top = mlp(&mut builder, &config.model.hidden, 0..input.columns())?;
        logit.push(Source::Node(top));
    }
    if config.model.kind == ModelKind::DeepFm {
        let layer = FactorizationMachine { slots: schema.slots, dim };
        let fm = builder.add("fm", layer, &[Source::Columns(0..embedding)])?;
        logit.push(Source::Node(fm));
    }
    builder.add("logit", Add, &logit)?;
    builder.build()
}

fn layer(inputs: usize, outputs: usize, hidden: bool) -> Linear {
    let activation = if hidden { Activation::Relu } else { Activation::Identity };
    Linear { inputs, outputs, bias: true, activation }
}

fn mlp(
    builder: &mut GraphBuilder<f32>,
    hidden: &[usize],
    columns: Range<usize>,
) -> std::result::Result<NodeId, GraphError> {
    let (mut width, mut source) = (columns.len(), Source::Columns(columns));
    for (number, outputs) in hidden.iter().enumerate() {
        let name = format!("mlp{}", number + 1);
        let node = builder.add(&name, layer(width, *outputs, true), &[source])?;
        (width, source) = (*outputs, Source::Node(node));
    }
    builder.add("mlp_out", layer(width, 1, false), &[source])
}

/// Name of the instruction sets that sums are made with on this machine.
pub fn kernels() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            return "x86-64 avx512f f32".to_owned();
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            return "x86-64 avx2 fma f32".to_owned();
        }
    }
    format!("{} f32", std::env::consts::ARCH)
}
