//! The models: their tables and the layers on top.
//!
//! ```text
//!   lr         first order + linear(dense)
//!   fm         first order + linear(dense) + fm(embeddings)
//!   wide_deep  first order + linear(dense) + mlp(embeddings, dense)
//!   deepfm     first order + linear(dense) + mlp(embeddings, dense) + fm(embeddings)
//!   dcn        linear(cross(x), mlp(x)), x = (embeddings, dense): no first order
//!   dcn_v1     dcn with the cross layers of DCN
//!   dlrm       mlp(b, dots(b, embeddings)), b = mlp(dense): no first order
//!   final_mlp  linear(s, t) + s W t, s = mlp(x), t = mlp(x), x as in dcn: no first order
//!   mask_net   mlp(blocks, dense), a block is relu(norm(W (norm(embeddings) ∘ mask(x))))
//!   mmoe       tower(mixture of experts of x) by label, an expert is mlp(x), x as in dcn
//!   ple        mmoe with experts of each label beside the shared ones, in levels
//!   din        mlp(attention of the target to each sequence, other embeddings, dense)
//!   two_tower  u·v / temperature, u = unit(linear(mlp(user))), v likewise of the item
//!   graph      layers given one by one
//! ```
//!
//! A model of several labels has a logit for each. All layers but the last are shared, except in
//! `mmoe` and `ple`, which are made for several labels.
//!
//! Sources: Rendle, "Factorization Machines" (ICDM 2010); Cheng et al., "Wide & Deep Learning for
//! Recommender Systems" (DLRS 2016); Guo et al., "DeepFM" (IJCAI 2017); Wang et al., "DCN V2" (WWW
//! 2021), its parallel structure; Naumov et al., "Deep Learning Recommendation Model" (2019); Mao
//! et al., "FinalMLP" (AAAI 2023), without its selection of features and with one head; Wang et
//! al., "Deep & Cross Network" (ADKDD 2017); Wang et al., "MaskNet" (DLP-KDD 2021), its parallel
//! form; Ma et al., "Multi-gate Mixture-of-Experts" (KDD 2018); Tang et al., "Progressive Layered
//! Extraction" (RecSys 2020); Zhou et al., "Deep Interest Network" (KDD 2018); Yi et al.,
//! "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations" (RecSys 2019),
//! with counts of items in place of its estimate of their frequency. The wide weight of an id is an
//! extra lane of its row, so one fetch gets both; rows of models without first order lack it.

mod graph;

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_base::TableId;
use stepwell_data::{Chunk, Labels, Schema};
use stepwell_engine::{Columns, GroupTables, TableSpec};
use stepwell_nn::{Graph, Precision, Source, bf16_kernel};
use stepwell_optim::{
    Adagrad, Adam, Course, Ftrl, Momentum, OptimError, Regularization, RowOptimizer, RowRule, Rule,
    Schedule, Sgd,
};
use stepwell_settings::{
    Config, LayerConfig, ModelConfig, ModelKind, OptimizerConfig, OptimizerKind, PlaceKind,
    RowOptimizerKind, ScheduleKind, TableConfig, TableRules,
};

use crate::features::{Features, TableInput};
use crate::labels::{Label, labels};
use crate::metrics::Meter;
use crate::{Error, Result};

/// The most embeddings that are projected, each by its own layer.
const PROJECTIONS_MAX: usize = 1024;

/// A model: its tables and the graph that uses them.
#[derive(Debug)]
pub(crate) struct Model {
    graph: Graph<f32>,
    features: Features,
    tables: Vec<TableSpec>,
    /// Tables grouped by the slab and store that they share.
    groups: Vec<GroupTables>,
    /// Whether only the most used rows go to devices, by table.
    by_use: Vec<bool>,
    /// Bytes of the sketch that counts occurrences, by table.
    sketch_bytes: Vec<u64>,
    /// Columns of each table's fields in the graph's input; embeddings come first.
    columns: Columns,
    /// The labels that the model learns, with a logit each.
    labels: Arc<[Label]>,
    /// Layout of the examples' labels and weights.
    label_lanes: Labels,
}

