//! Studies: what the papers on synchronisation ran, run again on the virtual clock, beside their
//! figures.
//!
//! ```text
//! IDX files ─► Images ─► a part for each rank ─► Learner (nn::Graph) ─┐
//!                                                                     ▼
//! paper's baseline ─► fit ─► Times ───────────────────────────► sim::clock ─► figures, page, SVG
//! ```
//!
//! - **Why.** The papers' machines are gone, and what they compared can be: who waits for whom
//!   follows from times, and these from a model that is fitted to their baselines alone. What
//!   another protocol makes of it is then a prediction, and the accuracies are real.
//! - **Invariants.** Figures on the virtual clock follow from a study's options and its data: they
//!   repeat to the bit on machines with the same instruction set. What is measured says so.
//! - **Bounds.** Data of a study lies in memory whole; each module says how much.

#![forbid(unsafe_code)]

mod costs;
pub mod ctr;
mod curve;
mod error;
pub mod geeps;
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
