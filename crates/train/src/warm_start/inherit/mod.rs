//! Inheritance of a model from a checkpoint: rows by table, dense parameters by name.
//!
//! ```text
//!   table group with the same tables, rows of the same parts ──► links to its segments
//!   a table of that name, rows of other parts ────────────────► each row rewritten
//!   a new table ──────────────────────────────────────────────► no rows yet
//! ```

use std::collections::HashMap;
use std::ops::Range;

use stepwell_engine::{Checkpoint, Dense, EmbeddingBags, TableSpec};
use stepwell_nn::ParameterSpec;
use stepwell_settings::{self as settings, Config, ModelKind, model_settings};

use super::axes::{Axes, axes};
use super::columns::column_notes;
use crate::dense::{AVERAGED, STATE};
use crate::models::Model;
use crate::resume::{NEGATIVE_RATE, RunState};
use crate::run_plan::schema;
use crate::step::TrainedModel;
use crate::{Error, Result};

/// Prefix of the sections with earlier versions of rows, for stale reads.
const STALE: &str = "ssp ";
/// Section of the count of steps of the dense optimizer.
const STEP: &str = "step";
/// Section of the dense parameters.
const PARAMETERS: &str = "parameters";

/// Source of a table group's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupOrigin {
    /// The checkpoint's table group of this number, unchanged.
    Linked(usize),
    /// Tables of the checkpoint, row by row: number there, number here.
    Rewritten(Vec<(usize, usize)>),
    /// No source: the group starts without rows.
    Empty,
}

/// Parts of a model that come from a checkpoint, and the differences between both models.
#[derive(Debug)]
pub(crate) struct Inheritance {
    /// Source of each table group's rows.
    pub(crate) groups: Vec<GroupOrigin>,
    /// Differences to report before the first step.
    pub(crate) notes: Vec<String>,
    was: Was,
}

impl Inheritance {
    /// The tables of the checkpoint's model.
    pub(crate) fn tables(&self) -> &[TableSpec] {
        self.was.model.tables()
    }
}

/// The checkpoint's model, and the settings that it was trained with.
#[derive(Debug)]
struct Was {
    config: Config,
    model: Model,
}

impl Inheritance {
    /// Returns what `model` with settings `config` inherits from `checkpoint`.
    ///
    /// # Errors
    /// A table that would lose lanes, and a checkpoint whose settings this build cannot read.
    pub(crate) fn of(config: &Config, model: &Model, checkpoint: &Checkpoint) -> Result<Self> {
        let state = RunState::read(checkpoint)?;
        let wrong = |why| Error::Resume { path: checkpoint.path.clone(), why };
        let was = settings::from_json(&state.config).map_err(wrong)?;
        let was = Was { model: Model::build(&was, schema(&was)?)?, config: was };
        let mut notes = changed_settings(&state, config);
        notes.extend(column_notes(&was.config, config));
        refuse_other_rate(config, &was.config)?;
        refuse_cuts(config, (&was, model))?;
        tables_note(&was.model, model, &mut notes);
        let groups: Vec<_> =
            (0..model.groups().len()).map(|number| origin(number, &was.model, model)).collect();
        for (origin, group) in groups.iter().zip(model.groups()) {
            if let GroupOrigin::Rewritten(_) = origin {
                let names = group.tables.iter().map(|table| &*model.tables()[*table].name);
                notes.push(format!(
                    "rows of {} have a different layout in the checkpoint: each row is rewritten",
                    names.collect::<Vec<_>>().join(", ")
                ));
            }
        }
        Ok(Self { groups, notes, was })
    }

