//! Inputs of a run, according to its settings.

use stepwell_base::owner::RankOf;
use stepwell_base::stop::StopRequest;
use stepwell_data::{
    DataError, PartOf, Position, Purposes, ReadFrom, Sharing, SourceOptions, Sources, SynthOptions,
};
use stepwell_engine::process_limits::{self, Wants};
use stepwell_engine::{Blocks, Purpose};
use stepwell_fabric::Fabric;
use stepwell_settings::{Config, DataConfig};

use crate::batch::RunPosition;
use crate::capacity::BLOCK_BYTES;
use crate::features::Features;
use crate::run_plan::RunPlan;
use crate::{Error, Result};

/// Purposes of the passes.
pub(super) const PURPOSES: Purposes<Purpose> =
    Purposes { train: Purpose::Train, evaluate: Purpose::Evaluate };

/// The options of the built-in stream.
pub fn synth_options(config: &Config) -> SynthOptions {
    SynthOptions {
        seed: config.seed,
        examples: config.synth.examples,
        vocab_scale: config.synth.vocab_scale,
        ..SynthOptions::default()
    }
}

/// The data that the settings name.
pub(super) fn sources(plan: &RunPlan<'_>, stop: &StopRequest) -> Result<Sources> {
    let (data, storage) = (plan.data.clone(), &plan.storage);
    let taken = [("checkpoint.dir", &storage.checkpoints.dir), ("tiers.ssd", &storage.rows)];
    let taken = taken.into_iter().filter_map(|(key, place)| Some((key, place.clone()?)));
    let options = SourceOptions {
        schema: plan.schema(),
        layout: plan.layout.clone(),
        paths: data.paths,
        stream: synth_options(plan.config),
        eval_paths: data.eval_paths,
        eval_fraction: data.eval_fraction,
        epochs: data.epochs,
        in_sequence: data.shuffle > 0 || plan.config.negatives_kept() < 1.0,
        skip_max: data.skip_max,
        cache: data.cache,
        taken: taken.collect(),
        threads: threads(plan.threads),
    };
    Ok(Sources::find(options, stop)?)
}

/// Divides `sources` into the streams that the settings ask for: all of it, or the blocks of each
/// mini-batch that belong to the rank of `fabric`.
pub(super) fn share(
    plan: &RunPlan<'_>,
    sources: Sources,
    fabric: Option<&Fabric>,
    stop: &StopRequest,
) -> Result<Sources> {
    let (batching, streams) = (plan.batching, plan.data.streams);
    let servers = plan.ranks.servers;
    let rank = fabric.map_or(RankOf::ALONE, Fabric::place);
    if rank == RankOf::ALONE && streams == 1 {
        return Ok(sources);
    }
    let own = move |examples| {
        Blocks::new(examples, batching.blocks).beside_servers(servers).of_rank(rank).place()
    };
    let part = PartOf::new(own);
    let sources = if rank.rank == 0 { sources } else { sources.without_making() };
    let sharing = Sharing { mini_batch: batching.mini_batch, part, streams };
    Ok(sources.shared(sharing, stop)?)
}

/// Number of threads that read the evaluation data before the plan is made: `wanted`, or one if
/// there is no room for more, which the plan then reports. The system kills a process that starts a
/// thread without room for its signal stack.
fn threads(wanted: usize) -> usize {
    let wants = Wants { bytes: 0, mapped: 0, threads: wanted as u64, processes: 1 };
    if process_limits::lacks(&wants).is_some() { 1 } else { wanted }
}

/// Reads everything that an evaluation of this run will read, and counts its examples; `None` if
/// there is nothing to check.
///
/// # Errors
/// The errors that the evaluation would have now, and a request to stop.
pub(super) fn check_evaluation(
    config: &Config,
    sources: &Sources,
    stop: &StopRequest,
) -> Result<Option<u64>> {
    let Some(pass) = sources.to_check() else { return Ok(None) };
    let features = Features::of(config, sources.schema())?;
    let options = features.read_options(BLOCK_BYTES);
    let accept = |chunk: &_, files: &_| features.refuse_too_many(chunk, files);
    let checked = sources.check(&pass, options, stop, accept).map(Some);
    match &checked {
        // Of several malformed lines, the first of the data is reported, wherever the evaluation
        // begins.
        Err(Error::Data(DataError::Malformed { .. })) if sources.eval_input.is_none() => {
            sources.check(&sources.whole(()), options, stop, accept).and(checked)
        }
        _ => checked,
    }
}

/// Adds the likely fix to the error of a malformed first line.
pub(super) fn hint_at_columns(error: Error, config: &Config) -> Error {
    let Some(hint) = hint(config) else { return error };
    match error {
        // All earlier lines were malformed, too.
        Error::Data(DataError::Malformed { path, line, column, why, skip_max })
            if line <= skip_max + 1 =>
        {
            let why = why + &hint;
            Error::Data(DataError::Malformed { path, line, column, why, skip_max })
        }
        Error::DataOfRanks(why) if why.contains(": line 1, ") => Error::DataOfRanks(why + &hint),
        other => other,
    }
}

/// The likely fix if the first line is malformed: it was parsed as Criteo's click logs because the
/// settings name no columns, or it is a header although `data.header` is false.
fn hint(config: &Config) -> Option<String> {
    let first = config.data.paths.first()?;
    match config.layout() {
        Ok(None) => Some(format!(
            "; no columns are given, so lines are read as Criteo's click logs: `stepwell schema \
             {first} --out run.toml` writes settings with the columns of the file"
        )),
        _ if config.data.header == Some(false) => {
            Some("; if the line names the columns, leave out data.header = false".to_owned())
        }
        _ => None,
    }
}

/// Refuses values of the evaluation column that no record has.
pub(super) fn nothing_chosen(data: &DataConfig) -> Result<()> {
    let Some(column) = data.eval_column.as_ref().filter(|_| data.eval_paths.is_empty()) else {
        return Ok(());
    };
    let chosen = match (&data.eval_from, data.eval_values.as_slice()) {
        (Some(from), _) => format!("data.eval_from = {from}: no {column} is at or after it"),
        (None, []) => return Ok(()),
        (None, values) => {
            let values = values.join(", ");
            format!("data.eval_values = {values}: no record has one of these in {column}")
        }
    };
    Err(Error::Config(format!("{chosen}; check the data, or evaluate on data.eval_paths")))
}

impl RunPosition {
    /// Position at which reading continues.
    pub(super) fn read_from(self) -> ReadFrom {
        ReadFrom { epoch: self.epoch, place: Position { file: self.file, line: self.line } }
    }
}
