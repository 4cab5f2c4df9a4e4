//! Stage `write` with a rule switched off, for tests that must see the resulting wrong row.

use stepwell_base::queue::Received;
use stepwell_base::rules::Rule;
use stepwell_base::stage::{Progress, Stage};

use super::write::{Down, WriteStage};
use crate::{Error, Result};

/// Lands buffers of rows too late: each after the next one, against [`Rule::WriteInOrder`], or
/// forgotten before it is put, against [`Rule::PutBeforeForget`].
pub(super) struct Disorder {
    stage: WriteStage,
    broken: Rule,
    /// A buffer that waits for the next one.
    late: Option<Down>,
}

impl Disorder {
    pub(super) fn new(stage: WriteStage, broken: Rule) -> Self {
        Self { stage, broken, late: None }
    }

    fn take(&mut self, next: Down, late: Option<Down>) -> Result<()> {
        if self.broken == Rule::WriteInOrder && late.is_some() {
            self.late = late;
            return self.stage.write(next);
        }
        if self.broken == Rule::PutBeforeForget {
            self.stage.groups[next.group].staging.forget(&next.buffer);
        }
        self.late = Some(next);
        late.map_or(Ok(()), |late| self.stage.write(late))
    }
}

impl Stage for Disorder {
    type Error = Error;

    fn name(&self) -> &'static str {
        self.stage.name()
    }

    fn poll(&mut self) -> Result<Progress> {
        match (self.stage.input.try_recv(), self.late.take()) {
            (Received::Item(next), late) => self.take(next, late)?,
            (_, Some(late)) => self.stage.write(late)?,
            (Received::Empty, None) => return Ok(Progress::Blocked),
            (Received::Closed, None) => return Ok(Progress::Done),
        }
        Ok(Progress::Progressed)
    }
}
