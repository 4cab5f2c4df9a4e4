//! Maps columns of the data to tables, with their pooling and their columns in the model's input.
//!
//! If no feature is named, each id column is one: summed, in one table of all columns.

use std::path::PathBuf;

use stepwell_base::Key;
use stepwell_data::{Chunk, Layout, ReadOptions, Schema};
use stepwell_engine::{Columns, DEFAULT_TABLE, Field, Pooling};
use stepwell_settings::{Config, LayerConfig, ModelConfig, ModelKind};

use crate::derived::Derived;
use crate::{Error, Result};

/// The most columns of the model's input.
const COLUMNS_MAX: usize = 1 << 20;
/// One id, in the unit of expected numbers of ids.
const ID: u64 = 1000;

/// An id column that goes into a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Feature {
    /// Number of the column in the data.
    column: usize,
    /// Number of the table.
    table: usize,
    pooling: Pooling,
    /// The most ids in a bag; `None` if only the ids of a whole example are limited.
    ids: Option<usize>,
    /// Number of the dense feature whose value weights the bag.
    weight: Option<usize>,
    /// Expected number of ids in a bag, in thousandths.
    expected: u64,
}

/// A field of a table in the data: a bag, or one id of a bag that is not pooled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) column: usize,
    /// Number of the id in the bag; `None` for the whole bag.
    pub(crate) id: Option<usize>,
    pub(crate) weight: Option<usize>,
}

/// The features of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Features {
    features: Vec<Feature>,
    /// Names of the tables, in the order in which features name them.
    tables: Vec<String>,
    schema: Schema,
    /// Names of the id columns, for messages.
    names: Vec<String>,
    /// Whether ids may have values other than 1.
    valued: bool,
    /// Names of the dense columns that have one.
    dense_names: Vec<Option<String>>,
    /// Numbers of the features that the model reads as sequences, with their lengths.
    sequences: Vec<usize>,
    /// Numbers of the features whose ids the model counts by bin.
    counted: Vec<usize>,
}

/// A feature's part of the model's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeaturePart<'a> {
    /// Name of the column.
    pub(crate) column: &'a str,
    /// Lanes of an embedding.
    pub(crate) dim: usize,
    /// Number of embeddings.
    pub(crate) fields: usize,
    /// Whether all ids have one embedding together.
    pub(crate) is_pooled: bool,
}

impl Features {
    /// The features that `config` names, for data of `schema`.
    ///
    /// # Errors
    /// Names the feature and the fix.
    pub(crate) fn of(config: &Config, schema: Schema) -> Result<Self> {
        let layout = config.layout().map_err(Error::Config)?;
        let layout = layout.as_deref();
        if config.features.is_empty() {
            return Self::all_columns(schema, layout).with_sequences(config);
        }
        let mut tables: Vec<String> = Vec::new();
        let mut features = Vec::new();
        for (number, of) in (1..).zip(&config.features) {
            let wrong = |why: String| Error::Config(format!("features.{number}.{why}"));
            let table = tables.iter().position(|name| *name == of.table).unwrap_or_else(|| {
                tables.push(of.table.clone());
                tables.len() - 1
            });
            let weight = of.weight_in(layout).map_err(|why| wrong(format!("weight {why}")))?;
            if weight.is_some_and(|column| column >= schema.dense) {
                let (name, most) = (of.weight.as_deref().unwrap_or_default(), schema.dense);
                return Err(wrong(format!("weight is {name}: the data has I1 to I{most}")));
            }
            for column in of.columns_in(layout).map_err(|why| wrong(format!("columns {why}")))? {
                if column >= schema.id_columns {
                    let (name, most) = (column + 1, schema.id_columns);
                    return Err(wrong(format!("columns name C{name}: the data has C1 to C{most}")));
                }
                let (pooling, ids) = (of.pooling, Some(of.ids));
                let expected = ID;
                features.push(Feature { column, table, pooling, ids, weight, expected });
            }
        }
        Self::new(features, tables, (schema, layout)).with_sequences(config)
    }

