//! Where the time of each stage goes, while it goes: the driver of threads, with a look at the
//! clock around each poll that moves something. Used where somebody draws curves alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stepwell_base::stage::{BoxedStage, Driver, Ended, Progress, Rhythm, Stage, Threads};

/// Seconds that stages were busy, by name; those of several workers or ranks together.
#[derive(Debug, Default)]
pub(crate) struct StageClocks(Mutex<Vec<(&'static str, Arc<AtomicU64>)>>);

impl StageClocks {
    /// The clock of all stages of this name.
    fn of(&self, name: &'static str) -> Arc<AtomicU64> {
        let mut clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, clock)) = clocks.iter().find(|(known, _)| *known == name) {
            return Arc::clone(clock);
        }
        let clock = Arc::<AtomicU64>::default();
        clocks.push((name, Arc::clone(&clock)));
        clock
    }

    /// Seconds so far, in the order of the pipeline.
    pub(super) fn busy(&self) -> Vec<(&'static str, f64)> {
        let clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds =
            |clock: &AtomicU64| Duration::from_nanos(clock.load(Ordering::Relaxed)).as_secs_f64();
        clocks.iter().map(|(name, clock)| (*name, seconds(clock))).collect()
    }
}

/// A thread for each stage, and its clock.
#[derive(Debug)]
pub(crate) struct Watched(pub(crate) Arc<StageClocks>);

impl<E: Send + 'static> Driver<E> for Watched {
    fn drive(&self, stages: Vec<BoxedStage<E>>, rhythm: &Rhythm) -> Vec<Ended<E>> {
        let watched = stages.into_iter().map(|stage| -> BoxedStage<E> {
            let busy = self.0.of(stage.name());
            Box::new(WatchedStage { stage, busy })
        });
        Threads.drive(watched.collect(), rhythm)
    }
}

struct WatchedStage<E> {
    stage: BoxedStage<E>,
    busy: Arc<AtomicU64>,
}

impl<E> Stage for WatchedStage<E> {
    type Error = E;

    fn name(&self) -> &'static str {
        self.stage.name()
    }

    fn poll(&mut self) -> Result<Progress, E> {
        let began = Instant::now();
        let progress = self.stage.poll()?;
        if matches!(progress, Progress::Progressed | Progress::Pending) {
            let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.busy.fetch_add(nanos, Ordering::Relaxed);
        }
        Ok(progress)
    }

    fn wait(&mut self) -> Result<(), E> {
        self.stage.wait()
    }

    fn gives_way(&self) -> bool {
        self.stage.gives_way()
    }

    fn due(&self) -> Option<f64> {
        self.stage.due()
    }
}
