//! Tables and features as Python describes them.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use stepwell_base::initial::Initial;
use stepwell_base::{ByteCount, Namespace, TableId};
use stepwell_engine::{Admission, Columns, Field, Life, Pooling, Shape, TableMemory, TableSpec};
use stepwell_optim::{Regularization, RowOptimizer, RowRule, Storage};

/// A table: attributes of `stepwell.Table`, with its name and optimizer.
#[derive(Debug, FromPyObject)]
pub(crate) struct TableArgs {
    name: String,
    dim: usize,
    storage: String,
    pub(crate) admit_after: u8,
    sketch: u64,
    dram: Option<u64>,
    place: String,
    expire_after: u64,
    history: bool,
    init_range: f32,
    init_std: Option<f32>,
    init_value: Option<f32>,
    seed: u64,
    optimizer: String,
    settings: HashMap<String, f64>,
}

impl TableArgs {
    /// Memory of the table's rows.
    pub(crate) fn memory(&self) -> TableMemory {
        TableMemory { dram: self.dram.map(ByteCount), whole: self.place == "memory" }
    }

    /// The table with number `number`.
    ///
    /// # Errors
    /// An unknown storage or optimizer, or settings that it refuses.
    pub(crate) fn spec(&self, number: usize) -> PyResult<TableSpec> {
        let wrong = |why: String| PyValueError::new_err(format!("table '{}': {why}", self.name));
        let storage = Storage::ALL.into_iter().find(|storage| storage.name() == self.storage);
        let storage = storage.ok_or_else(|| {
            let names = Storage::ALL.map(Storage::name).join(", ");
            wrong(format!("storage is '{}': give one of {names}", self.storage))
        })?;
        let setting = |name: &'static str| {
            let value = self.settings.get(name).copied();
            value.ok_or_else(|| wrong(format!("{} needs {name}", self.optimizer)))
        };
        let rule = RowRule::of_settings(&self.optimizer, setting);
        let rule = rule.ok_or_else(|| wrong(format!("no optimizer '{}'", self.optimizer)))??;
        let given = |name| Ok::<_, PyErr>(self.settings.get(name).copied().unwrap_or(0.0));
        let regularization = Regularization::of_settings(given)?;
        let optimizer = RowOptimizer::new(rule).and_then(|of| of.regularized(regularization));
        let optimizer = optimizer.map_err(|error| wrong(error.to_string()))?;
        let initial = match (self.init_std, self.init_value) {
            (Some(std), _) => Initial::Normal { std },
            (None, Some(value)) => Initial::Constant { value },
            (None, None) => Initial::Uniform { range: self.init_range },
        };
        let admission = match self.admit_after {
            0 | 1 => Admission::AtOnce,
            times => Admission::After(times),
        };
        let lives = self.admit_after > 1 || self.expire_after > 0 || self.history;
        Ok(TableSpec {
            id: TableId(number as u32),
            storage,
            initial,
            seed: self.seed,
            life: lives.then_some(Life { admission, expire_after: self.expire_after }),
            ..TableSpec::new(number as u32, &self.name, self.dim, optimizer)
        })
    }
}

/// The arithmetic of tables.
pub(crate) fn shape(tables: &[TableArgs]) -> Shape {
    Shape { sketch_bytes: tables.iter().map(|table| table.sketch).collect(), ..Shape::default() }
}

/// A feature: attributes of `stepwell.Feature`, with its table's number.
#[derive(Debug, FromPyObject)]
pub(crate) struct FeatureArgs {
    name: String,
    table: usize,
    pooling: String,
    namespace: String,
}

/// A feature in its table.
#[derive(Debug)]
pub(crate) struct Feature {
    pub(crate) name: String,
    pub(crate) table: usize,
    pub(crate) namespace: Namespace,
}

/// The features, and their columns in the matrix of pooled embeddings, feature by feature. Unpooled
/// features have none, but if their table has pooled ones, they share columns at the end that
/// nobody reads.
///
/// # Errors
/// An unknown pooling, or a name that can't be a namespace.
pub(crate) fn features(
    args: Vec<FeatureArgs>,
    dims: &[usize],
) -> PyResult<(Vec<Feature>, Columns)> {
    let mut columns = Columns { of_fields: vec![Vec::new(); dims.len()], count: 0 };
    let mut features = Vec::new();
    for FeatureArgs { name, table, pooling, namespace } in args {
        let wrong = |why: String| PyValueError::new_err(format!("feature '{name}': {why}"));
        let known = Pooling::ALL.into_iter().find(|known| known.name() == pooling);
        let pooling = known.ok_or_else(|| {
            let names = Pooling::ALL.map(Pooling::name).join(", ");
            wrong(format!("pooling is '{pooling}': give one of {names}"))
        })?;
        let Some(fields) = columns.of_fields.get_mut(table) else {
            return Err(wrong(format!("there is no table {table}")));
        };
        fields.push(Field { column: columns.count, pooling });
        columns.count += if pooling == Pooling::None { 0 } else { dims[table] };
        let namespace = Namespace::new(&namespace).map_err(|error| wrong(error.to_string()))?;
        features.push(Feature { name, table, namespace });
    }
    let end = columns.count;
    let is_pooled = |field: &Field| field.pooling != Pooling::None;
    for (fields, dim) in columns.of_fields.iter_mut().zip(dims) {
        if fields.iter().any(is_pooled) && !fields.iter().all(is_pooled) {
            let unpooled = fields.iter_mut().filter(|field| !is_pooled(field));
            unpooled.for_each(|field| field.column = end);
            columns.count = columns.count.max(end + dim);
        }
    }
    Ok((features, columns))
}
