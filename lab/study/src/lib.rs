//! Studies: experiments from papers on synchronization, repeated on the virtual clock and compared
//! with the papers' results; and one from a paper on hashing ids, without a clock.
//!
//! ```text
//! IDX files ─► Images ─► a part per rank ──────► Learner (nn::Graph) ─┐
//!                                                                     ▼
//! paper's baseline ─► fit ─► Times ───────────────────────────► sim::clock ─► figures, page, SVG
//! ```
//!
//! - **Why.** The papers' machines are gone, but their comparisons can be repeated: who waits for
//!   whom follows from times, and these from a cost model fitted only to the baselines. Results of
//!   other protocols are then predictions, and accuracies are real.
//! - **Invariants.** Results on the virtual clock are a function of a study's options and data:
//!   they repeat bit for bit on machines with the same instruction set. Measured values are marked
//!   as such.
//! - **Bounds.** All data of a study is in memory; each module gives its size.

#![forbid(unsafe_code)]

mod costs;
pub mod ctr;
mod curve;
mod error;
pub mod geeps;
pub mod hash;
mod images;
mod learner;
mod models;
mod plot;
pub mod rdma_wild;
pub mod rna;

pub use costs::Costs;
pub use curve::Point;
pub use error::{Error, Result};
pub use images::Images;
pub use plot::{Plot, draw};

/// How much of a study is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// All of it.
    #[default]
    Full,
    /// A tenth of it.
    Quick,
}
