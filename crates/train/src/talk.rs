//! What ranks say to each other in a run, by tag.
//!
//! ```text
//!            requester                          owner
//!   ask      keys of a mini-batch, ahead ─────► plans the union
//!   early    keeps them ◄────────────────────── weights for the next step, if this leaves them
//!   answer   pools, forward, backward ◄──────── the others, once the step before is over
//!   said     scores, gradients by subtree ────► combines those of its rows, of its lanes
//!   summed   dense gradients of its lanes: every rank to every rank
//! ```
//!
//! Rows that are lent go whole with an answer, and come back whole with what is said.
//!
//! Out of step, `rows` takes the place of answers and `learned` that of what is said; the dense
//! part is a protocol's, with tags of its own ([`stepwell_sync`]), or a parameter server's.

use stepwell_fabric::Tag;

/// Keys of a mini-batch for their owners: all-to-all.
pub(crate) const ASK: Tag = Tag(1);
/// Weights of rows for who asked for them, and rows that are lent to him: all-to-all.
pub(crate) const ANSWER: Tag = Tag(2);
/// Weights of rows for the next step, for who asked for them: each rank to each to which it has
/// some to send. They go before `SAID`, which tells that they went.
pub(crate) const EARLY: Tag = Tag(14);
/// Losses, sums of dense gradients for who sums these lanes, sums of rows' gradients for their
/// owners, with rows that go back; for rank 0 scores and labels, too: all-to-all.
pub(crate) const SAID: Tag = Tag(3);
/// Dense gradients, summed: all-gather.
pub(crate) const SUMMED: Tag = Tag(4);
/// What each rank has of the model, for its digest, or that it gave it up: all-gather.
pub(crate) const DIGEST: Tag = Tag(5);
/// Out of step: weights of rows for who asked for them, once it may read them.
pub(crate) const ROWS: Tag = Tag(15);
/// Out of step: what `SAID` has, but for dense gradients, which a protocol moves.
pub(crate) const LEARNED: Tag = Tag(16);
/// The dense part's protocol has ended here: barrier.
pub(crate) const SETTLED: Tag = Tag(17);
/// The dense part that all go on with: broadcast, or all-gather where it is a mean.
pub(crate) const MODEL: Tag = Tag(18);
/// The first of those of tables, where the dense part lies in some: this one and all above it that
/// no protocol has.
pub(crate) const TABLES: Tag = Tag(0x6000);
/// Before a rank ends: barrier.
pub(crate) const END: Tag = Tag(6);
/// Whether rank 0 has begun a checkpoint, or it is there already: broadcast.
pub(crate) const KEEP: Tag = Tag(7);
/// What each rank kept of a checkpoint, for rank 0: gather.
pub(crate) const KEPT: Tag = Tag(8);
/// Rank 0 has named a checkpoint: broadcast.
pub(crate) const NAMED: Tag = Tag(13);
/// The step of the checkpoint that all go on from, from rank 0, at the start: broadcast.
pub(crate) const START: Tag = Tag(9);
/// What ranks that are processes have, for rank 0 to compare: gather.
pub(crate) const AGREE: Tag = Tag(10);
/// Somebody was asked to stop and waits for the others' digests: each rank to each, once at most.
pub(crate) const ASKED: Tag = Tag(12);
/// What each rank reports at its end, for rank 0: gather.
pub(crate) const REPORT: Tag = Tag(11);
