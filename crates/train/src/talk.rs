//! The messages between ranks in a run, by tag.
//!
//! ```text
//!            requester                          owner
//!   ask      keys of a mini-batch, ahead ─────► plans the union
//!   early    keeps them ◄────────────────────── next step's weights, if unchanged by this one
//!   answer   pools, forward, backward ◄──────── the others, once the previous step is over
//!   said     scores, gradients by subtree ────► combines sums of its rows and its lanes
//!   summed   dense gradients of its lanes: every rank to every rank
//! ```
//!
//! Lent rows are sent whole with an answer, and returned whole with the gradients (`said`).
//!
//! Out of step, `rows` replaces `answer` and `learned` replaces `said`; the dense part is
//! moved by a protocol with its own tags ([`stepwell_sync`]) or by a parameter server.

use stepwell_fabric::Tag;

/// Keys of a mini-batch for their owners: all-to-all.
pub(crate) const ASK: Tag = Tag(1);
/// Weights of requested rows, and rows lent to the requester: all-to-all.
pub(crate) const ANSWER: Tag = Tag(2);
/// Weights of rows for the next step: from each rank to each requester of some of its rows. Sent
/// before `SAID`, which announces them.
pub(crate) const EARLY: Tag = Tag(14);
/// Losses, dense gradient sums for the owners of those lanes, row gradient sums for the owners of
/// the rows, and returned rows; for rank 0 also scores and labels: all-to-all.
pub(crate) const SAID: Tag = Tag(3);
/// Summed dense gradients: all-gather.
pub(crate) const SUMMED: Tag = Tag(4);
/// Each rank's part of the model's digest, or that it gave up: all-gather.
pub(crate) const DIGEST: Tag = Tag(5);
/// Out of step: weights of requested rows, once the requester may read them.
pub(crate) const ROWS: Tag = Tag(15);
/// Out of step: the content of `SAID` except dense gradients, which a protocol moves.
pub(crate) const LEARNED: Tag = Tag(16);
/// The dense part's protocol has ended on this rank: barrier.
pub(crate) const SETTLED: Tag = Tag(17);
/// The dense part that all continue with: broadcast, or all-gather if it is a mean.
pub(crate) const MODEL: Tag = Tag(18);
/// First tag of tables, if the dense part is in tables: they have all tags from here on that no
/// protocol has.
pub(crate) const TABLES: Tag = Tag(0x6000);
/// Before a rank ends: barrier.
pub(crate) const END: Tag = Tag(6);
/// Whether rank 0 has begun a checkpoint, or it already exists: broadcast.
pub(crate) const KEEP: Tag = Tag(7);
/// Parts of a checkpoint that each rank kept, for rank 0: gather.
pub(crate) const KEPT: Tag = Tag(8);
/// Rank 0 has named a checkpoint: broadcast.
pub(crate) const NAMED: Tag = Tag(13);
/// From rank 0 at the start: the step of the checkpoint that all resume from: broadcast.
pub(crate) const START: Tag = Tag(9);
/// Properties of ranks that are processes, for rank 0 to compare: gather.
pub(crate) const AGREE: Tag = Tag(10);
/// A rank was asked to stop and waits for the others' digests: each rank to each, at most once.
pub(crate) const ASKED: Tag = Tag(12);
/// From rank 0 after an evaluation: whether training ends early: broadcast.
pub(crate) const VERDICT: Tag = Tag(19);
/// Each rank's report, for rank 0: gather.
pub(crate) const REPORT: Tag = Tag(11);
