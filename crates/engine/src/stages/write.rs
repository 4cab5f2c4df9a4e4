//! Stage `write`: writes staged rows to the store.

use std::sync::Arc;

use stepwell_base::queue::{Events, Received, Receiver};
use stepwell_base::stage::{Progress, Stage};

use crate::group::Group;
use crate::staging::StagedRows;
use crate::{Error, Result};

/// A buffer of staged rows of a table group.
pub(super) struct Down {
    /// Number of the group.
    pub(super) group: usize,
    pub(super) buffer: Arc<StagedRows>,
}

/// Stage `write`: puts staged rows into the store.
pub(super) struct WriteStage {
    pub(super) groups: Vec<Arc<Group>>,
    pub(super) input: Receiver<Down>,
    /// Signaled when a buffer lands, which no queue shows.
    events: Arc<Events>,
}

impl WriteStage {
    pub(super) fn new(groups: &[Arc<Group>], input: Receiver<Down>, events: Arc<Events>) -> Self {
        Self { groups: groups.to_vec(), input, events }
    }

    pub(super) fn write(&self, Down { group, buffer }: Down) -> Result<()> {
        self.groups[group].write_back(buffer)?;
        self.events.notify();
        Ok(())
    }
}

impl Stage for WriteStage {
    type Error = Error;

    fn name(&self) -> &'static str {
        "write"
    }

    /// Filling slots needs buffers that this stage frees.
    fn gives_way(&self) -> bool {
        false
    }

    fn poll(&mut self) -> Result<Progress> {
        match self.input.try_recv() {
            Received::Item(down) => self.write(down).map(|()| Progress::Progressed),
            Received::Empty => Ok(Progress::Blocked),
            Received::Closed => Ok(Progress::Done),
        }
    }
}
