//! Accelerators: what a machine offers, and how they are taken.

use std::sync::Arc;

use stepwell_device::{Choice, Device, Offer, Wanted};

use crate::HostProducts;

/// Accelerators of a machine.
pub trait Devices: Send + Sync {
    /// What there is of `choice`, none for the host alone; `note` is told why devices that are
    /// there cannot be used, where nobody asked for them.
    ///
    /// # Errors
    /// One line that says what is missing.
    fn offer(&self, choice: &Choice, note: &dyn Fn(String)) -> Result<Option<Offer>, String> {
        choice.offer(note)
    }

    /// Takes what was offered.
    ///
    /// # Errors
    /// One line that says what is missing.
    fn open(&self, offer: &Offer, wanted: Wanted) -> Result<Vec<Device>, String> {
        offer.open(wanted, Arc::new(HostProducts::default()))
    }
}

/// The accelerators of this machine, and emulated ones whose streams have threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accelerators;

impl Devices for Accelerators {}
