//! The machines of a rank, with error handling: the first error ends all, on all ranks.

use std::sync::Arc;

use stepwell_base::stage::{BoxedStage, Progress, Stage};

use crate::allocator::Allocator;
use crate::keeper::Keeper;
use crate::puller::Puller;
use crate::pusher::Pusher;
use crate::reclaimer::Reclaimer;
use crate::state::Shared;
use crate::{Error, Result};

/// Number of machines of a rank.
pub(crate) const MACHINES: usize = 5;

/// All machines of a rank.
pub(crate) fn machines(shared: &Arc<Shared>) -> Vec<BoxedStage<Error>> {
    let machines: [BoxedStage<Error>; MACHINES] = [
        Box::new(Keeper::new(shared)),
        Box::new(Pusher::new(shared)),
        Box::new(Puller::new(shared)),
        Box::new(Allocator::new(shared)),
        Box::new(Reclaimer::new(shared)),
    ];
    let watch = |machine| Box::new(Watched { shared: Arc::clone(shared), machine }) as _;
    machines.into_iter().map(watch).collect()
}

/// A machine whose failure fails the server.
struct Watched {
    shared: Arc<Shared>,
    machine: BoxedStage<Error>,
}

impl Watched {
    fn told<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|error| self.shared.fail(error))
    }
}

impl Stage for Watched {
    type Error = Error;

    fn name(&self) -> &'static str {
        self.machine.name()
    }

    fn poll(&mut self) -> Result<Progress> {
        if self.shared.lock().failed.is_some() {
            return Ok(Progress::Done);
        }
        let outcome = self.machine.poll();
        let progress = self.told(outcome)?;
        if progress == Progress::Done {
            self.shared.lock().done += 1;
            self.shared.events.notify();
        }
        Ok(progress)
    }

    fn wait(&mut self) -> Result<()> {
        let outcome = self.machine.wait();
        self.told(outcome)
    }

    fn gives_way(&self) -> bool {
        self.machine.gives_way()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(&Error::Panicked(self.machine.name()));
        }
    }
}
