//! What a run reads, as its settings say it.

use stepwell_base::stop::StopRequest;
use stepwell_data::{
    PartOf, Position, Purposes, ReadFrom, Schema, Sharing, SourceOptions, Sources, SynthOptions,
};
use stepwell_engine::room::{self, Wants};
use stepwell_engine::{Blocks, Purpose};
use stepwell_fabric::Fabric;
use stepwell_settings::Config;

use crate::batch::RunPosition;
use crate::capacity::BLOCK_BYTES;
use crate::features::Features;
use crate::{Error, Result};

/// What passes are for.
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

/// The numbers of dense features and id columns of the data of `config`.
pub(crate) fn schema(config: &Config) -> Result<Schema> {
    let layout = config.layout().map_err(Error::Config)?;
    Ok(layout.map_or(Schema::CRITEO, |layout| layout.schema()))
}

/// What `config` names to read.
pub(super) fn sources(config: &Config, stop: &StopRequest) -> Result<Sources> {
    let data = config.data.clone();
    let taken = [("checkpoint.dir", &config.checkpoint.dir), ("tiers.ssd", &config.tiers.ssd)];
    let taken = taken.into_iter().filter_map(|(key, place)| Some((key, place.clone()?)));
    let options = SourceOptions {
        schema: schema(config)?,
        layout: config.layout().map_err(Error::Config)?,
        paths: data.paths,
        stream: synth_options(config),
        eval_paths: data.eval_paths,
        eval_fraction: data.eval_fraction,
        epochs: data.epochs,
        shuffled: data.shuffle > 0,
        skip_max: data.skip_max,
        cache: data.cache,
        taken: taken.collect(),
        threads: threads(config),
    };
    Ok(Sources::find(options, stop)?)
}

/// What is read of `sources`, in the streams that `config` says: all of it, or the blocks of the
/// rank of `fabric` of each mini-batch.
pub(super) fn share(
    config: &Config,
    sources: Sources,
    fabric: Option<&Fabric>,
    stop: &StopRequest,
) -> Result<Sources> {
    let (blocks, streams) = (config.model.blocks, config.data.streams);
    let servers = config.servers();
    let (rank, ranks) = fabric.map_or((0, 1), |fabric| (fabric.rank(), fabric.size()));
    if ranks == 1 && streams == 1 {
        return Ok(sources);
    }
    let own = move |examples| {
        Blocks::new(examples, blocks).beside_servers(servers).of_rank(rank, ranks).place()
    };
    let part = PartOf::new(own);
    let sources = if rank == 0 { sources } else { sources.without_making() };
    let sharing = Sharing { mini_batch: config.data.mini_batch, part, streams };
    Ok(sources.shared(sharing, stop)?)
}

/// Threads that read what is evaluated on before the plan is made: where there is no room for them,
/// which the plan then says, this one alone. The system ends a process in which a thread begins
/// without room for its signals.
fn threads(config: &Config) -> usize {
    let wants = Wants { bytes: 0, mapped: 0, threads: config.threads as u64 };
    if room::lacks(&wants).is_some() { 1 } else { config.threads }
}

/// Reads all that an evaluation of this run will read, and counts its examples; none where there is
/// nothing to find.
///
/// # Errors
/// Those of the evaluation, were it now, and that somebody asked to stop.
pub(super) fn check_evaluation(
    config: &Config,
    sources: &Sources,
    stop: &StopRequest,
) -> Result<Option<u64>> {
    let Some(pass) = sources.to_check() else { return Ok(None) };
    let features = Features::of(config, sources.schema())?;
    let options = features.read_options(BLOCK_BYTES);
    let accept = |chunk: &_, files: &_| features.refuse_too_many(chunk, files);
    sources.check(&pass, options, stop, accept).map(Some)
}

impl RunPosition {
    /// Where reading goes on.
    pub(super) fn read_from(self) -> ReadFrom {
        ReadFrom { epoch: self.epoch, place: Position { file: self.file, line: self.line } }
    }
}
