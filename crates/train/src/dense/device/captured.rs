//! A device's pass, captured once and then sent as a single graph.
//!
//! Passes of a kind run the same operations on the same memory; separate launches cost more than
//! many of these operations. The first pass of a kind runs uncaptured, so that all its kernels are
//! loaded when the second is captured.

use std::sync::{Mutex, PoisonError};

use stepwell_device::{Graph, Stream};

use crate::Result;

/// Number of kinds kept: full mini-batches and last ones, trained and evaluated.
const KINDS_MAX: usize = 8;

/// Everything that distinguishes the operations of two passes.
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

/// Passes by kind, the most recently used last; `None` after the first pass of a kind.
#[derive(Debug, Default)]
pub(super) struct CapturedPasses(Mutex<Vec<(PassKind, Option<Graph>)>>);

impl CapturedPasses {
    /// Runs a pass of `kind` on `stream`; `give` sends its operations.
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