    /// Returns the dense part for the new model `trained`, filled from `checkpoint`, and a note on
    /// what stays initial.
    ///
    /// # Errors
    /// If the model's dense part cannot be read.
    pub(crate) fn dense(
        &self,
        config: &Config,
        trained: &TrainedModel,
        checkpoint: &Dense,
    ) -> Result<(Dense, Option<String>)> {
        let model = trained.model();
        let mut dense = trained.dense()?.to_dense();
        let same_rule = self.was.config.optim.dense.kind == config.optim.dense.kind;
        let axes = [axes(&self.was.config, &self.was.model)?, axes(config, model)?];
        let (was, now) = (self.was.model.graph(), model.graph());
        let parameters = Matched::new([was.parameters(), now.parameters()], &axes);
        let state = Matched::new([was.state(), now.state()], &axes);
        let mut initial = Vec::new();
        for (name, values) in &mut dense.sections {
            let of = |name: &str| checkpoint.sections.iter().find(|(known, _)| known == name);
            // A new mean begins with the parameters.
            let there = of(name).or_else(|| of(PARAMETERS).filter(|_| name == AVERAGED));
            match there.map(|(_, values)| values) {
                Some(there) if name == STEP && same_rule => values.clone_from(there),
                Some(there) if name == STATE && state.is_vector(there) => {
                    initial.extend(state.copy(there, values));
                }
                Some(there)
                    if parameters.is_vector(there)
                        && (same_rule || [PARAMETERS, AVERAGED].contains(&&**name)) =>
                {
                    let left = parameters.copy(there, values);
                    if name == PARAMETERS {
                        initial.extend(left);
                    }
                }
                _ => {}
            }
        }
        self.beside_rows(config.pipeline.staleness, model, (checkpoint, &mut dense));
        // In the form of names in exports.
        let names = initial.join(", ").replace('/', ".");
        let note = (!initial.is_empty()).then(|| format!("initial, in whole or in part: {names}"));
        Ok((dense, note))
    }

    /// Adds the sections for admission and for reads that miss `staleness` steps, from the
    /// checkpoint if they fit.
    fn beside_rows(
        &self,
        staleness: usize,
        model: &Model,
        (checkpoint, dense): (&Dense, &mut Dense),
    ) {
        let has = |name: &str, count: Option<usize>| {
            let found = checkpoint.sections.iter().find(|(known, _)| known == name);
            found.filter(|(_, values)| count.is_none_or(|count| values.len() == count)).cloned()
        };
        let same_tables = self.was.model.tables().len() == model.tables().len()
            && self.was.model.tables().iter().zip(model.tables()).all(same_table);
        let goes_on = same_tables && self.was.config.pipeline.staleness == staleness;
        let stale = checkpoint.sections.iter().filter(|(name, _)| name.starts_with(STALE));
        if goes_on {
            dense.sections.extend(stale.cloned());
        } else {
            let names = (0..staleness)
                .flat_map(|step| (0..model.tables().len()).map(move |table| (step, table)));
            for (step, table) in names {
                for name in EmbeddingBags::stale_names(step, table) {
                    dense.sections.push((name, Vec::new()));
                }
            }
        }
        for (table, bytes) in model.tables().iter().zip(model.sketch_bytes()) {
            let Some(name) = EmbeddingBags::sketch_name(table) else { continue };
            let lanes = EmbeddingBags::sketch_bytes_max(*bytes) as usize / size_of::<f32>();
            let section = has(&name, Some(lanes)).unwrap_or_else(|| (name, vec![0.0; lanes]));
            dense.sections.push(section);
        }
    }
}

/// The parameters of two models, or the states of their graphs, matched.
struct Matched {
    /// Number of lanes in the checkpoint's model.
    count: usize,
    pairs: Vec<Pair>,
}

/// A parameter, and its namesake in the checkpoint, if any.
struct Pair {
    name: String,
    to: Range<usize>,
    from: Option<Range<usize>>,
    /// For each row and column, its place in the checkpoint; `None` if both parameters are alike.
    places: Option<Places>,
}

struct Places {
    rows: Vec<Option<usize>>,
    columns: Vec<Option<usize>>,
    /// Number of columns in the checkpoint.
    stride: usize,
}