impl Model {
    /// Builds the model that `config` names, for data of `schema`.
    ///
    /// # Errors
    /// Settings from which no model can be built.
    pub(crate) fn build(config: &Config, schema: Schema) -> Result<Self> {
        let features = Features::of(config, schema)?;
        let named: Vec<TableConfig> =
            features.tables().iter().map(|name| named(&config.tables, name)).collect();
        let mut dims: Vec<usize> = named.iter().map(|table| dim_of(config, table)).collect();
        let mut columns = features.columns(&dims)?;
        if config.model.kind.has_pairs() || config.model.kind == ModelKind::Dlrm {
            check_pairs(&config.model, &named[0].name, &features.dims(&dims))?;
        }
        let labels: Arc<[Label]> = labels(config)?.into();
        let mut graph = graph::graph(config, (&features, &dims), &labels).map_err(Error::Config)?;
        if !graph::reads_embeddings(&graph) && !graph::reads_lanes(&config.model) {
            // Rows without embeddings are smaller.
            dims.fill(0);
            columns = features.columns(&dims)?;
            graph = graph::graph(config, (&features, &dims), &labels).map_err(Error::Config)?;
        }
        check_names(&graph)?;
        let wide = usize::from(graph.reads_first_order());
        let mut tables = Vec::new();
        for (table, dim) in named.iter().zip(dims) {
            tables.push(table_of(config, table, (dim, wide))?);
        }
        let stays = |table: usize| named[table].place == PlaceKind::Memory;
        let groups = GroupTables::of(&mut tables, stays).map_err(Error::Config)?;
        let by_use = named.iter().map(|table| table.place == PlaceKind::Device).collect();
        let sketch_bytes = named.iter().map(|table| table.rules(config).rows.sketch.0).collect();
        let label_lanes = schema.labels;
        assert_eq!(label_lanes.count, labels.len(), "examples have the labels that are learned");
        Ok(Self {
            graph,
            features,
            tables,
            groups,
            by_use,
            sketch_bytes,
            columns,
            labels,
            label_lanes,
        })
    }

    /// The layers of the model that `config` names, for data of `schema`.
    ///
    /// # Errors
    /// As [`Model::build`].
    pub(crate) fn layers(config: &Config, schema: Schema) -> Result<Vec<LayerConfig>> {
        let model = Self::build(config, schema)?;
        let dims: Vec<usize> = model.tables.iter().map(|table| table.dim).collect();
        let layers = graph::layers(config, (&model.features, &dims), &model.labels);
        layers.map_err(Error::Config)
    }

    /// The dense part.
    pub(crate) fn graph(&self) -> &Graph<f32> {
        &self.graph
    }

    /// Number of lanes of a block that a step sums: gradients of the parameters, then statistics.
    pub(crate) fn summed_count(&self) -> usize {
        self.graph.parameter_count() + self.graph.statistics_count()
    }

    /// The layer or part of the input called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn source(&self, name: &str) -> Result<Source> {
        let dims: Vec<usize> = self.tables.iter().map(|table| table.dim).collect();
        graph::source(&self.graph, (&self.features, &dims), name).ok_or_else(|| {
            let names: Vec<&str> = self.graph.nodes().map(|node| node.name).collect();
            Error::Config(format!("the model has no layer '{name}': it has {}", names.join(", ")))
        })
    }

    /// The model with other layers over the same input.
    #[cfg(test)]
    pub(crate) fn with_graph(self, graph: Graph<f32>) -> Self {
        Self { graph, ..self }
    }

    /// The labels that the model learns, with a logit each.
    pub(crate) fn labels(&self) -> &Arc<[Label]> {
        &self.labels
    }

    /// Returns a meter of its scores that keeps up to `exact` of them for an exact AUC.
    pub(crate) fn meter(&self, exact: usize) -> Meter {
        Meter::new(&self.labels, self.label_lanes.weighted, exact)
    }

    /// Layout of the examples' labels and weights.
    pub(crate) fn label_lanes(&self) -> Labels {
        self.label_lanes
    }

    /// Expects bags as long as in `chunk`.
    pub(crate) fn expect_as_in(&mut self, chunk: &Chunk) {
        self.features.expect_as_in(chunk);
    }

    /// Plans room for values other than 1.
    pub(crate) fn expect_values(&mut self) {
        self.features.expect_values();
    }

    /// The features that the model reads.
    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    /// The tables.
    pub(crate) fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// Tables grouped by the slab and store that they share.
    pub(crate) fn groups(&self) -> &[GroupTables] {
        &self.groups
    }

    /// Whether only the most used rows go to devices, by table.
    pub(crate) fn by_use(&self) -> &[bool] {
        &self.by_use
    }

    /// Bytes of the sketches that count occurrences, by table.
    pub(crate) fn sketch_bytes(&self) -> &[u64] {
        &self.sketch_bytes
    }

    /// Input of each table's mini-batches.
    pub(crate) fn inputs(&self) -> Vec<TableInput> {
        let sources = self.features.sources().into_iter();
        let of_tables = sources.zip(&self.columns.of_fields).zip(&self.tables);
        let input = of_tables.map(|((sources, fields), table)| TableInput {
            sources,
            fields: fields.clone(),
            salt: table.salt(),
        });
        input.collect()
    }

    /// Columns of each table's fields in the graph's input.
    pub(crate) fn embedding(&self) -> &Columns {
        &self.columns
    }

    /// Label of each embedding lane of the graph's input, by field.
    pub(crate) fn field_lanes(&self) -> Vec<Vec<String>> {
        let dims: Vec<usize> = self.tables.iter().map(|table| table.dim).collect();
        self.features.field_lanes(&dims)
    }

    /// Number of columns of the graph's input.
    pub(crate) fn columns(&self) -> usize {
        self.graph.input().columns()
    }
}

