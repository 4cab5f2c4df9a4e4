//! The dense part of ranks that are out of step: moved by a protocol or a parameter server between
//! two marks, and the same on all ranks at marks.
//!
//! ```text
//! begin ─► gradients … ─► end_after n ─► the protocol ends ─► all have ended ─► one model for all
//! ```
//!
//! If each rank has its own parameters or optimizer state, that model is their mean; else it is
//! rank 0's.

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_engine::Dense;
use stepwell_fabric::collective::{AllToAll, Barrier, Broadcast, Collective as _, all_gather};
use stepwell_fabric::{Fabric, Message};
use stepwell_nn::{ParameterSpec, tree_sum};
use stepwell_settings::DenseKind;
use stepwell_sync::{Counts, OpenEnded, Options, Rate};

use super::geeps::{Tables, Worker};
use crate::dense::AgreedOptimizer;
use crate::run_plan::RunPlan;
use crate::{Error, Result, talk};

/// A rank's end of the protocol, and the state that it moves.
pub(crate) struct Agreement {
    kind: DenseKind,
    options: Options,
    /// Used if a parameter server moves the dense part.
    tables: Tables,
    clock: Arc<dyn Clock>,
    optimizer: AgreedOptimizer,
    /// The protocol between two sequences of steps; `None` before the first.
    resting: Option<Box<dyn OpenEnded<f32>>>,
    settling: Settling,
}

/// Progress of ranks towards one model.
enum Settling {
    /// The protocol is running, or has not begun.
    Open,
    Barrier(Barrier),
    /// Waits for rank 0's model.
    First(Broadcast),
    /// Waits for all ranks' models.
    Mean(AllToAll),
}

impl Agreement {
    /// The agreement of a run on these parameters.
    ///
    /// # Errors
    /// If the optimizer's settings are invalid.
    pub(crate) fn new(
        plan: &RunPlan<'_>,
        parameters: &[ParameterSpec],
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let count = parameters.iter().map(|parameter| parameter.range.len()).sum();
        Ok(Self {
            kind: plan.ranks.sync.dense,
            options: Self::options(plan),
            tables: Tables::new(plan.ranks, parameters),
            clock: Arc::clone(clock),
            optimizer: AgreedOptimizer::new(plan.dense, count)?,
            resting: None,
            settling: Settling::Open,
        })
    }

    /// The most bytes of a rank's end for these parameters, without those of the transport.
    ///
    /// # Errors
    /// If the protocol does not support that many ranks or parameters.
    pub(crate) fn bytes_max(plan: &RunPlan<'_>, parameters: &[ParameterSpec]) -> Result<u64> {
        let ranks = plan.ranks;
        match ranks.sync.dense {
            DenseKind::Geeps => Tables::new(ranks, parameters).bytes_max(ranks.count),
            DenseKind::Protocol(kind) => {
                let lanes: usize = parameters.iter().map(|parameter| parameter.range.len()).sum();
                let bytes = lanes * size_of::<f32>();
                Ok(Self::options(plan).bytes(kind, ranks.count, bytes) as u64)
            }
        }
    }

    /// Options of the run's protocol.
    fn options(plan: &RunPlan<'_>) -> Options {
        let RunPlan { ranks, dense, .. } = plan;
        // The optimizer has its own rate.
        let usual = Options::new(u64::MAX, Rate::constant(1.0));
        let probes = ranks.sync.probes.min(ranks.count);
        let age_max = ranks.sync.age;
        // A rank that is ahead computes gradients of old parameters: two suffice to continue while
        // others are late.
        Options { seed: dense.seed, probes, age_max, waiting_max: 2, ..usual }
    }

    /// Begins with the parameters and optimizer state of `dense`; returns the protocol.
    ///
    /// # Errors
    /// If the options do not fit the ranks.
    pub(super) fn begin(
        &mut self,
        fabric: &Fabric,
        dense: &Dense,
    ) -> Result<Box<dyn OpenEnded<f32>>> {
        let parameters = self.optimizer.load(dense).map_err(Error::Config)?;
        if let Some(mut protocol) = self.resting.take() {
            protocol.resume(&parameters);
            return Ok(protocol);
        }
        let optimizer = Box::new(self.optimizer.clone());
        match self.kind {
            DenseKind::Protocol(kind) => {
                let begun = kind.begin_open(fabric, parameters, optimizer, &self.options);
                begun.map_err(|why| Error::Config(why.to_string()))
            }
            DenseKind::Geeps => {
                let (tables, clock) = (self.tables.clone(), Arc::clone(&self.clock));
                Ok(Box::new(Worker::new(tables, fabric.clone(), clock, optimizer, parameters)))
            }
        }
    }