    /// Adds the sequences that the model of `config` reads.
    fn with_sequences(mut self, config: &Config) -> Result<Self> {
        let model = &config.model;
        match model.kind {
            ModelKind::Din => {}
            ModelKind::Graph => {
                self.sequences = self.attended(&model.layers);
                self.counted = self.binned(&model.layers);
                return Ok(self);
            }
            ModelKind::TwoTower => {
                self.counted = self.items(model)?;
                return Ok(self);
            }
            _ => return Ok(self),
        }
        let (target, sequences) = (&model.target, &model.sequences);
        if target.is_empty() || target.len() != sequences.len() {
            return Err(Error::Config(format!(
                "model.kind = din, with {} columns in model.target and {} in model.sequences: give \
                 the column of the item, and for each such column one with the items before it, \
                 which the built-in stream lacks",
                target.len(),
                sequences.len()
            )));
        }
        let twice = |name: &&String| sequences.iter().filter(|of| of == name).count() > 1;
        if let Some(name) = sequences.iter().find(twice) {
            return Err(Error::Config(format!("model.sequences has {name} twice: give it once")));
        }
        for (target, sequence) in target.iter().zip(sequences) {
            self.find(target, false)?;
            self.sequences.push(self.find(sequence, true)?);
        }
        Ok(self)
    }

    /// Numbers of the features that `layers` read as sequences, each once. Whether they exist is
    /// checked when the graph is built.
    fn attended(&self, layers: &[LayerConfig]) -> Vec<usize> {
        let mut sequences = Vec::new();
        for layer in layers.iter().filter(|layer| layer.kind.reads_sequence()) {
            let name = layer.inputs.get(1).and_then(|name| name.strip_prefix("column:"));
            let found = name.and_then(|name| self.of_column(name));
            let is_new = |feature: &usize| {
                self.features[*feature].pooling == Pooling::None && !sequences.contains(feature)
            };
            sequences.extend(found.filter(is_new));
        }
        sequences
    }

    /// Number of the feature of the first id column of `two_tower`'s items; none if items aren't
    /// counted.
    fn items(&self, model: &ModelConfig) -> Result<Vec<usize>> {
        if !model.log_q || model.item.is_empty() {
            return Ok(Vec::new());
        }
        let found = model.item.iter().find_map(|name| self.of_column(name));
        found.map(|feature| vec![feature]).ok_or_else(|| {
            Error::Config(
                "model.log_q = true counts items by the first column of ids in model.item, but the \
                 model reads no column of ids among them, or several features of it: name one, or \
                 give model.log_q = false"
                    .to_owned(),
            )
        })
    }

    /// Numbers of the features whose bins `layers` read, each once. Whether they exist is checked
    /// when the graph is built.
    fn binned(&self, layers: &[LayerConfig]) -> Vec<usize> {
        let mut counted = Vec::new();
        for name in layers.iter().flat_map(|layer| &layer.inputs) {
            let found = name.strip_prefix("bin:").and_then(|name| self.of_column(name));
            counted.extend(found.filter(|feature| !counted.contains(feature)));
        }
        counted
    }

    /// Number of the only feature of column `name`, or of the K-th one of column A for `A/K`.
    fn of_column(&self, name: &str) -> Option<usize> {
        let all = |name: &str| {
            let is_it = |number: &usize| self.names[self.features[*number].column] == name;
            (0..self.features.len()).filter(is_it).collect::<Vec<_>>()
        };
        if let [only] = all(name)[..] {
            return Some(only);
        }
        let (name, number) = name.rsplit_once('/')?;
        all(name).get(number.parse::<usize>().ok()?.checked_sub(1)?).copied()
    }

    /// Number of the feature of column `name` that is a sequence, or pooled.
    fn find(&self, name: &str, is_sequence: bool) -> Result<usize> {
        let is_it = |of: &Feature| {
            self.names[of.column] == name && (of.pooling == Pooling::None) == is_sequence
        };
        self.features.iter().position(is_it).ok_or_else(|| {
            let key = if is_sequence { "model.sequences" } else { "model.target" };
            let why = if !self.names.iter().any(|of| of == name) {
                "the data has no such id column".to_owned()
            } else if is_sequence {
                "it has no feature with pooling = none: give it one in [[features]]".to_owned()
            } else {
                "it is a sequence (pooling = none), or has no feature: name a column with one id \
                 and a feature in [[features]]"
                    .to_owned()
            };
            Error::Config(format!("{key} has {name}: {why}"))
        })
    }

