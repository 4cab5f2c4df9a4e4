//! A run from settings to report: files, capacity, tiers, pipeline, digest.

mod agree;
mod build;
mod checkpoints;
mod digest;
mod execute;
mod figures;
mod full_index;
mod groups;
mod last_step;
mod one_class;
mod one_rank;
mod ranks;
mod reading;
mod ready_data;
mod score;
mod space;
mod surroundings;
mod warm_up;

use std::cell::RefCell;

use stepwell_base::stop::StopRequest;
use stepwell_data::Sources;
use stepwell_engine::TableSpec;
use stepwell_engine::process_limits::{self, FilesWanted};
use stepwell_nn::ParameterSpec;
use stepwell_settings::{Config, LayerConfig, LayerKind};

use self::build::{Beginning, StartWith, capacity, ranks_here};
use self::execute::add_saves;
use self::one_rank::run;
use self::reading::sources;
pub use self::reading::synth_options;
pub use self::ready_data::{ReadyData, ready_data};
pub use self::score::evaluate;
pub use self::surroundings::{RowsAtStart, Surroundings};
use crate::capacity::{Capacity, Expected};
use crate::forecast::{Forecast, Known};
use crate::machine::Machine;
use crate::models::Model;
use crate::report::Report;
use crate::run_plan::{RunPlan, schema};
use crate::{Error, Result};

/// Trains and evaluates as `config` says: runs all ranks as threads of this process, or only the
/// rank of `around.machine`.
///
/// # Errors
/// Everything that the user can fix, and I/O errors.
pub fn train(config: &Config, around: &Surroundings) -> Result<Report> {
    let saves = config.checkpoint.dir.is_some();
    let ranks = ranks_here(config.ranks.count, around.machine.ranks.as_ref()).threads;
    // Checked before any file is opened; there is at least one store.
    build::check_files(&FilesWanted { ranks, stores: 1, checkpoints: saves })?;
    let report = match &around.machine.ranks {
        Some(ranks) if ranks.processes.is_some() => ranks::run_process(config, around, ranks),
        Some(ranks) => ranks::run_rank(config, around, &ranks.fabric),
        None if config.ranks.count > 1 => ranks::train(config, around),
        None => run(config, around),
    };
    let report =
        report.map_err(|error| reading::hint_at_columns(add_saves(error, saves), config))?;
    report.cut_lists.iter().for_each(|column| (around.on_note)(&column.note()));
    Ok(report)
}

/// Returns the capacity plan of a run without running it.
///
/// # Errors
/// Invalid settings, or unreadable data.
pub fn plan(config: &Config, expected: &Expected<'_>) -> Result<Capacity> {
    let plan = checked(config)?;
    planned(&plan, expected).map(|(capacity, ..)| capacity)
}

/// Returns the capacity plan and a forecast of several ranks' traffic and speed, as far as `known`
/// determines it.
///
/// # Errors
/// The errors of [`plan`], and data without an example.
pub fn forecast(
    config: &Config,
    expected: &Expected<'_>,
    known: &Known,
) -> Result<(Capacity, Forecast)> {
    let plan = checked(config)?;
    let (capacity, sources, model) = planned(&plan, expected)?;
    let forecast = Forecast::of(&plan, &sources, &model, known)?;
    Ok((capacity, forecast))
}

/// Resolves the settings of a run that may have several ranks.
fn checked(config: &Config) -> Result<RunPlan<'_>> {
    let checked = config.check().and_then(|()| config.check_ranks(ranks::COUNT));
    checked.map_err(Error::Config)?;
    RunPlan::of(config)
}

