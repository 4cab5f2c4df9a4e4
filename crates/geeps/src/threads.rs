//! A driver with a thread for each machine, next to the application's.

use std::ops::Deref;
use std::sync::Arc;
use std::task::Poll;
use std::thread::{Builder, JoinHandle};

use stepwell_base::clock::Clock;
use stepwell_base::stage::{self, FullSpeed, Rhythm};
use stepwell_fabric::Fabric;

use crate::geeps::{Geeps, ShardRows};
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::{Error, Result};

/// A parameter server whose machines run on threads. Dropping it without [`Running::finish`] fails
/// it, and all ranks with it.
///
/// ```
/// use std::sync::Arc;
///
/// use stepwell_base::clock::SystemClock;
/// use stepwell_base::{Key, TableId};
/// use stepwell_geeps::{Applies, Geeps, Initial, Running, Settings, Staleness, TableSettings};
///
/// let keys = [Key(7), Key(8)];
/// let table = TableSettings {
///     name: "weights".to_owned(),
///     row_floats: 3,
///     keys: keys.to_vec(),
///     initial: Initial::Zeros,
///     applies: Applies::ByClock,
/// };
/// let settings = Settings { tables: vec![table], ..Settings::default() };
/// let iterate = |server: &Geeps| -> stepwell_geeps::Result<()> {
///     let table = TableId(0);
///     let mut weights = server.read(table, &keys, Staleness::BSP)?.wait()?;
///     let mut update = server.pre_update(table, &keys)?.wait()?;
///     if !weights.is_virtual() {
///         for (step, weight) in update.values()?.iter_mut().zip(weights.values()?) {
///             *step = 1.0 - *weight / 2.0;
///         }
///     }
///     server.post_read(weights)?;
///     server.update(update)?;
///     server.table_clock(table)
/// };
/// let ranks = stepwell_fabric::threads(2).into_iter();
/// let clock = Arc::new(SystemClock::new());
/// let start = |rank| Running::start(&settings, rank, clock.clone());
/// let workers: Vec<_> = ranks.map(start).collect::<Result<_, _>>()?;
/// std::thread::scope(|scope| {
///     let iterate = &iterate;
///     let threads = workers.into_iter().map(|worker| {
///         scope.spawn(move || -> stepwell_geeps::Result<()> {
///             worker.begin_virtual()?;
///             iterate(&worker)?;
///             worker.end_virtual()?;
///             (0..2).try_for_each(|_| iterate(&worker))?;
///             for (_, row) in &worker.finish()?.shard[0] {
///                 assert_eq!(row, &[2.0; 3]);
///             }
///             Ok(())
///         })
///     });
///     let threads: Vec<_> = threads.collect();
///     threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
/// })?;
/// # Ok::<(), stepwell_geeps::Error>(())
/// ```
#[derive(Debug)]
pub struct Running {
    geeps: Geeps,
    threads: Vec<JoinHandle<()>>,
    is_finished: bool,
}

/// Results of a parameter server that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The rows of this rank's shard, by table.
    pub shard: Vec<ShardRows>,
    /// Statistics of the run.
    pub statistics: Statistics,
}

impl Running {
    /// Starts one end of a parameter server; all ranks of `fabric` must.
    ///
    /// # Errors
    /// If settings are invalid, a device refuses, or the system has no threads.
    pub fn start(settings: &Settings, fabric: Fabric, clock: Arc<dyn Clock>) -> Result<Self> {
        let (geeps, machines) = Geeps::new(settings, fabric, Arc::clone(&clock))?;
        let events = Arc::clone(&geeps.shared.events);
        let mut running = Self { geeps, threads: Vec::new(), is_finished: false };
        let rhythm = Rhythm { events, clock, pace: Arc::new(FullSpeed) };
        for machine in machines {
            let (name, rhythm) = (machine.name(), rhythm.clone());
            // The machine itself reports errors to the application.
            let drive = move || drop(stage::drive_here(machine, &rhythm));
            let thread = Builder::new().name(format!("geeps {name}")).spawn(drive);
            let thread = thread.map_err(|error| Error::NoThread { name, why: error.to_string() });
            match thread {
                Ok(thread) => running.threads.push(thread),
                Err(error) => {
                    running.geeps.shared.fail(&error);
                    return Err(error);
                }
            }
        }
        Ok(running)
    }

    /// Closes it, waits until all ranks have done so, and returns what remains. No messages are in
    /// flight then, and the fabric may be ended.
    ///
    /// # Errors
    /// As for [`Geeps::close`], and any failure until then.
    pub fn finish(mut self) -> Result<Finished> {
        self.geeps.close()?;
        let events = Arc::clone(&self.geeps.shared.events);
        let shard = loop {
            let seen = events.count();
            if let Poll::Ready(shard) = self.geeps.poll_closed()? {
                break shard;
            }
            self.geeps.shared.check()?;
            events.wait_past(seen);
        };
        self.is_finished = true;
        Ok(Finished { shard, statistics: self.geeps.statistics() })
    }
}

impl Deref for Running {
    type Target = Geeps;

    fn deref(&self) -> &Geeps {
        &self.geeps
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_finished {
            self.geeps.fail("its application ended before the others");
        }
        for thread in self.threads.drain(..) {
            // The machine reported a panic.
            drop(thread.join());
        }
    }
}
