//! The models: which tables they have and which layers stand on them.
//!
//! ```text
//!   lr         first order + linear(dense)
//!   wide_deep  first order + linear(dense) + mlp(embeddings, dense)
//!   deepfm     first order + linear(dense) + mlp(embeddings, dense) + fm(embeddings)
//!   dcn        linear(cross(x), mlp(x)), x = (embeddings, dense): no first order
//!   dlrm       mlp(b, dots(b, embeddings)), b = mlp(dense): no first order
//! ```
//!
//! Sources: Cheng et al., "Wide & Deep Learning for Recommender Systems" (DLRS 2016); Guo et al.,
//! "DeepFM" (IJCAI 2017); Wang et al., "DCN V2" (WWW 2021), its parallel structure; Naumov et al.,
//! "Deep Learning Recommendation Model" (2019). The wide weight of an id is one more lane of its
//! row, so that a row is fetched once; rows of models without first order do not have it.

use stepwell_base::TableId;
use stepwell_data::Schema;
use stepwell_engine::{Columns, TableSpec};
use stepwell_nn::{
    Activation, Add, Concat, Cross, DotInteraction, FactorizationMachine, Graph, GraphBuilder,
    GraphError, InputShape, Linear, Precision, Source, bf16_kernel,
};
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_settings::{Config, ModelConfig, ModelKind, OptimizerConfig, OptimizerKind};

use crate::{Error, Result};

/// A model: tables and the graph on them.
#[derive(Debug)]
pub struct Model {
    graph: Graph<f32>,
    tables: Vec<TableSpec>,
    /// Feature fields of each table group.
    group_fields: Vec<Vec<usize>>,
    /// First column in the graph's input of each field of each table; embeddings come first.
    columns: Columns,
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
            wide: usize::from(graph.reads_first_order()),
            storage: config.storage,
            optimizer,
            init_range: config.model.init_range as f32,
            seed: config.seed,
            life: config.life.life(),
            shared: false,
        };
        Ok(Self {
            graph,
            tables: vec![table],
            group_fields: vec![(0..schema.slots).collect()],
            columns: Columns {
                of_fields: vec![(0..schema.slots).map(|field| field * dim).collect()],
                count: schema.slots * dim,
            },
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

    /// Where the fields of each table have their columns in the graph's input.
    pub fn embedding(&self) -> &Columns {
        &self.columns
    }

    /// Columns of the graph's input.
    pub fn columns(&self) -> usize {
        self.graph.input().columns()
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

type Built<T> = std::result::Result<T, GraphError>;

fn graph(config: &Config, schema: Schema) -> Built<Graph<f32>> {
    let dim = embedding_dim(config);
    let input = InputShape { embedding: schema.slots * dim, dense: schema.dense };
    let mut builder = GraphBuilder::new(input);
    match config.model.kind {
        ModelKind::Lr | ModelKind::WideDeep | ModelKind::DeepFm => {
            sum(&mut builder, input, &config.model, schema.slots)?;
        }
        ModelKind::Dcn => dcn(&mut builder, input, &config.model)?,
        ModelKind::Dlrm => dlrm(&mut builder, input, &config.model, schema.slots)?,
    }
    Ok(builder.build()?.with_precision(config.model.precision))
}

/// The models whose logit is a sum: first order, linear in the dense features, and what they add.
fn sum(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    slots: usize,
) -> Built<()> {
    let dense = input.embedding..input.columns();
    let linear = builder.add("linear", layer(dense.len(), 1, false), &[Source::Columns(dense)])?;
    let mut logit = vec![Source::FirstOrder, Source::Node(linear)];
    if model.kind != ModelKind::Lr {
        let (columns, source) = (input.columns(), Source::Columns(0..input.columns()));
        let (width, source) = mlp(builder, "mlp", &model.hidden, columns, source)?;
        let top = builder.add("mlp_out", layer(width, 1, false), &[source])?;
        logit.push(Source::Node(top));
    }
    if model.kind == ModelKind::DeepFm {
        let layer = FactorizationMachine { slots, dim: model.dim };
        let fm = builder.add("fm", layer, &[Source::Columns(0..input.embedding)])?;
        logit.push(Source::Node(fm));
    }
    builder.add("logit", Add, &logit).map(drop)
}

/// Cross layers beside hidden ones, all over the whole input.
fn dcn(builder: &mut GraphBuilder<f32>, input: InputShape, model: &ModelConfig) -> Built<()> {
    let columns = input.columns();
    let whole = Source::Columns(0..columns);
    let mut crossed = whole.clone();
    for number in 1..=model.cross_layers {
        let sources = [whole.clone(), crossed];
        crossed =
            Source::Node(builder.add(&format!("cross{number}"), Cross { columns }, &sources)?);
    }
    let (width, deep) = mlp(builder, "mlp", &model.hidden, columns, whole)?;
    let both = builder.add("both", Concat, &[crossed, deep])?;
    let logit = layer(columns + width, 1, false);
    builder.add("logit", logit, &[Source::Node(both)]).map(drop)
}

/// Dot products of the embeddings and of what a bottom MLP makes of the dense features.
fn dlrm(
    builder: &mut GraphBuilder<f32>,
    input: InputShape,
    model: &ModelConfig,
    slots: usize,
) -> Built<()> {
    let dense = input.embedding..input.columns();
    let widths = [model.bottom.as_slice(), &[model.dim]].concat();
    let (width, dense) = (dense.len(), Source::Columns(dense));
    let (_, bottom) = mlp(builder, "bottom", &widths, width, dense)?;
    let interaction = DotInteraction { vectors: slots + 1, dim: model.dim };
    let sources = [bottom.clone(), Source::Columns(0..input.embedding)];
    let dots = builder.add("interaction", interaction, &sources)?;
    let both = builder.add("both", Concat, &[bottom, Source::Node(dots)])?;
    let columns = model.dim + interaction.pairs();
    let (width, top) = mlp(builder, "mlp", &model.hidden, columns, Source::Node(both))?;
    builder.add("logit", layer(width, 1, false), &[top]).map(drop)
}

fn layer(inputs: usize, outputs: usize, hidden: bool) -> Linear {
    let activation = if hidden { Activation::Relu } else { Activation::Identity };
    Linear { inputs, outputs, bias: true, activation }
}

/// Hidden layers `<name>1`, `<name>2` and so on; returns columns and place of what the last gives.
fn mlp(
    builder: &mut GraphBuilder<f32>,
    name: &str,
    widths: &[usize],
    mut columns: usize,
    mut source: Source,
) -> Built<(usize, Source)> {
    for (index, outputs) in widths.iter().enumerate() {
        let name = format!("{name}{}", index + 1);
        let node = builder.add(&name, layer(columns, *outputs, true), &[source])?;
        (columns, source) = (*outputs, Source::Node(node));
    }
    Ok((columns, source))
}

/// Name of the instruction sets that sums are made with on this machine, and where products are
/// bf16 of the kernel that computes them.
pub fn kernels(precision: Precision) -> String {
    match precision {
        Precision::F32 => f32_kernels(),
        Precision::Bf16 => format!("{}, bf16 {}", f32_kernels(), bf16_kernel().name),
    }
}

fn f32_kernels() -> String {
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
