//! Busy time of each stage while the run is going: the driver of threads, which also measures each
//! poll that makes progress. Used only for curves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stepwell_base::stage::{BoxedStage, Driver, Ended, Progress, Rhythm, Stage, Threads};

/// Seconds that stages were busy, by name, summed over workers and ranks.
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

    /// Busy seconds so far, in the order of the pipeline.
    pub(super) fn busy(&self) -> Vec<(&'static str, f64)> {
        let clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds =
            |clock: &AtomicU64| Duration::from_nanos(clock.load(Ordering::Relaxed)).as_secs_f64();
        clocks.iter().map(|(name, clock)| (*name, seconds(clock))).collect()
    }
}

/// A driver with a thread and a clock for each stage.
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
