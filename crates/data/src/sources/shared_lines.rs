//! Numbers of lines by which several readers split a pass.

use std::sync::Arc;

use crate::pass_share::{Share, Sharing};
use crate::read_options::Position;

/// How the data of a run is split.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) sharing: Sharing,
    /// Lines of the data.
    pub(super) input: SharedLines,
    /// Lines of separate evaluation files.
    pub(super) eval_input: SharedLines,
}

/// Number of lines of each file of an input, if all lines are examples. `None` if any line may be
/// malformed: then the mini-batch of a line is known only once all previous lines are parsed.
pub(super) type SharedLines = Option<Arc<[u64]>>;

impl Shared {
    /// Share of the pass from `start` to `end`, or to the end of the files, resuming at `from` in
    /// its last stream.
    pub(super) fn of(
        &self,
        lines: &SharedLines,
        start: Position,
        end: Option<Position>,
        from: Position,
    ) -> Option<Share> {
        let lines = lines.as_ref()?;
        let before = |place: Position| {
            lines.iter().take(place.file as usize).sum::<u64>().saturating_add(place.line)
        };
        let end = end.map_or_else(|| lines.iter().sum(), before);
        let (sharing, lines) = (self.sharing.clone(), Arc::clone(lines));
        Some(Share::new(sharing, lines, before(start)..end, before(from)))
    }
}