impl Matched {
    /// Matches what the checkpoint's model had with what this model has.
    fn new(
        [known, wanted]: [&[ParameterSpec]; 2],
        [before, now]: &[HashMap<String, Axes>; 2],
    ) -> Self {
        let pairs = wanted.iter().map(|parameter| {
            let from = known.iter().find(|known| known.name == parameter.name);
            let axes = (before.get(&parameter.name), now.get(&parameter.name));
            Pair::new(parameter, from, axes)
        });
        let count = known.last().map_or(0, |last| last.range.end);
        Self { count, pairs: pairs.collect() }
    }

    /// Whether `values` has a number for each lane of the checkpoint's model.
    fn is_vector(&self, values: &[f32]) -> bool {
        values.len() == self.count
    }

    /// Copies the common places; returns the parameters that stay partly initial.
    fn copy(&self, from: &[f32], to: &mut [f32]) -> Vec<String> {
        let mut initial = Vec::new();
        for pair in &self.pairs {
            let (Some(there), here) = (&pair.from, &mut to[pair.to.clone()]) else {
                initial.push(pair.name.clone());
                continue;
            };
            let there = &from[there.clone()];
            match &pair.places {
                None => here.copy_from_slice(there),
                Some(places) => {
                    if !places.copy(there, here) {
                        initial.push(pair.name.clone());
                    }
                }
            }
        }
        initial
    }
}

impl Pair {
    fn new(
        parameter: &ParameterSpec,
        from: Option<&ParameterSpec>,
        (was, is): (Option<&Axes>, Option<&Axes>),
    ) -> Self {
        let (name, to) = (parameter.name.clone(), parameter.range.clone());
        let Some(from) = from else { return Self { name, to, from: None, places: None } };
        let range = Some(from.range.clone());
        let fits = |axes: &[Vec<String>], shape: &[usize]| {
            axes.len() == shape.len() && axes.iter().zip(shape).all(|(axis, n)| axis.len() == *n)
        };
        match (was, is) {
            (Some(was), Some(is)) if fits(was, &from.shape) && fits(is, &parameter.shape) => {
                if was == is {
                    return Self { name, to, from: range, places: None };
                }
                let (rows, columns, stride) = match (&was[..], &is[..]) {
                    ([was_rows, was_columns], [rows, columns]) => {
                        let stride = was_columns.len();
                        (places(was_rows, rows), places(was_columns, columns), stride)
                    }
                    (was, is) => (vec![Some(0)], places(&was[0], &is[0]), was[0].len()),
                };
                Self { name, to, from: range, places: Some(Places { rows, columns, stride }) }
            }
            (None, None) if from.shape == parameter.shape => {
                Self { name, to, from: range, places: None }
            }
            _ => Self { name, to, from: None, places: None },
        }
    }
}

/// Place in `was` of each label in `now`.
fn places(was: &[String], now: &[String]) -> Vec<Option<usize>> {
    let known: HashMap<&String, usize> =
        was.iter().enumerate().map(|(place, label)| (label, place)).collect();
    now.iter().map(|label| known.get(label).copied()).collect()
}

impl Places {
    /// Copies the common places; returns whether that fills `to`.
    fn copy(&self, from: &[f32], to: &mut [f32]) -> bool {
        let mut all = true;
        for (row, there) in self.rows.iter().enumerate() {
            for (column, place) in self.columns.iter().enumerate() {
                match (there, place) {
                    (Some(there), Some(place)) => {
                        to[row * self.columns.len() + column] = from[there * self.stride + place];
                    }
                    _ => all = false,
                }
            }
        }
        all
    }
}

/// Whether rows of both have the same parts, so that one store can link the other's segments.
fn same_parts(a: &TableSpec, b: &TableSpec) -> bool {
    let kind = |of: &TableSpec| {
        let rule = of.optimizer.rule().name();
        (of.dim, of.wide, of.storage, rule, of.life.is_some(), of.shared)
    };
    kind(a) == kind(b)
}

fn same_table((a, b): (&TableSpec, &TableSpec)) -> bool {
    a.name == b.name && same_parts(a, b)
}

