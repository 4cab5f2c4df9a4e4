//! Events: points in a stream that others wait for.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Result;
use crate::check::Clock;
use crate::device::Device;
use crate::shared::Shared;

/// A point in a stream, once recorded there.
#[derive(Debug)]
pub struct Event {
    pub(crate) device: Arc<Shared>,
    pub(crate) number: u64,
    /// The checker's clock when it was recorded, if both exist.
    pub(crate) clock: Mutex<Option<Clock>>,
}

impl Device {
    /// Creates an event, which counts as over until it is recorded.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn event(&self) -> Result<Event> {
        Event::new(Arc::clone(&self.0))
    }
}

impl Event {
    pub(crate) fn new(device: Arc<Shared>) -> Result<Self> {
        let number = device.driver.event()?;
        Ok(Self { device, number, clock: Mutex::default() })
    }

    /// Whether it is over; then everything before it is, for the caller.
    ///
    /// # Errors
    /// Failures of operations before it.
    pub fn is_over(&self) -> Result<bool> {
        let over = self.device.driver.is_over(self.number)?;
        if over {
            self.met();
        }
        Ok(over)
    }

    /// Waits until it is over.
    ///
    /// # Errors
    /// Failures of operations before it.
    pub fn wait(&self) -> Result<()> {
        self.device.driver.wait(self.number)?;
        self.met();
        Ok(())
    }

    fn met(&self) {
        if let (Some(checker), Some(clock)) = (&self.device.checker, &*self.clock()) {
            checker.host_waited(clock);
        }
    }

    pub(crate) fn clock(&self) -> std::sync::MutexGuard<'_, Option<Clock>> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.driver.end_event(self.number);
    }
}
