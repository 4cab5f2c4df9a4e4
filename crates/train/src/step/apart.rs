//! A step of ranks that are out of step: each computes its part when it has the rows, and owners
//! update rows when all parts of a step have arrived.
//!
//! ```text
//!  answer   current rows that some ranks ask of this one                                  own rows
//!  learn    answers ─► visiting rows ─► x ─► loss ─► gradients ─► sums by subtree      own blocks
//!  apply    row gradients of all ranks, in the one tree ─► rows                           own rows
//! ```
//!
//! Rows change by whole steps, in order, by the same sums as in step: the only difference is how
//! many steps a rank's rows lack. The dense part is moved by a protocol ([`stepwell_sync`]).

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Dense, Group, Guests};
use stepwell_fabric::{Fabric, Message};
use stepwell_settings::Config;

use super::said::{in_pieces, row_sums};
use super::shared::Sharing;
use super::{RowLaps, Trainer};
use crate::batch::MiniBatch;
use crate::{Error, Result};

impl Trainer {
    /// Creates a learner, which computes this rank's parts of mini-batches on `pool`: the same
    /// model, with its own dense parameters and buffers. `rows` bounds the rows of each table in a
    /// mini-batch.
    ///
    /// # Errors
    /// If the system lacks memory for it.
    pub(crate) fn learner(
        &mut self,
        config: &Config,
        (fabric, stop, pool): (Fabric, StopRequest, Arc<ThreadPool>),
        rows: &[usize],
    ) -> Result<Self> {
        self.learns = Some(Arc::clone(&pool));
        let late = self.sharing.as_ref().and_then(|sharing| sharing.late);
        let guests =
            Guests::new(self.embeddings.tables(), rows).map_err(Error::no_memory_of_ranks)?;
        let (model, profile) = (Arc::clone(&self.model), Arc::clone(&self.profile));
        // A learner admits no rows, and needs no sketch.
        let mut learner = Self::of((model, profile), config, pool, Vec::new())?;
        learner.dense.share(fabric.size() - config.servers());
        let sharing = Sharing::new(fabric, (guests, None), stop).beside_protocol(late);
        learner.sharing = Some(sharing);
        Ok(learner)
    }

    /// The current rows of `mini` that each of `ranks` asked for.
    ///
    /// # Errors
    /// If a device fails.
    pub(crate) fn answers(
        &mut self,
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
        ranks: &[usize],
        message_of: impl Fn(usize) -> Message + Sync,
    ) -> Result<Vec<Message>> {
        let Self { embeddings, pool, .. } = self;
        pool.install(|| {
            let rows = embeddings.hold(mini.number, &mut mini.parts, groups, false)?;
            let answer = |rank: &usize| {
                let mut message = message_of(embeddings.answer_bytes(&rows, *rank));
                embeddings.answer_to(*rank, &rows, &mut message);
                message
            };
            Ok(ranks.iter().map(answer).collect())
        })
    }

    /// Computes this rank's part of `mini` with the owners' answers and these dense parameters:
    /// returns the message to each rank, and sets `gradient` to the dense gradient of the mean over
    /// all examples of the mini-batch.
    ///
    /// # Errors
    /// Names the rank whose answer is invalid.
    pub(crate) fn learn(
        &mut self,
        mini: &mut MiniBatch,
        answers: Vec<Message>,
        (parameters, gradient): (&[f32], &mut Vec<f32>),
    ) -> Result<Vec<Message>> {
        // The number of earlier steps, which determines a layer's dropped lanes.
        self.dense.set_parameters(parameters, mini.cargo.after.step - 1)?;
        let Some(mut sharing) = self.sharing.take() else { unreachable!("the step has guests") };
        let (pool, blocks) = (Arc::clone(&self.pool), mini.cargo.blocks);
        let messages = pool.install(|| self.compute(&mut sharing, &answers, mini));
        sharing.keep(answers);
        self.sharing = Some(sharing);
        gradient.resize(parameters.len(), 0.0);
        if blocks.count() > 0 {
            let gradients = self.dense.gradients()?;
            in_pieces(&self.pool, gradient, |lanes, sum| {
                gradients.sum((blocks, 0..blocks.count()), lanes, sum);
            });
        }
        messages
    }

    /// Updates this rank's rows by all ranks' messages about `mini`; [`Trainer::take_scored`] then
    /// returns the scores.
    ///
    /// # Errors
    /// Names the rank whose message is invalid.
    pub(crate) fn apply_said(
        &mut self,
        said: Vec<Message>,
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
    ) -> Result<()> {
        let Some(sharing) = &mut self.sharing else { unreachable!("there are several ranks") };
        let blocks = mini.cargo.blocks.of_all();
        let (own, ranks) = (sharing.fabric.rank(), sharing.fabric.size());
        sharing.scored.hear((&said, own), (blocks, self.model.label_lanes()), Some(0))?;
        let readers = said.iter().enumerate().map(|(rank, said)| {
            let readers = row_sums(said, blocks.of_rank(rank, ranks), own);
            readers.map_err(|why| stepwell_fabric::Error::malformed(rank, why))
        });
        let readers = readers.collect::<std::result::Result<Vec<_>, _>>()?;
        let Self { embeddings, profile, pool, .. } = self;
        let applied = pool.install(|| {
            let mut rows = embeddings.hold(mini.number, &mut mini.parts, groups, true)?;
            embeddings.apply_sums(&mut rows, readers, blocks, &RowLaps(profile))
        });
        applied.map_err(Error::of_shared_rows)?;
        sharing.keep(said);
        Ok(())
    }

    /// Loads the dense part that ranks agreed on.
    ///
    /// # Errors
    /// Describes what does not fit this model.
    pub(crate) fn load_dense(&mut self, dense: &Dense) -> std::result::Result<(), String> {
        self.dense.load(dense).map(drop)
    }
}