    /// Keeps the protocol, which has settled, for the next sequence of steps.
    pub(super) fn rest(&mut self, protocol: Box<dyn OpenEnded<f32>>) {
        self.resting = Some(protocol);
    }

    /// Counts of gradients up to the last mark.
    pub(super) fn counts(&self) -> Counts {
        self.resting.as_ref().map_or_else(Counts::default, |protocol| protocol.counts())
    }

    /// Advances to the model that all ranks continue with, once the `protocol` has ended on this
    /// rank; returns it. Without `waits`, for tests, it does not wait for that end.
    ///
    /// # Errors
    /// If a rank is gone, or sends an invalid message.
    pub(super) fn settle(
        &mut self,
        fabric: &Fabric,
        protocol: &dyn OpenEnded<f32>,
        waits: bool,
    ) -> Result<Option<Dense>> {
        loop {
            let ended = !waits || protocol.ended();
            self.settling = match &mut self.settling {
                Settling::Open if !ended => return Ok(None),
                Settling::Open => Settling::Barrier(Barrier::start(talk::SETTLED)),
                Settling::Barrier(barrier) => match barrier.poll(fabric)? {
                    None => return Ok(None),
                    Some(()) => self.show(fabric, &self.own(protocol))?,
                },
                Settling::First(first) => {
                    let Some(message) = first.poll(fabric)? else { return Ok(None) };
                    let model = read(&self.own(protocol), 0, &message)?;
                    fabric.keep(message);
                    return Ok(Some(self.settled(model)));
                }
                Settling::Mean(all) => {
                    let Some(messages) = all.poll(fabric)? else { return Ok(None) };
                    let (own, models) = (self.own(protocol), messages.iter().enumerate());
                    let models = models.map(|(rank, message)| read(&own, rank, message));
                    let model = mean(models.collect::<Result<_>>()?);
                    messages.into_iter().for_each(|message| fabric.keep(message));
                    return Ok(Some(self.settled(model)));
                }
            };
        }
    }

    fn settled(&mut self, model: Dense) -> Dense {
        self.settling = Settling::Open;
        model
    }

    /// This rank's parameters and optimizer state.
    fn own(&self, protocol: &dyn OpenEnded<f32>) -> Dense {
        self.optimizer.sections(protocol.model())
    }

    /// Sends the other ranks the part of this rank's model that they need.
    fn show(&self, fabric: &Fabric, own: &Dense) -> Result<Settling> {
        let message = || {
            let mut message = fabric.message_of(own.bytes() as usize + 32 * own.sections.len());
            own.sections.iter().for_each(|(_, values)| message.put(values));
            message
        };
        if self.kind.model_of(fabric.size()).len() > 1 {
            return Ok(Settling::Mean(all_gather(fabric, talk::MODEL, message())?));
        }
        let first = (fabric.rank() == 0).then(message);
        Ok(Settling::First(Broadcast::start(fabric, talk::MODEL, 0, first)))
    }
}

/// Reads a rank's model, which has the sections of `own`.
fn read(own: &Dense, rank: usize, message: &Message) -> Result<Dense> {
    let wrong = |why| stepwell_fabric::Error::malformed(rank, why);
    let mut reader = message.reader();
    let sections = own.sections.iter().map(|(name, values)| {
        let theirs: &[f32] = reader.take_exactly(values.len())?;
        Ok((name.clone(), theirs.to_vec()))
    });
    let sections = sections.collect::<std::result::Result<_, _>>().map_err(wrong)?;
    reader.end().map_err(wrong)?;
    Ok(Dense { sections })
}

/// Returns the mean of all models; the step count and sections that all ranks share are copied.
fn mean(models: Vec<Dense>) -> Dense {
    let share = 1.0 / models.len() as f32;
    let mut mean = models[0].clone();
    let vectors = mean.sections.len() - 1;
    for (place, (_, sum)) in mean.sections.iter_mut().take(vectors).enumerate() {
        let all: Vec<&[f32]> = models.iter().map(|model| &model.sections[place].1[..]).collect();
        if all.iter().all(|values| *values == all[0]) {
            continue;
        }
        tree_sum(&all, sum);
        sum.iter_mut().for_each(|lane| *lane *= share);
    }
    mean
}