    /// Features that follow the dense ones: lengths of sequences, then bins of ids.
    pub(crate) fn derived(&self) -> Vec<Derived> {
        let column = |of: &usize| self.features[*of].column;
        let lengths = self.sequences.iter().map(|of| Derived::Length { column: column(of) });
        let bins = self.counted.iter().map(|of| Derived::Bin { column: column(of) });
        lengths.chain(bins).collect()
    }

    /// Labels of [`Features::derived`].
    pub(crate) fn derived_names(&self) -> impl Iterator<Item = String> {
        self.derived().into_iter().map(|of| match of {
            Derived::Length { column } => format!("length of {}", self.names[column]),
            Derived::Bin { column } => format!("bin of {}", self.names[column]),
        })
    }

    /// Numbers of the features whose ids the model counts by bin.
    pub(crate) fn counted(&self) -> &[usize] {
        &self.counted
    }

    /// Numbers of the features that the model reads as sequences.
    pub(crate) fn sequences(&self) -> &[usize] {
        &self.sequences
    }

    /// The parts of the features in the input of a model whose tables have `dims` lanes, in order.
    pub(crate) fn parts(&self, dims: &[usize]) -> impl Iterator<Item = FeaturePart<'_>> {
        self.features.iter().map(|feature| FeaturePart {
            column: &self.names[feature.column],
            dim: dims[feature.table],
            fields: feature.fields(),
            is_pooled: feature.pooling != Pooling::None,
        })
    }

    /// Number of dense columns.
    pub(crate) fn dense(&self) -> usize {
        self.schema.dense
    }

    /// Names of the dense columns in order, if they have one.
    pub(crate) fn dense_names(&self) -> impl Iterator<Item = Option<&str>> {
        self.dense_names.iter().map(Option::as_deref)
    }

    /// A feature for each id column, with as many ids as the column allows.
    fn all_columns(schema: Schema, layout: Option<&Layout>) -> Self {
        let most = layout.map(Layout::id_names).unwrap_or_default();
        let has_lists = most.iter().any(|(_, ids)| *ids > 1);
        let feature = |column: usize| Feature {
            column,
            table: 0,
            pooling: Pooling::Sum,
            ids: most.get(column).map(|(_, ids)| *ids).filter(|_| has_lists),
            weight: None,
            expected: ID,
        };
        let features = (0..schema.id_columns).map(feature).collect();
        Self::new(features, vec![DEFAULT_TABLE.to_owned()], (schema, layout))
    }

    fn new(
        features: Vec<Feature>,
        tables: Vec<String>,
        (schema, layout): (Schema, Option<&Layout>),
    ) -> Self {
        Self {
            features,
            tables,
            schema,
            names: names(schema, layout),
            valued: false,
            dense_names: dense_names(schema, layout),
            sequences: Vec::new(),
            counted: Vec::new(),
        }
    }

    /// Names of the tables, by number.
    pub(crate) fn tables(&self) -> &[String] {
        &self.tables
    }

    /// The most ids of an example in each table.
    pub(crate) fn ids_by_table(&self) -> Vec<u64> {
        let mut ids = vec![0; self.tables.len()];
        for feature in &self.features {
            // If no feature limits its bag, an example has as many ids as columns.
            ids[feature.table] += feature.ids.unwrap_or(1) as u64;
        }
        ids
    }

    /// Whether bags may have more than one id, so that the expected number has to be read from
    /// data.
    pub(crate) fn has_long_bags(&self) -> bool {
        self.features.iter().any(|feature| feature.ids.is_some_and(|ids| ids > 1))
    }

    /// Expects bags as long as the mean in `chunk`, but at least one id: bags that are empty there
    /// may not be later.
    pub(crate) fn expect_as_in(&mut self, chunk: &Chunk) {
        for feature in &mut self.features {
            let ids =
                (0..chunk.len()).map(|example| chunk.bag(example, feature.column).len() as u64);
            let mean = (ids.sum::<u64>() * ID).div_ceil(chunk.len().max(1) as u64);
            feature.expected = mean.max(ID);
        }
    }

    /// Plans room for values other than 1.
    pub(crate) fn expect_values(&mut self) {
        self.valued = true;
    }

    /// Whether ids may have values other than 1.
    pub(crate) fn have_values(&self) -> bool {
        self.valued
    }

    /// Expected ids of an example in each table, in thousandths.
    pub(crate) fn expected_by_table(&self) -> Vec<u64> {
        let mut ids = vec![0; self.tables.len()];
        self.features.iter().for_each(|feature| ids[feature.table] += feature.expected);
        ids
    }

    /// Number of fields of all tables, each a bag of every example.
    pub(crate) fn fields(&self) -> u64 {
        self.features.iter().map(|feature| feature.fields() as u64).sum()
    }

    /// Options for reading data with these features. If bags have their own limits, an example may
    /// have any number of keys.
    pub(crate) fn read_options(&self, block_bytes: usize) -> ReadOptions {
        let options = ReadOptions { block_bytes, ..ReadOptions::new(self.schema) };
        match self.features.iter().all(|feature| feature.ids.is_none()) {
            true => options,
            false => ReadOptions { example_keys_max: usize::MAX, ..options },
        }
    }

    /// Whether rows of a table are multiplied before they are pooled.
    pub(crate) fn is_weighed(&self, table: usize) -> bool {
        let weighs = |feature: &Feature| {
            feature.weight.is_some() || matches!(feature.pooling, Pooling::Mean | Pooling::SqrtN)
        };
        self.valued || self.features.iter().any(|of| of.table == table && weighs(of))
    }

    /// The fields of each table in the data. // (tables) of (fields)
    pub(crate) fn sources(&self) -> Vec<Vec<Source>> {
        let mut sources = vec![Vec::new(); self.tables.len()];
        for feature in &self.features {
            let Feature { column, weight, .. } = *feature;
            let of_table: &mut Vec<Source> = &mut sources[feature.table];
            match feature.pooling {
                Pooling::None => {
                    let of = |id| Source { column, id: Some(id), weight };
                    of_table.extend((0..feature.fields()).map(of));
                }
                _ => of_table.push(Source { column, id: None, weight }),
            }
        }
        sources
    }

    /// The column of each field of each table. // (tables) of (fields)
    pub(crate) fn columns_of_fields(&self) -> Vec<Vec<&str>> {
        let name = |source: Source| self.names[source.column].as_str();
        self.sources().into_iter().map(|of| of.into_iter().map(name).collect()).collect()
    }

    /// Lanes of each field's embedding in the model's input, in order, for tables with `dims`
    /// lanes.
    pub(crate) fn dims(&self, dims: &[usize]) -> Vec<usize> {
        let of = |feature: &Feature| vec![dims[feature.table]; feature.fields()];
        self.features.iter().flat_map(of).collect()
    }

    /// Label of each lane of [`Features::dims`], by field: table, column, number among the features
    /// of that column and table, number of the id, lane.
    pub(crate) fn field_lanes(&self, dims: &[usize]) -> Vec<Vec<String>> {
        let mut fields = Vec::new();
        for (number, feature) in self.features.iter().enumerate() {
            let Feature { column, table, .. } = *feature;
            let same = |of: &&Feature| (of.column, of.table) == (column, table);
            let before = self.features[..number].iter().filter(same).count();
            let (table_name, name) = (&self.tables[table], &self.names[column]);
            for id in 0..feature.fields() {
                let lane = |lane| format!("{table_name}/{name}/{before}/{id}#{lane}");
                fields.push((0..dims[table]).map(lane).collect());
            }
        }
        fields
    }

    /// The columns of the fields of tables with `dims` lanes, feature by feature.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn columns(&self, dims: &[usize]) -> Result<Columns> {
        let mut columns = Columns { of_fields: vec![Vec::new(); self.tables.len()], count: 0 };
        for feature in &self.features {
            // An unpooled row is a sum of one row.
            let pooling = match feature.pooling {
                Pooling::None => Pooling::Sum,
                pooling => pooling,
            };
            for _ in 0..feature.fields() {
                columns.of_fields[feature.table].push(Field { column: columns.count, pooling });
                columns.count += dims[feature.table];
            }
        }
        if columns.count > COLUMNS_MAX {
            return Err(Error::Config(format!(
                "the features have {} columns in the model's input: lower dim or ids to at most {} \
                 in total",
                columns.count, COLUMNS_MAX
            )));
        }
        Ok(columns)
    }

    /// Refuses an example of `chunk`, which was read from one of `files`, with more ids than its
    /// features allow.
    ///
    /// # Errors
    /// Names file, example, column and fix.
    pub(crate) fn refuse_too_many(&self, chunk: &Chunk, files: &[PathBuf]) -> Result<()> {
        if self.features.iter().all(|feature| feature.ids.is_none()) {
            return Ok(());
        }
        for example in 0..chunk.len() {
            for Feature { column, ids, .. } in &self.features {
                let (count, most) = (chunk.bag(example, *column).len(), ids.unwrap_or(usize::MAX));
                if count > most {
                    let file = files
                        .get(chunk.file as usize)
                        .map_or("data".into(), |file| file.to_string_lossy());
                    let after = chunk.position_after(chunk.lines[example]);
                    let (number, column) = (after.line, &self.names[*column]);
                    return Err(Error::Config(format!(
                        "{file}: example {number} has {count} ids in column {column}, whose \
                         feature takes ids = {most}: raise it"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Names of the id columns.
fn names(schema: Schema, layout: Option<&Layout>) -> Vec<String> {
    match layout {
        Some(layout) => layout.id_names().into_iter().map(|(name, _)| name.to_owned()).collect(),
        None => (1..=schema.id_columns).map(|number| format!("C{number}")).collect(),
    }
}

/// Names of the dense columns.
fn dense_names(schema: Schema, layout: Option<&Layout>) -> Vec<Option<String>> {
    match layout {
        Some(layout) => {
            layout.dense_names().into_iter().map(|name| name.map(str::to_owned)).collect()
        }
        None => (1..=schema.dense).map(|number| Some(format!("I{number}"))).collect(),
    }
}

impl Feature {
    /// Number of fields that this feature makes in its table.
    fn fields(&self) -> usize {
        if self.pooling == Pooling::None { self.ids.unwrap_or(1) } else { 1 }
    }
}

/// A table's part of the data, from which mini-batches are made.
#[derive(Clone, Debug)]
pub(crate) struct TableInput {
    /// Fields of the table in the data.
    pub(crate) sources: Vec<Source>,
    /// Fields of the table in the model.
    pub(crate) fields: Vec<Field>,
    /// Salt of the table's keys.
    pub(crate) salt: u64,
}

impl TableInput {
    /// Whether the table has the unchanged bags of all id columns.
    pub(crate) fn has_all_columns(&self, id_columns: usize) -> bool {
        let whole = |column| Source { column, id: None, weight: None };
        self.sources.iter().copied().eq((0..id_columns).map(whole))
    }
}

/// Keys and weights of one table, in the order of the data.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) keys: Vec<Key>,
    /// Values of the ids, times the weights of their bags; empty if all are 1, and shorter than
    /// `keys` if the last ones are 1.
    pub(crate) weights: Vec<f32>,
}

impl Gathered {
    /// Appends keys with their values, which are empty if all are 1, times `weight`.
    pub(crate) fn append(&mut self, keys: &[Key], values: &[f32], weight: f32) {
        if weight != 1.0 || values.iter().any(|value| *value != 1.0) {
            self.weights.resize(self.keys.len(), 1.0);
            self.weights.extend(values.iter().map(|value| value * weight));
            self.weights.resize(self.keys.len() + keys.len(), weight);
        }
        self.keys.extend_from_slice(keys);
    }

    /// The weight of each key; empty if all are 1.
    pub(crate) fn weights(&mut self) -> &[f32] {
        if !self.weights.is_empty() {
            self.weights.resize(self.keys.len(), 1.0);
        }
        &self.weights
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.weights.clear();
    }
}

/// Appends the bags of an example for the fields of one table.
pub(crate) fn append_example(
    (gathered, ends): (&mut Gathered, &mut Vec<u32>),
    (chunk, example): (&Chunk, usize),
    sources: &[Source],
) {
    for Source { column, id, weight } in sources {
        let bag = chunk.bag_range(example, *column);
        let bag = match id {
            None => bag,
            Some(id) => (bag.start + id).min(bag.end)..(bag.start + id + 1).min(bag.end),
        };
        let weight = weight.map_or(1.0, |column| chunk.dense_of(example)[column]);
        let values = chunk.values.get(bag.clone()).unwrap_or_default();
        gathered.append(&chunk.keys[bag], values, weight);
        ends.push(gathered.keys.len() as u32);
    }
}