/// Source of the rows of table group `number` of `model`.
fn origin(number: usize, was: &Model, model: &Model) -> GroupOrigin {
    let place = |table: &usize| {
        let name = &model.tables()[*table].name;
        was.tables().iter().position(|known| known.name == *name)
    };
    let here = &model.groups()[number].tables;
    let found: Vec<(usize, usize)> =
        here.iter().filter_map(|table| Some((place(table)?, *table))).collect();
    let Some((first, _)) = found.first() else { return GroupOrigin::Empty };
    let there = was.groups().iter().position(|group| group.tables.contains(first));
    let is_whole = |there: &usize| {
        let of = &was.groups()[*there].tables;
        let alike = |(a, b): &(usize, usize)| same_parts(&was.tables()[*a], &model.tables()[*b]);
        of.len() == here.len()
            && found.len() == here.len()
            && found.iter().all(|pair| of.contains(&pair.0) && alike(pair))
    };
    match there.filter(is_whole) {
        Some(there) => GroupOrigin::Linked(there),
        None => GroupOrigin::Rewritten(found),
    }
}

/// Refuses embeddings with fewer lanes, which lose what was learned, except in a kind of model that
/// reads none, made from another kind.
fn refuse_cuts(config: &Config, (was, model): (&Was, &Model)) -> Result<()> {
    let reads_none = matches!(config.model.kind, ModelKind::Lr | ModelKind::Graph)
        && model.tables().iter().all(|table| table.dim == 0);
    if reads_none && was.config.model.kind != config.model.kind {
        return Ok(());
    }
    for table in model.tables() {
        let known = was.model.tables().iter().find(|known| known.name == table.name);
        if let Some(known) = known.filter(|known| known.dim > table.dim) {
            return Err(Error::Config(format!(
                "table '{}' has embeddings of {} lanes in the checkpoint, but {} in this model: \
                 raise model.dim or tables.{}.dim to at least that many, because rows are not \
                 truncated",
                table.name, known.dim, table.dim, table.name
            )));
        }
    }
    Ok(())
}

/// Refuses another share of negatives: the model's scores are those for the old one, until it has
/// learned the new one.
fn refuse_other_rate(config: &Config, was: &Config) -> Result<()> {
    let (is, was) = (config.data.negative_rate, was.data.negative_rate);
    if is == was {
        return Ok(());
    }
    Err(Error::Config(format!(
        "{NEGATIVE_RATE} is {is}, and the checkpoint was trained with {was}: its scores are \
         corrected for {was}; give that"
    )))
}

/// Notes added and removed tables.
fn tables_note(was: &Model, model: &Model, notes: &mut Vec<String>) {
    let names = |of: &Model| of.tables().iter().map(|table| table.name.clone()).collect::<Vec<_>>();
    let (before, now) = (names(was), names(model));
    let lacks = |all: &[String], of: &[String]| -> Vec<String> {
        of.iter().filter(|name| !all.contains(name)).cloned().collect()
    };
    let (new, gone) = (lacks(&before, &now), lacks(&now, &before));
    if !new.is_empty() {
        notes.push(format!("new tables, without rows yet: {}", new.join(", ")));
    }
    if !gone.is_empty() {
        notes.push(format!(
            "tables of the checkpoint that this model does not have: {}",
            gone.join(", ")
        ));
    }
}

/// Settings of the model that differ from the checkpoint's, one note each, except columns, which
/// have separate notes.
fn changed_settings(state: &RunState, config: &Config) -> Vec<String> {
    let differences = state.differences(&model_settings(config));
    let unsaid = ["data.eval_fraction", "data.eval_values"];
    let is_said = |key: &str| !unsaid.contains(&key) && !key.starts_with("columns.");
    let of = differences.into_iter().filter(|of| is_said(&of.key));
    of.map(|of| format!("{} = {}, in the checkpoint {}", of.key, of.is, of.was)).collect()
}

#[cfg(test)]
mod tests;