/// Refuses a model that multiplies embeddings with each other if it has none, or too many of
/// differing dimensions; `table` is one of its tables.
fn check_pairs(model: &ModelConfig, table: &str, dims: &[usize]) -> Result<()> {
    let kind = model.kind.name();
    if dims.iter().all(|dim| *dim == 0) {
        return Err(Error::Config(format!(
            "{kind} multiplies pairs of embeddings, but its tables have none: set \
             tables.{table}.dim, or dim of another table, to at least 1"
        )));
    }
    let projected = dims.iter().filter(|dim| ![0, model.dim].contains(*dim)).count();
    if projected > PROJECTIONS_MAX {
        return Err(Error::Config(format!(
            "{kind} would need {projected} projections, one for each field whose dimension is not \
             model.dim = {}, but at most {PROJECTIONS_MAX} are supported: give the tables with \
             pooling = none that dim",
            model.dim
        )));
    }
    Ok(())
}

/// Refuses parameters, named after columns, whose names would be the same in exports.
fn check_names(graph: &Graph<f32>) -> Result<()> {
    let mut seen = HashMap::new();
    for parameter in graph.parameters() {
        let (name, exported) = (&parameter.name, parameter.name.replace('/', "."));
        if let Some(other) = seen.insert(exported.clone(), name) {
            let [one, two] = [other, name].map(|of| of.rsplit_once('/').map_or(&**of, |of| of.0));
            return Err(Error::Config(format!(
                "layers {one} and {two} would both be exported as {exported}: rename a layer, or \
                 the column that it is named after, so that they differ in more than '/' and '.'"
            )));
        }
    }
    Ok(())
}

/// Returns the settings of table `name`; a table that is not in `tables` has all defaults.
pub(crate) fn named(tables: &[TableConfig], name: &str) -> TableConfig {
    let found = tables.iter().find(|table| table.name == name).cloned();
    found.unwrap_or_else(|| TableConfig { name: name.to_owned(), ..TableConfig::default() })
}

fn dim_of(config: &Config, table: &TableConfig) -> usize {
    if config.model.kind == ModelKind::Lr { 0 } else { table.rules(config).dim }
}

fn table_of(
    config: &Config,
    table: &TableConfig,
    (dim, wide): (usize, usize),
) -> Result<TableSpec> {
    let (name, rules) = (&table.name, table.rules(config));
    if dim + wide == 0 {
        let kind = config.model.kind;
        return Err(Error::Config(match kind {
            ModelKind::Graph => format!(
                "table '{name}' has neither embeddings nor first-order weights: read embeddings or \
                 first_order in model.layers, and give tables.{name}.dim at least 1 for embeddings"
            ),
            _ => format!(
                "tables.{name}.dim is 0, and {} has no first-order weights: give at least 1",
                kind.name()
            ),
        }));
    }
    let optimizer = row_optimizer(&rules);
    Ok(TableSpec {
        id: TableId(0),
        name: name.clone(),
        dim,
        wide,
        storage: rules.rows.storage,
        optimizer: optimizer
            .map_err(|why| Error::Config(format!("optimizer of table '{name}': {why}")))?,
        initial: rules.initial,
        seed: config.seed,
        life: rules.rows.life(),
        shared: false,
    })
}