fn planned(plan: &RunPlan<'_>, expected: &Expected<'_>) -> Result<(Capacity, Sources, Model)> {
    let sources = sources(plan, &StopRequest::new())?;
    sources.check_streams(plan.data.streams)?;
    let model = build::model(plan.config, &sources)?;
    let notes = RefCell::new(Vec::new());
    let note = |note| notes.borrow_mut().push(note);
    let offer = build::offer(plan, &Machine::default(), &note)?;
    let begin = expected.from.map_or(Beginning::Anew, Beginning::Warm);
    let start = StartWith { begin, has_rows: false, rows: expected.rows };
    let mut capacity = capacity(plan, &sources, &model, start, (None, offer))?;
    capacity.notes.splice(0..0, notes.take());
    if capacity.devices.is_some() {
        capacity.notes.extend(warm_up::ahead(plan, &sources));
    }
    // The run may be meant for another machine.
    let files = process_limits::lacks_files(&FilesWanted {
        ranks: plan.ranks.count,
        stores: capacity.tiers.groups.len(),
        checkpoints: plan.storage.saves(),
    });
    for why in capacity.lacks.clone().into_iter().chain(files) {
        capacity.notes.push(format!("this machine would refuse the run: {why}"));
    }
    Ok((capacity, sources, model))
}

/// Returns the tables of the model that `config` names.
///
/// # Errors
/// Settings from which no model can be built.
pub fn tables(config: &Config) -> Result<Vec<TableSpec>> {
    Ok(Model::build(config, schema(config)?)?.tables().to_vec())
}

/// The layers of the model that `config` names, as `model.kind = graph` takes them.
///
/// # Errors
/// Settings from which no model can be built.
pub fn layers(config: &Config) -> Result<Vec<LayerConfig>> {
    Model::layers(config, schema(config)?)
}

/// Layers of a model that ranks items by dot products with vectors of users.
#[derive(Clone, Debug)]
pub struct PairLayers {
    /// Layer of the user's vector.
    pub user: String,
    /// Layer of the item's vector.
    pub item: String,
    /// Parts of the input that the item's vector is computed from.
    pub item_inputs: Vec<String>,
}

/// The layers with the vectors of users and items; `None` if the model has none.
///
/// # Errors
/// Settings from which no model can be built.
pub fn pair_layers(config: &Config) -> Result<Option<PairLayers>> {
    if !config.trains_on_positives() {
        return Ok(None);
    }
    let layers = layers(config)?;
    let pairs = layers.iter().find(|layer| layer.kind == LayerKind::InBatchSoftmax);
    let Some([user, item]) = pairs.and_then(|layer| layer.inputs.first_chunk()) else {
        return Ok(None);
    };
    let (mut item_inputs, mut reached) = (Vec::new(), vec![item]);
    // Inputs of layers are before them.
    for layer in layers.iter().rev() {
        if reached.contains(&&layer.name) {
            reached.extend(&layer.inputs);
        }
    }
    for name in reached {
        if layers.iter().all(|layer| layer.name != *name) && !item_inputs.contains(name) {
            item_inputs.push(name.clone());
        }
    }
    Ok(Some(PairLayers { user: user.clone(), item: item.clone(), item_inputs }))
}

/// Number of columns of each of these layers or parts of the input of the model that `config`
/// names.
///
/// # Errors
/// Settings from which no model can be built, or a name that the model doesn't have.
pub fn layer_columns(config: &Config, names: &[String]) -> Result<Vec<usize>> {
    let model = Model::build(config, schema(config)?)?;
    names.iter().map(|name| Ok(model.graph().columns_of(&model.source(name)?))).collect()
}

/// What a model's dense part consists of.
#[derive(Clone, Debug)]
pub struct DenseParts {
    /// Its parameters, with their places in the flat vector.
    pub parameters: Vec<ParameterSpec>,
    /// Its state besides parameters, with places in a vector of its own.
    pub state: Vec<ParameterSpec>,
}

/// Returns the parts of the dense part of the model that `config` names.
///
/// # Errors
/// Settings from which no model can be built.
pub fn dense_parts(config: &Config) -> Result<DenseParts> {
    let model = Model::build(config, schema(config)?)?;
    let (parameters, state) = (model.graph().parameters(), model.graph().state());
    Ok(DenseParts { parameters: parameters.to_vec(), state: state.to_vec() })
}
