//! What a device does in a pass, captured once and sent in one piece from then on.
//!
//! A pass of a kind is the same operations on the same memory every time; a launch of its own costs
//! more than many of them take. The first pass of a kind is given as it is, so that all its kernels
//! are there when the second is captured.

use std::sync::{Mutex, PoisonError};

use stepwell_device::{Graph, Stream};

use crate::Result;

/// Kinds of which passes are kept: full mini-batches and last ones, trained and evaluated.
const KINDS_MAX: usize = 8;

/// All that tells the operations of two passes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PassKind {
    /// Examples of the mini-batch.
    pub(super) examples: usize,
    pub(super) trains: bool,
    /// Whether examples have weights.
    pub(super) weighs: bool,
    /// Whether devices pooled the rows.
    pub(super) pooled: bool,
}

/// Passes by their kind, the one used last behind the others; none where there was one pass yet.
#[derive(Debug, Default)]
pub(super) struct CapturedPasses(Mutex<Vec<(PassKind, Option<Graph>)>>);

impl CapturedPasses {
    /// Gives `stream` a pass of `kind`, which is what `give` gives it.
    pub(super) fn run(
        &self,
        stream: &Stream,
        kind: PassKind,
        give: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kinds.iter().position(|(known, _)| *known == kind);
        let Some(known) = known.map(|at| kinds.remove(at).1) else {
            if kinds.len() == KINDS_MAX {
                kinds.remove(0);
            }
            kinds.push((kind, None));
            return give();
        };
        let graph = match known {
            Some(graph) => graph,
            None => stream.capture(give)?,
        };
        stream.run(&graph)?;
        kinds.push((kind, Some(graph)));
        Ok(())
    }
}