/// The optimizer of a table's rows.
pub(crate) fn row_optimizer(rules: &TableRules) -> std::result::Result<RowOptimizer, OptimError> {
    let (config, lr) = (&rules.optimizer, rules.lr);
    let rule = match config.kind {
        RowOptimizerKind::Sgd => Rule::sgd(lr).into(),
        RowOptimizerKind::CfSgd => RowRule::CfSgd(Sgd { lr }),
        RowOptimizerKind::Momentum => Rule::Momentum(momentum(config, lr)).into(),
        RowOptimizerKind::Adagrad => Rule::Adagrad(adagrad(config, lr)).into(),
        RowOptimizerKind::RowWiseAdagrad => RowRule::RowWiseAdagrad(adagrad(config, lr)),
        RowOptimizerKind::Adam => Rule::Adam(adam(config, lr)).into(),
        RowOptimizerKind::RowWiseAdam => RowRule::RowWiseAdam(adam(config, lr)),
        RowOptimizerKind::Ftrl => RowRule::Ftrl(ftrl(config, lr)),
        RowOptimizerKind::Frozen => RowRule::Frozen,
    };
    RowOptimizer::new(rule)?.regularized(regularization(config))
}

/// The rule of dense parameters.
pub(crate) fn dense_rule(config: &Config) -> Rule {
    let (config, lr) = (&config.optim.dense, config.dense_rate());
    match config.kind {
        OptimizerKind::Sgd => Rule::sgd(lr),
        OptimizerKind::Momentum => Rule::Momentum(momentum(config, lr)),
        OptimizerKind::Adagrad => Rule::Adagrad(adagrad(config, lr)),
        OptimizerKind::Adam => Rule::Adam(adam(config, lr)),
    }
}

fn momentum<K>(config: &OptimizerConfig<K>, lr: f64) -> Momentum {
    let usual = Momentum::new(lr);
    Momentum { momentum: config.momentum.unwrap_or(usual.momentum), ..usual }
}

fn adagrad<K>(config: &OptimizerConfig<K>, lr: f64) -> Adagrad {
    let usual = Adagrad::new(lr);
    let (eps, initial) = (config.eps.unwrap_or(usual.eps), config.initial.unwrap_or(usual.initial));
    Adagrad { eps, initial, ..usual }
}

fn adam<K>(config: &OptimizerConfig<K>, lr: f64) -> Adam {
    let usual = Adam::new(lr);
    let (beta1, beta2) = (config.beta1.unwrap_or(usual.beta1), config.beta2.unwrap_or(usual.beta2));
    Adam { beta1, beta2, eps: config.eps.unwrap_or(usual.eps), ..usual }
}

fn ftrl<K>(config: &OptimizerConfig<K>, lr: f64) -> Ftrl {
    let usual = Ftrl::new(lr);
    let (beta, l1) = (config.beta.unwrap_or(usual.beta), config.l1.unwrap_or(usual.l1));
    Ftrl { beta, l1, initial: config.initial.unwrap_or(usual.initial), ..usual }
}

/// The learning rate over time.
pub(crate) fn schedule<K>(config: &OptimizerConfig<K>) -> Schedule {
    let OptimizerConfig { schedule, warmup_steps, decay_steps, decay_factor, .. } = *config;
    // Settings without steps are refused.
    let steps = decay_steps.unwrap_or(1);
    let course = match schedule {
        ScheduleKind::Constant => Course::Constant,
        ScheduleKind::Linear => Course::Linear { steps, end: decay_factor.unwrap_or(0.0) },
        ScheduleKind::Cosine => Course::Cosine { steps, end: decay_factor.unwrap_or(0.0) },
        ScheduleKind::Step => Course::Step { every: steps, factor: decay_factor.unwrap_or(0.1) },
        ScheduleKind::InverseSqrt => Course::InverseSqrt { steps },
        ScheduleKind::Plateau => Course::Plateau { factor: decay_factor.unwrap_or(0.1), falls: 0 },
    };
    Schedule { warmup: warmup_steps, course }
}

/// Penalties and bounds of an optimizer.
pub(crate) fn regularization<K>(config: &OptimizerConfig<K>) -> Regularization {
    let OptimizerConfig { l2, weight_decay, clip_norm, max_norm, .. } = config;
    let all = [l2, weight_decay, clip_norm, max_norm].map(|of| of.unwrap_or(0.0));
    let [l2, weight_decay, clip_norm, max_norm] = all;
    Regularization { l2, weight_decay, clip_norm, max_norm }
}

/// Name of the instruction sets used for sums on this machine and, with bf16 products, of the
/// kernel that computes those.
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

#[cfg(test)]
mod tests;
