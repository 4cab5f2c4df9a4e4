//! A step that ranks take out of step: each computes its part when it has the rows, and owners
//! update rows when all parts of a step are in.
//!
//! ```text
//!  answer   rows that some ranks ask of this one, as they are now                         own rows
//!  learn    answers ─► visiting rows ─► x ─► loss ─► gradients ─► sums by subtree      own blocks
//!  apply    row gradients of all ranks, in the one tree ─► rows                           own rows
//! ```
//!
//! Rows change by whole steps, in order, by the same sums as in step: what differs is how many
//! steps the rows lack that a rank reads. The dense part is a protocol's ([`stepwell_sync`]).

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
    /// What computes this rank's parts of mini-batches beside it, on `pool`: the same model, with
    /// dense parameters and room of its own. `rows` are the most of each table that a mini-batch
    /// has.
    ///
    /// # Errors
    /// When the system has no memory for it.
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
        // It admits no rows, and needs no sketch.
        let mut learner = Self::of((model, profile), config, pool, Vec::new())?;
        learner.dense.share(fabric.size() - config.servers());
        let sharing = Sharing::new(fabric, (guests, None), stop).beside_protocol(late);
        learner.sharing = Some(sharing);
        Ok(learner)
    }

    /// The rows of `mini`, as they are now, that each of `ranks` asked for.
    ///
    /// # Errors
    /// When a device fails.
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

    /// Computes this rank's part of `mini` with the rows that all owners answered and these dense
    /// parameters: gives what each rank is to know of it, and puts into `gradient` that of the
    /// dense part, of the mean over all examples of the mini-batch.
    ///
    /// # Errors
    /// Names the rank whose answer makes no sense.
    pub(crate) fn learn(
        &mut self,
        mini: &mut MiniBatch,
        answers: Vec<Message>,
        (parameters, gradient): (&[f32], &mut Vec<f32>),
    ) -> Result<Vec<Message>> {
        // Of the steps before it: what is dropped of a layer is drawn by that.
        self.dense.set_parameters(parameters, mini.cargo.after.step - 1)?;
        let Some(mut sharing) = self.sharing.take() else { unreachable!("it has guests") };
        let (pool, blocks) = (Arc::clone(&self.pool), mini.cargo.shared.own_blocks());
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

    /// Updates this rank's rows by what all ranks said of `mini`; [`Trainer::take_scored`] has the
    /// scores then.
    ///
    /// # Errors
    /// Names the rank whose message makes no sense.
    pub(crate) fn apply_said(
        &mut self,
        said: Vec<Message>,
        mini: &mut MiniBatch,
        groups: &[Arc<Group>],
    ) -> Result<()> {
        let Some(sharing) = &mut self.sharing else { unreachable!("there are ranks") };
        let blocks = mini.cargo.shared.own_blocks().of_all();
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

    /// Takes over the dense part that ranks agreed upon.
    ///
    /// # Errors
    /// Says what does not fit this model.
    pub(crate) fn load_dense(&mut self, dense: &Dense) -> std::result::Result<(), String> {
        self.dense.load(dense).map(drop)
    }
}
